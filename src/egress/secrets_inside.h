/* secrets_inside.h - what secrets.c and secrets_body.c share. */
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
	char **methods, **paths,
		**fields; /* owned, NULL at the end; NULL: all, or none of fields */
	bool in_header, in_basic;
	uint64_t expires_ms; /* 0: never */
};

struct secrets {
	struct secret all[SECRETS_MAX];
	size_t n;
	struct mask *mask; /* owned */
};

/* May it be put into this request? */
bool secrets_may(const struct secret *s, const struct secrets_use *u);
/* It was. */
void secrets_note(const struct secret *s, struct secrets_use *u);
bool secrets_holds(struct http1_span text, const struct secret *s);
