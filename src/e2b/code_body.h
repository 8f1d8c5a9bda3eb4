/* code_body.h - the body of POST /execute as it passes to the interpreter: the hash of the code,
 * its language and its context, for the record. Pure; keeps no code. Called by code_call.c.
 *
 * Strict: a body that is not understood here must not reach the interpreter, which could understand
 * it in another way. So is one in which a member comes twice, or has an escape sequence in its
 * name, or in which a text has half a surrogate pair; and one that names a context by context_name,
 * which the record does not have. */
#pragma once

#include "json_scan.h"
#include "sha256.h"

#define CODE_BODY_WORD 64

struct code_body {
	struct json_scan scan;
	struct sha256 sum;
	unsigned named, seen; /* members that came; with a string */
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
/* Of code for a context the language is that of the context, which is not known here: "". */
const char *code_body_language(const struct code_body *b);
/* "" if it is not there. In both, bytes that are no letter, digit or one of "_.+-" are shown as
 * '?'. */
const char *code_body_context(const struct code_body *b);
