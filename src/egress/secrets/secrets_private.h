/* secrets_private.h - the structures of a session's secrets. For secrets*.c only: values never
 * leave these files but in a request that may have them, and in the mask. */
#pragma once

#include "lib/base/err.h"
#include "lib/http/http1.h"
#include "lib/policy/host.h"

struct mask;
struct mask_pick;
struct secrets_use; /* secrets.h */

#define SECRETS_MAX 64 /* bits of a set (uint64_t) */
#define SECRETS_LIST_MAX 32
#define SECRETS_NAME_MAX 64
#define SECRETS_PLACEHOLDER_MIN 16 /* long enough that a program does not send it by chance */

struct secret {
	char name[SECRETS_NAME_MAX];
	char *value; /* owned, not NUL-terminated */
	size_t len;
	char *placeholder; /* owned. NULL: none, only rules put the value in */
	size_t placeholder_len;
	struct host_pattern *hosts; /* owned. none: allowed where a rule names it */
	size_t nhosts;
	char **methods, **paths; /* owned, NULL at the end. NULL: all */
	/* owned, NULL at the end: the headers and fields it may be put into */
	char **headers, **fields;
	bool in_header, in_basic; /* in_header: into any header */
	uint64_t expires_ms;	  /* 0: never */
};

/* Another masked value: a replaced one, or one that the cell itself holds. */
struct secret_other {
	char name[SECRETS_NAME_MAX]; /* "": masked in records only */
	struct host_pattern *hosts;  /* owned */
	size_t nhosts;
};

/* The mask's values are those of `all`, then those of `others`. */
struct secrets {
	struct secret *all; /* owned */
	size_t n;
	struct secret_other *others; /* owned */
	size_t nothers;
	struct mask *mask; /* owned */
	/* secrets_placeholder.c: */
	uint8_t places[SECRETS_MAX]; /* indices of those with a placeholder, sorted by it */
	size_t nplaces;
	size_t prefix; /* length of all placeholders' common prefix */
	/* secrets_known.c. Owned, NULL before secrets_bind(). Numbers are one more, 0 is none: */
	uint16_t *by_name; /* the first value whose name has this hash */
	uint16_t *next;	   /* the next such value, by number */
	uint16_t *of_rule; /* the place in picks, by number of the rule */
	size_t nrules;
	struct mask_pick *picks; /* different sets of values that rules can put in */
};

bool secrets_host_fits(const struct host_pattern *hosts, size_t n, const char *host);
/* May it be put into this request? */
bool secrets_allowed(const struct secret *s, const struct secrets_use *u);
/* Add its name to u->names. */
void secrets_add_name(const struct secret *s, struct secrets_use *u);
/* Called once, when all are read. A placeholder that begins with another one is refused. */
int secrets_placeholder_index(struct secrets *s, struct err *e) MUST_USE;
/* Find the next placeholder at or after *at, and set *at to its beginning. NULL: there is none. */
const struct secret *secrets_placeholder_find(const struct secrets *s, struct http1_span text,
					      size_t *at);
