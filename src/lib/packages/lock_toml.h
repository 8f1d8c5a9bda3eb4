/* lock_toml.h - reads the part of TOML that lockfiles use, as a list of plain values. Pure,
 * bounded, no memory of its own. Private to src/lib/packages.
 *
 * Tables are named by their dotted path. Values inside inline tables have dotted keys, and arrays
 * add nothing: "wheels = [{ hash = 'x' }]" is the value 'x' of the key "wheels.hash". */
#pragma once

#include "lib/packages/lock_out.h"

enum toml_kind {
	TOML_TABLE,	  /* [table] */
	TOML_ARRAY_TABLE, /* [[table]] */
	TOML_VALUE	  /* key = value, in the table before */
};

#define TOML_PATH_MAX 300

/* A table or a value, borrowed until the callback returns. */
struct toml_event {
	enum toml_kind kind;
	unsigned line;
	const char *table; /* "" before the first one */
	const char *key;   /* of a value */
	const char *p;	   /* its bytes. A text has no quotes, and its escapes are not decoded */
	size_t n;
	bool text;
};

/* A text being read. */
#define TOML_DEPTH_MAX 16
struct toml {
	struct lock_out *o;
	const char *p, *end;
	unsigned line, depth;
	enum { TOML_AT_TOP, TOML_BEHIND_TOP, TOML_AT_MEMBER, TOML_BEHIND_MEMBER } state;
	/* The arrays and inline tables around p. */
	struct {
		char close;
		size_t key; /* the length of the key of the table itself */
	} open[TOML_DEPTH_MAX];
	char table[TOML_PATH_MAX], key[TOML_PATH_MAX];
	int (*on_event)(void *arg, const struct toml_event *event);
	void *arg;
};

/* Begin to read the text of o. */
void toml_begin(struct toml *t, struct lock_out *o,
		int (*on_event)(void *arg, const struct toml_event *event), void *arg);
/* Read the next table or value. 1: there is more. 0: the text has ended. -1: failed with the error
 * of on_event, or with a line. */
int toml_step(struct toml *t) MUST_USE;
