/* Any bytes as an envelope, and what is in it (or the bytes themselves) as each message of the
 * process service. What is taken is within the bounds the core relies on. */
#include "fuzz.h"

#include "front/e2b/envd/process_spec.h"
#include "front/e2b/envd/rpc_base64_stream.h"

unsigned long fuzz_accepted;

static size_t strings(const struct buf *b)
{
	size_t n = 0;

	assert(b->len == 0 || b->data[b->len - 1] == '\0');
	for (size_t i = 0; i < b->len; i++)
		n += b->data[i] == '\0';
	return n;
}

static void start(const json_t *message, struct err *e)
{
	static char text[4 * PROCESS_SPEC_CLIENT_MAX];
	struct process_spec s;
	struct json j;

	if (process_spec_read(message, &s, e) == 0) {
		fuzz_accepted++;
		assert(s.argc > 0 && s.strings.data[0] != '\0');
		assert(strings(&s.strings) == s.argc + s.envc);
		process_spec_default(&s, "A=1", 4, "E2B_SANDBOX", "true");
		assert(strings(&s.strings) == s.argc + s.envc);
		assert(strlen(s.client) < PROCESS_SPEC_CLIENT_MAX);
		json_init(&j, text, sizeof(text));
		json_open(&j, NULL, '{');
		process_spec_show(&j, s.client, "");
		json_close(&j, '}');
		assert(json_ok(&j));
	}
	process_spec_release(&s);
}

static void others(const json_t *message, struct err *e)
{
	struct process_selector which;
	json_t *input = NULL;
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (process_selector_read(message, &which, e) == 0)
		fuzz_accepted++;
	process_selector_release(&which);
	if (rpc_object(message, "input", &input, e) == 0 &&
	    rpc_bytes(input, "stdin", &bytes, &n, e) == 0 && bytes != NULL) {
		fuzz_accepted++;
		for (size_t i = 0; i < n; i++)
			*(volatile uint8_t *)&bytes[i] = bytes[i];
	}
	free(bytes);
}

/* However a message comes in, the same is lifted out of it; and what is left is the message with
 * the mark in it, which is shorter. */
static void lift(const uint8_t *data, size_t size)
{
	struct rpc_base64_stream whole, cut;
	struct err e = { 0 };
	size_t step = size == 0 ? 1 : 1 + data[size / 2] % 61;
	int a, b = 0;

	rpc_base64_stream_init(&whole, 1U << 20, 1U << 20);
	rpc_base64_stream_init(&cut, 1U << 20, 1U << 20);
	a = rpc_base64_stream_add(&whole, data, size, &e);
	for (size_t i = 0; b == 0 && i < size; i += step) {
		uint8_t *piece = fuzz_copy(data + i, size - i < step ? size - i : step);

		b = rpc_base64_stream_add(&cut, piece, size - i < step ? size - i : step, &e);
		free(piece);
	}
	assert(a == b);
	if (a == 0) {
		assert(whole.text.len == cut.text.len && whole.bytes.len == cut.bytes.len);
		assert(size == 0 || memcmp(whole.text.data, cut.text.data, cut.text.len) == 0);
		assert(cut.bytes.len == 0 ||
		       memcmp(whole.bytes.data, cut.bytes.data, cut.bytes.len) == 0);
		assert(whole.lifted || whole.text.len == size);
		fuzz_accepted += whole.lifted;
	}
	rpc_base64_stream_release(&whole);
	rpc_base64_stream_release(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = fuzz_copy(data, size);
	const uint8_t *text = copy;
	size_t len = size;
	struct err e = { 0 };
	json_t *message;

	if (rpc_envelope_read(copy, size, 1U << 20, &text, &len, &e) == 1) {
		fuzz_accepted++;
		assert(text == copy + RPC_ENVELOPE_HEAD && len <= size - RPC_ENVELOPE_HEAD);
	} else {
		text = copy;
		len = size;
	}
	lift(text, len);
	memset(&e, 0, sizeof(e));
	message = rpc_parse(text, len, &e);
	assert((message == NULL) == (e.code != ERR_NONE));
	if (message != NULL) {
		start(message, &e);
		others(message, &e);
	}
	json_decref(message);
	free(copy);
	return 0;
}
