/* Whatever an interpreter answers to code, in whatever pieces it comes: with a mask, each line that
 * was JSON is JSON afterwards, no value of a secret is left in a line that is not output nor in the
 * text of output, and the same comes out of other pieces. Without one, nothing is changed. The same
 * bytes are also read as the body of a request. */
#include "fuzz.h"

#include "front/e2b/code/code_answer.h"
#include "front/e2b/code/code_body.h"
#include "json_check.h"

#define VALUE "sec\"ret"

unsigned long fuzz_accepted;

static struct mask *make_mask(void)
{
	static const char *const values[] = { VALUE, "31415926" };
	const size_t lens[] = { strlen(values[0]), strlen(values[1]) };
	struct err e;
	struct mask *m = mask_new(values, lens, 2, NULL, 0, &e);

	assert(m != NULL);
	return m;
}

static void pass(const struct mask *m, const uint8_t *data, size_t n, size_t piece, bool is_text,
		 struct code_answer *k, struct buf *out)
{
	code_answer_init(k, is_text);
	buf_init(out, 64U << 20);
	for (size_t at = 0; at < n; at += piece)
		code_answer_feed(k, m, data + at, n - at < piece ? n - at : piece, out);
	code_answer_end(k, m, out);
	assert(!out->full && !code_answer_holds(k));
	code_answer_release(k);
}

/* How many lines of the text are JSON. */
static size_t count_json(const uint8_t *data, size_t n)
{
	size_t from = 0, good = 0;

	for (size_t i = 0; i < n; i++)
		if (data[i] == '\n') {
			good += i > from && json_check_valid((const char *)data + from, i - from);
			from = i + 1;
		}
	return good;
}

static void check_masked(const struct mask *m, const uint8_t *data, size_t n, size_t piece)
{
	struct code_answer a, b;
	struct buf whole, parts;

	pass(m, data, n, CODE_ANSWER_PIECE, true, &a, &whole);
	assert(whole.len == n && memmem(whole.data, whole.len, VALUE, strlen(VALUE)) == NULL);
	buf_release(&whole);
	pass(m, data, n, CODE_ANSWER_PIECE, false, &a, &whole);
	pass(m, data, n, piece, false, &b, &parts);
	assert(a.failed == b.failed && a.over == b.over);
	assert(memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0);
	assert(memmem(whole.data, whole.len, "sec\\\"ret", 8) == NULL);
	assert(memmem(parts.data, parts.len, "sec\\\"ret", 8) == NULL);
	if (memmem(data, n, "{\"type\":\"std", 12) == NULL) { /* no output: line by line */
		assert(count_json(whole.data, whole.len) >= count_json(data, n));
		assert(whole.len == parts.len && memcmp(whole.data, parts.data, whole.len) == 0);
	}
	fuzz_accepted += a.over;
	buf_release(&whole);
	buf_release(&parts);
}

static void check_plain(const uint8_t *data, size_t n, size_t piece)
{
	struct code_answer k, noted;
	struct buf out;

	pass(NULL, data, n, piece, false, &k, &out);
	assert(out.len >= n && memcmp(out.data == NULL ? data : out.data, data, n) == 0);
	code_answer_init(&noted, false);
	code_answer_note(&noted, data, n);
	assert(noted.over == k.over && memcmp(noted.bytes, k.bytes, sizeof(k.bytes)) == 0);
	code_answer_release(&noted);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mask *m;
	size_t piece = size == 0 ? 1 : 1 + data[0] % 64;
	struct code_body body;
	uint8_t *copy = fuzz_copy(data, size);

	if (m == NULL)
		m = make_mask();
	check_masked(m, copy, size, piece);
	check_plain(copy, size, piece);
	code_body_init(&body);
	code_body_feed(&body, copy, size);
	fuzz_accepted += code_body_is_whole(&body) && code_body_has_code(&body);
	free(copy);
	return 0;
}
