/* secret_spec.h - which secrets a session or execution has, and how it gets each: the text of the
 * column `secrets` of its row, a line for each. Pure. The text has no values.
 *
 *	name TAB way TAB where TAB owner TAB mode TAB placeholder NEWLINE */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/store.h"
#include "lib/base/buf.h"

/* How a secret gets into a session. */
enum {
	SECRET_BROKER = 1 << 0, /* where: a variable, with a placeholder */
	SECRET_ENV = 1 << 1,	/* where: a variable */
	SECRET_FILE = 1 << 2,	/* where: a name in /run/secrets */
	SECRET_SOCKET = 1 << 3, /* where: the program that may ask */
	SECRET_WAYS = (1 << 4) - 1,
};

#define SECRET_WHERE_MAX 1024
#define SECRET_PLACEHOLDER_MAX 40 /* "cordon_", 32 characters, NUL */
#define SECRET_LINES_MAX 32	  /* secrets of a session */

struct secret_spec {
	char name[STORE_NAME_MAX];
	unsigned way;
	char where[SECRET_WHERE_MAX];
	char owner[STORE_NAME_MAX]; /* "": the default */
	uint32_t mode;		    /* of a file */
	char placeholder[SECRET_PLACEHOLDER_MAX];
};

/* "broker", "env", "file", "socket". */
const char *secret_spec_way(unsigned way);
unsigned secret_spec_find_way(const char *name); /* 0: none */

/* Is it a name of a secret: [A-Za-z0-9_][A-Za-z0-9_.-]*, at most 63 characters? */
bool secret_spec_is_name(const char *s);

/* Check a line, and fill in its optional parts: where, owner and mode of a file. Errors name the
 * secret. */
int secret_spec_check(struct secret_spec *l, struct err *e) MUST_USE;
void secret_spec_write(const struct secret_spec *l, struct buf *to);

/* Read the next line of *at and move *at after it. False at the end, or at a malformed line, which
 * only a manipulated database has. */
bool secret_spec_next(const char **at, struct secret_spec *ret);
