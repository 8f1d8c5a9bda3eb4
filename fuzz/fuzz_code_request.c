/* Bodies of POST /execute and POST /contexts: what is accepted is within its bounds, and the code
 * that the kernel gets, in ASCII and on one line, decodes to what the client sent. */
#include "fuzz.h"

#include "incell/interpreter/ascii_json.h"
#include "incell/interpreter/code_request.h"

unsigned long fuzz_accepted;

static void check_word(const char *word, size_t cap)
{
	assert(strnlen(word, cap) < cap);
}

/* As it is sent on: one line of ASCII with the same meaning. */
static void check_passed_on(struct json_value v)
{
	struct buf line = BUF_INIT(8U << 20), before = BUF_INIT(1U << 20),
		   after = BUF_INIT(1U << 20);
	struct json_value again;
	struct err e;

	ascii_json_value(&line, v);
	assert(buf_check(&line, &e) == 0);
	for (size_t i = 0; i < line.len; i++)
		assert(line.data[i] >= 0x20 && line.data[i] < 0x7f);
	assert(json_read(buf_text(&line), line.len, 64, &again, &e) == 0 && again.kind == v.kind);
	if (v.kind == JSON_READ_TEXT) {
		assert(json_read_text(v, &before, &e) == 0 &&
		       json_read_text(again, &after, &e) == 0);
		assert(before.len == after.len);
		assert(before.len == 0 || memcmp(before.data, after.data, before.len) == 0);
	}
	buf_release(&line);
	buf_release(&before);
	buf_release(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct code_request r;
	char *text = fuzz_copy(data, size);
	struct err e;

	if (code_request_execute(text, size, &r, &e) == 0) {
		fuzz_accepted++;
		assert(r.code.kind == JSON_READ_TEXT && r.code.n <= CODE_REQUEST_CODE_MAX);
		assert(r.env.kind == JSON_READ_NONE || code_request_is_env(r.env));
		assert(r.context_id[0] == '\0' || r.language[0] == '\0');
		check_word(r.context_id, sizeof(r.context_id));
		check_word(r.context_name, sizeof(r.context_name));
		check_passed_on(r.code);
		if (r.env.kind != JSON_READ_NONE)
			check_passed_on(r.env);
	}
	if (code_request_context(text, size, &r, &e) == 0) {
		check_word(r.language, sizeof(r.language));
		check_word(r.cwd, sizeof(r.cwd));
		assert(r.cwd[0] == '\0' || r.cwd[0] == '/');
		for (const char *p = r.language; *p != '\0'; p++)
			assert(*p < 'A' || *p > 'Z');
	}
	free(text);
	return 0;
}
