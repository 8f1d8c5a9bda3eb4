#include "front/e2b/code/code_body.h"

#include <string.h>

#include "lib/base/kernel.h"

/* Members whose text is read. The first two are words. */
enum code_body_member { LANGUAGE, CONTEXT, CODE, MEMBERS };

static const char *const names[MEMBERS] = { "language", "context_id", "code" };

/* Interpreters differ in which of two members with one name they take, and in whether an escape
 * sequence in a name counts: such bodies are refused, or the record could have other code than what
 * runs. Clients send neither. */
static bool on_name(struct json_scan *s)
{
	struct code_body *b = s->arg;

	if (s->depth != 1)
		return true;
	/* Of cordon-interpreter's own callers: a context that the record would not have. */
	if (strcmp(json_scan_key(s), "context_name") == 0)
		return false;
	for (int i = 0; i < MEMBERS; i++)
		if (strcmp(json_scan_key(s), names[i]) == 0) {
			if ((b->named & 1U << i) != 0)
				return false;
			b->named |= 1U << i;
		}
	return !s->escaped;
}

/* True: the scanner passes the text to on_text(). */
static bool on_string(struct json_scan *s)
{
	struct code_body *b = s->arg;

	for (int i = 0; s->depth == 1 && i < MEMBERS; i++)
		if (strcmp(json_scan_key(s), names[i]) == 0) {
			b->seen |= 1U << i;
			b->member = i;
			return true;
		}
	return false;
}

/* Words are shown in records, so only plain characters stay. */
static char code_body_shown(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c | 0x20);
	if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("_.+-", c)))
		return c;
	return '?';
}

/* White space around a word does not count. A longer word is cut. */
static void add_word(struct code_body *b, const char *bytes, size_t n)
{
	char *word = b->words[b->member];
	size_t *len = &b->lengths[b->member];

	for (size_t i = 0; i < n && *len < CODE_BODY_WORD - 1; i++)
		if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r')
			word[(*len)++] = code_body_shown(bytes[i]);
}

/* Code is hashed, never kept. */
static void on_text(struct json_scan *s, const char *bytes, size_t n)
{
	struct code_body *b = s->arg;

	if (b->member == CODE)
		sha256_add(&b->sum, bytes, n);
	else
		add_word(b, bytes, n);
}

void code_body_init(struct code_body *b)
{
	static const struct json_scan_calls calls = { .on_name = on_name,
						      .on_string = on_string,
						      .on_text = on_text };

	*b = (struct code_body){ 0 };
	json_scan_init(&b->scan, &calls, b);
	b->scan.keep_nul = true;
	b->scan.whole_pairs = true; /* the code would have another hash than what runs */
	sha256_init(&b->sum);
}

void code_body_feed(struct code_body *b, const uint8_t *data, size_t n)
{
	json_scan_feed(&b->scan, data, n);
}

bool code_body_is_whole(const struct code_body *b)
{
	return b->scan.done;
}

bool code_body_has_code(const struct code_body *b)
{
	return (b->seen & 1U << CODE) != 0;
}

/* b->sum stays, so this may be called again. */
void code_body_hash(struct code_body *b, uint8_t ret[SHA256_SIZE])
{
	struct sha256 sum = b->sum;

	sha256_end(&sum, ret);
}

/* Without language and context the interpreter runs Python. */
const char *code_body_language(const struct code_body *b)
{
	bool usual = b->words[LANGUAGE][0] == '\0' && b->words[CONTEXT][0] == '\0';

	return usual ? "python" : b->words[LANGUAGE];
}

const char *code_body_context(const struct code_body *b)
{
	return b->words[CONTEXT];
}
