/* code_body.h - the body of POST /execute as it passes to the interpreter: the hash of the code,
 * its language and its context, for the record. Pure. Keeps no code. Called by code_call.c.
 *
 * Strict: a body not understood here must not reach the interpreter, which could understand it in
 * another way. So bodies are refused in which a member comes twice, has an escape sequence in its
 * name, or a text has half a surrogate pair. A context_name is refused, too, because the record has
 * no such name. */
#pragma once

#include "lib/base/sha256.h"
#include "lib/json/json_scan.h"

#define CODE_BODY_WORD 64

struct code_body {
	struct json_scan scan;
	struct sha256 sum;
	unsigned named, seen; /* members that came, members with a string */
	int member;	      /* whose text is being read */
	char words[2][CODE_BODY_WORD];
	size_t lengths[2];
};

void code_body_init(struct code_body *b);
void code_body_feed(struct code_body *b, const uint8_t *data, size_t n);

/* After the last byte. False: it is no JSON object that can be read. */
bool code_body_is_whole(const struct code_body *b);
/* Is there code in it? Without any the interpreter refuses it. */
bool code_body_has_code(const struct code_body *b);
void code_body_hash(struct code_body *b, uint8_t ret[SHA256_SIZE]);
/* "" for code with a context: the context's language is unknown here. */
const char *code_body_language(const struct code_body *b);
/* "" if absent. Both show bytes other than letters, digits and "_.+-" as '?'. */
const char *code_body_context(const struct code_body *b);
