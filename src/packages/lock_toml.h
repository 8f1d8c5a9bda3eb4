/* lock_toml.h - reads as much of TOML as lockfiles have, as a list of plain values. Pure, bounded,
 * no memory of its own; private to src/packages.
 *
 * Tables are named by their dotted path; values inside inline tables have dotted keys, and arrays
 * add nothing: "wheels = [{ hash = 'x' }]" is the value 'x' of the key "wheels.hash". */
#pragma once

#include "lock_out.h"

enum toml_kind {
	TOML_TABLE,	  /* [table] */
	TOML_ARRAY_TABLE, /* [[table]] */
	TOML_VALUE	  /* key = value, in the table before */
};

#define TOML_PATH_MAX 300

struct toml_event {
	enum toml_kind kind;
	unsigned line;
	const char *table; /* "" before the first one */
	const char *key;   /* of a value */
	const char *p;	   /* its bytes; of a text without quotes and with escapes as they stand */
	size_t n;
	bool text;
};

int toml_read(struct lock_out *o, const char *text, size_t len,
	      int (*on_event)(void *arg, const struct toml_event *event), void *arg) MUST_USE;
