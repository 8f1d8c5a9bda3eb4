/* json_scan.h - reads JSON that arrives in pieces, without keeping it, and reports its values.
 * Used by cordon-egress (llm_call.c, secrets_body.c) and cordond (front/e2b/code/code_body.c,
 * code_answer.c). Pure, bounded. Strict, so that other readers see the same structure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_SCAN_DEPTH 24
#define JSON_SCAN_KEY 40 /* with its NUL. A longer name, or one with a NUL, is reported as "" */
#define JSON_SCAN_SCALAR 32

struct json_scan;

/* All may be NULL. The scanner's `at` is the offset of the byte being read. */
struct json_scan_calls {
	/* The name of a member was read: json_scan_key(), escaped. False: the text is bad. */
	bool (*on_name)(struct json_scan *s);
	/* A string value begins (at: its quote). True: its text is wanted. */
	bool (*on_string)(struct json_scan *s);
	void (*on_text)(struct json_scan *s, const char *bytes, size_t n); /* decoded, in pieces */
	void (*on_string_end)(struct json_scan *s);		  /* at: its closing quote */
	void (*on_scalar)(struct json_scan *s, const char *word); /* a number, true, false, null */
};

struct json_scan_level {
	bool array;
	char key[JSON_SCAN_KEY]; /* of an object: the member being read */
};

struct json_scan {
	const struct json_scan_calls *calls;
	void *arg;	  /* the caller's */
	bool keep_nul;	  /* set by the caller: \u0000 is a NUL, else U+FFFD */
	bool whole_pairs; /* set by the caller: half a surrogate pair is bad, else U+FFFD */
	uint64_t at;
	bool bad, done; /* done: the value is complete. Only white space may follow */
	/* Private. */
	unsigned state, depth;
	struct json_scan_level level[JSON_SCAN_DEPTH];
	bool escaped; /* the last name was written with an escape sequence */
	bool in_key, wanted;
	char word[JSON_SCAN_SCALAR];
	size_t nword;
	unsigned digits, code, high; /* of an escape */
	char piece[64];
	size_t npiece;
};

void json_scan_init(struct json_scan *s, const struct json_scan_calls *calls, void *arg);
void json_scan_feed(struct json_scan *s, const uint8_t *data, size_t n);
/* Is the value at "usage.tokens", or "choices.[].text"? */
bool json_scan_is(const struct json_scan *s, const char *path);
/* The name of the member being read. "" in an array. */
const char *json_scan_key(const struct json_scan *s);
