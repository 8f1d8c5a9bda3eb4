/* doc_json.h - reads JSON of registries as it arrives, in pieces of any size. It reports structure
 * and raw bytes, so that a document can be copied with changes, and decodes the texts that the
 * caller wants. Used by readers of metadata and by shaping. Pure. Strict JSON, bounded.
 *
 * Names of members are always decoded. A text is decoded if the caller sets `want` at DOC_STRING. A
 * text is `odd` if it is too long, is not UTF-8, or has a NUL or half a surrogate pair. Then only
 * its beginning is available, and the caller decides whether that matters. Other texts are passed
 * on as raw bytes without a check. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define DOC_JSON_DEPTH 32
#define DOC_JSON_KEY 1024 /* of a name, as written and decoded. A longer name is ERR_LIMIT */
#define DOC_JSON_TEXT 4096
#define DOC_JSON_WORD 64 /* of a number */

enum doc_event {
	DOC_OPEN, /* an object or array (j->array). The caller sets j->place[j->depth] */
	DOC_CLOSE,
	DOC_KEY,    /* j->key, nkey. bytes: as written, with quotes */
	DOC_STRING, /* a text begins */
	DOC_RAW,    /* a piece of the text as written, quotes included */
	DOC_STRING_END,
	DOC_WORD, /* bytes: a number, true, false or null */
};

struct doc_json {
	/* The caller's callback. May set j->fault. */
	void (*on)(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
	void *arg;
	/* The caller's word for each open container, 0 outside of all. At DOC_OPEN and DOC_CLOSE,
	 * place[depth] belongs to the container, place[depth - 1] to the one around it. */
	uint8_t place[DOC_JSON_DEPTH + 1];
	unsigned depth;
	bool array; /* valid at DOC_OPEN and DOC_CLOSE */
	bool want;
	char key[DOC_JSON_KEY], text[DOC_JSON_TEXT]; /* NUL-terminated */
	size_t nkey, ntext;
	bool key_odd, odd; /* of the name from DOC_KEY on, and of a wanted text at DOC_STRING_END */
	/* The first fault, NULL if none, and the code of the error. */
	const char *fault;
	enum err_code code;
	/* Private. */
	unsigned state, digits, unit, high;
	uint64_t arrays;
	bool in_key, opening;
	char raw[DOC_JSON_KEY + 1], word[DOC_JSON_WORD];
	size_t nraw, nword;
};

void doc_json_init(struct doc_json *j,
		   void (*on)(struct doc_json *, enum doc_event, const char *, size_t), void *arg);
int doc_json_feed(struct doc_json *j, const void *bytes, size_t n, struct err *e) MUST_USE;
/* End the document. Fail unless it had exactly one value. */
int doc_json_end(struct doc_json *j, struct err *e) MUST_USE;
/* Refuse the document, from a callback. */
void doc_json_refuse(struct doc_json *j, enum err_code code, const char *why);

/* Does the current member have this name? False in an array. */
bool doc_json_key_is(const struct doc_json *j, const char *name);
bool doc_json_in_array(const struct doc_json *j);
