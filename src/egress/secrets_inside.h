/* secrets_inside.h - what the files secrets*.c share. */
#pragma once

#include "host.h"
#include "secrets.h"

#define SECRETS_MAX 64 /* as many as a set has bits */
#define SECRETS_LIST_MAX 32
#define SECRETS_NAME_MAX 64
#define SECRETS_PLACEHOLDER_MIN 16 /* nothing that a program could say by chance */

struct secret {
	char name[SECRETS_NAME_MAX];
	char *value; /* owned, not NUL-terminated */
	size_t len;
	char *placeholder; /* owned; NULL: none, only rules put it in */
	size_t placeholder_len;
	struct host_pattern *hosts; /* owned; none: where a rule names it */
	size_t nhosts;
	char **methods, **paths;  /* owned, NULL at the end; NULL: all */
	char **headers, **fields; /* owned, NULL at the end: headers and fields it is for */
	bool in_header, in_basic; /* in_header: in any */
	uint64_t expires_ms;	  /* 0: never */
};

/* A further value that is masked: one that was replaced, or that the cell holds itself. */
struct secret_other {
	char name[SECRETS_NAME_MAX]; /* "": it is masked in records only */
	struct host_pattern *hosts;  /* owned */
	size_t nhosts;
};

/* The mask's values are those of `all`, then those of `others`. */
struct secrets {
	struct secret all[SECRETS_MAX];
	size_t n;
	struct secret_other *others; /* owned */
	size_t nothers;
	struct mask *mask; /* owned */
	/* secrets_place.c: */
	uint8_t places[SECRETS_MAX]; /* those that have a placeholder, sorted by it */
	size_t nplaces;
	size_t prefix; /* bytes that all placeholders begin with */
};

bool secrets_host_fits(const struct host_pattern *hosts, size_t n, const char *host);
/* May it be put into this request? */
bool secrets_may(const struct secret *s, const struct secrets_use *u);
/* It was. */
void secrets_note(const struct secret *s, struct secrets_use *u);
/* Once, when all are read. A placeholder that begins with another one is refused. */
int secrets_places_make(struct secrets *s, struct err *e) MUST_USE;
/* The secret whose placeholder is the next at *at or behind it; sets *at to where it begins. NULL:
 * there is none. */
const struct secret *secrets_place(const struct secrets *s, struct http1_span text, size_t *at);
