/* The input is a program for the writer: whatever it writes is JSON, and in a buffer that is too
 * small it is the beginning of it.
 *
 * The first two bytes are the size of the small buffer; then each byte is a call, and a string
 * takes its length from the byte after. */
#include "fuzz.h"

#include "lib/json/json.h"
#include "json_check.h"

unsigned long fuzz_accepted;

#define DEPTH 32
#define PER_BYTE 16 /* most that one byte of the program can make the writer write */

struct input {
	const uint8_t *at, *end;
};

static unsigned take(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* The caller frees it. */
static char *take_text(struct input *in)
{
	size_t want = take(in), left = (size_t)(in->end - in->at), n = want < left ? want : left;
	char *text = fuzz_text(in->at, n);

	in->at += n;
	return text;
}

static void write_value(struct json *j, struct input *in, unsigned call, const char *name)
{
	uint64_t number;
	char *text;

	switch (call) {
	case 0:
		text = take_text(in);
		json_text(j, name, text);
		free(text);
		break;
	case 1:
		number = (uint64_t)take(in) << 56;
		json_uint(j, name, number | take(in));
		break;
	case 2:
		json_bool(j, name, take(in) & 1);
		break;
	case 3:
		json_text(j, name, NULL);
		break;
	default:
		json_none(j, name);
		break;
	}
}

/* Nesting is the caller's work: here it is done right. */
static void run(struct json *j, struct input in)
{
	char closing[DEPTH];
	unsigned depth = 0;

	do {
		unsigned call = take(&in) % 8;
		bool object = depth > 0 && closing[depth - 1] == '}';
		char *name = object && call != 7 ? take_text(&in) : NULL;

		if ((call == 5 || call == 6 || depth == 0) && depth < DEPTH) {
			json_open(j, name, call == 5 ? '{' : '[');
			closing[depth++] = call == 5 ? '}' : ']';
		} else if (call == 7) {
			json_close(j, closing[--depth]);
		} else {
			write_value(j, &in, call, name);
		}
		free(name);
	} while (depth > 0 && in.at < in.end);
	while (depth > 0)
		json_close(j, closing[--depth]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	size_t low = take(&in), cap = 1 + (low | (size_t)take(&in) << 8);
	size_t enough = size * PER_BYTE + 256;
	char *small = malloc(cap), *large = malloc(enough);
	struct json j, whole;

	assert(small != NULL && large != NULL);
	json_init(&whole, large, enough);
	run(&whole, in);
	json_init(&j, small, cap);
	run(&j, in);
	assert(json_ok(&whole) && json_check_valid(large, whole.len));
	assert(json_ok(&j) == (whole.len < cap));
	fuzz_accepted++;
	for (size_t i = 0; i < whole.len; i++)
		assert((unsigned char)large[i] >= 0x20 && large[i] != 0x7f);
	assert(whole.len < enough && large[whole.len] == '\0');
	assert(j.len < cap && small[j.len] == '\0' && j.len <= whole.len);
	assert(memcmp(small, large, j.len) == 0);
	free(small);
	free(large);
	return 0;
}
