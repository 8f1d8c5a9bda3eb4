/* doc_json.h - JSON of registries, read as it arrives, in pieces of any size. Reports structure and
 * raw bytes, so that a document can be copied with changes, and decodes what the caller wants.
 * Used by readers of metadata and by shaping. Pure; strict JSON, bounded.
 *
 * Names of members are always decoded. A text is decoded if the caller sets `want` at DOC_STRING;
 * one that is too long, not UTF-8, has a NUL or half a surrogate pair is `odd`, and only its
 * beginning is there: the caller decides whether that matters. Texts that are not wanted are passed
 * on as raw bytes, whatever is in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define DOC_JSON_DEPTH 32
#define DOC_JSON_KEY 1024 /* of a name, as written and decoded; longer: ERR_LIMIT */
#define DOC_JSON_TEXT 4096
#define DOC_JSON_WORD 64 /* of a number */

enum doc_event {
	DOC_OPEN, /* an object or array (j->array); the caller sets j->place[j->depth] */
	DOC_CLOSE,
	DOC_KEY,    /* j->key, nkey; bytes: as written, with quotes */
	DOC_STRING, /* a text begins */
	DOC_RAW,    /* a piece of it as written, quotes included */
	DOC_STRING_END,
	DOC_WORD, /* bytes: a number, true, false or null */
};

struct doc_json {
	/* May set j->fault. */
	void (*on)(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
	void *arg;
	/* Of containers: which one it is, in the caller's words; 0 outside of all. At DOC_OPEN and
	 * DOC_CLOSE place[depth] is the container's, place[depth - 1] that of what it is in. */
	uint8_t place[DOC_JSON_DEPTH + 1];
	unsigned depth;
	bool array; /* at DOC_OPEN and DOC_CLOSE */
	bool want;
	char key[DOC_JSON_KEY], text[DOC_JSON_TEXT]; /* NUL-terminated */
	size_t nkey, ntext;
	bool key_odd, odd; /* the name, from DOC_KEY on; the text, at DOC_STRING_END if wanted */
	/* The first thing that was wrong, NULL if nothing; code of the error. */
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
/* Fails unless exactly one value was there. */
int doc_json_end(struct doc_json *j, struct err *e) MUST_USE;
/* Refuses the document, from a callback. */
void doc_json_refuse(struct doc_json *j, enum err_code code, const char *why);

/* Is the name of the member that is being read this one? Never in an array. */
bool doc_json_key_is(const struct doc_json *j, const char *name);
bool doc_json_in_array(const struct doc_json *j);
