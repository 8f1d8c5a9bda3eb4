/* secret_state.h - the secrets of one session, and how a sealed value is opened. For the files of
 * this folder. */
#pragma once

#include <assert.h>
#include <stdlib.h>

#include "daemon/node/core.h"
#include "daemon/session/session_hooks.h"
#include "daemon/store/store_secret.h"
#include "lib/base/buf.h"

#define SECRET_ABOUT_MAX (STORE_ID_MAX + STORE_NAME_MAX + 24)

/* secret_part.c: the hooks of this folder. */
extern const struct session_part secret_part;

/* The associated data of a sealed value: "tenant, name, version". */
void secret_about(const struct store_secret *row, char ret[SECRET_ABOUT_MAX]);
/* Open the value of a secret, also of an expired one. The caller wipes it (seal_wipe()). */
int secret_open(const struct core *c, const struct store_secret *row, char **ret, size_t *ret_len,
		struct err *e) MUST_USE;
bool secret_is_expired(const struct store_secret *row);

/* A replaced or revoked value, still sealed: it is masked until its session ends. It is in the
 * store, too, for the next cordond, from the transaction of the change on. A session that waits for
 * room has no id yet: its values are written when it starts. */
struct secret_past {
	struct secret_past *next;
	bool stored;
	char about[SECRET_ABOUT_MAX], name[STORE_NAME_MAX];
	const char *hosts; /* lines, stored after the box: its binding then */
	size_t len;
	uint8_t box[];
};

/* The part of a session with present or past secrets. */
struct secret_state {
	struct session *session;
	char *lines;		  /* owned: `secrets` of the row. NULL: the row owns its text */
	struct secret_past *past; /* owned */
	char *had;		  /* owned: lines, names of secrets that executions had */
	char *sent_names; /* owned: lines, the names in all configurations for egress so far */
	char *references; /* owned: lines, the names that rules of the policy there refer to */
	size_t bytes;	  /* of all masked values */
	bool unmasked;	  /* a value has changed, and the mask is not made yet */
	bool changed;	  /* and the cell does not have it yet */
	/* The built-in in the cell. */
	struct file_op *op;
	struct buf table;  /* what is being sent. Wiped then */
	struct buf answer; /* of the built-in, not complete yet */
	size_t sent;
	unsigned tries;
	struct err failed; /* the error that the built-in reported */
	bool wanted;	   /* the cell does not have all its secrets */
	bool awaiting;	   /* a table was sent, and not answered */
	bool closing;	   /* its end was requested */
	bool files;	   /* files of executions may be in the cell */
	bool files_sent;   /* the last table had any */
	bool delivering;   /* for the first time: the session is not ready before */
	struct loop_task give_up;
	struct completions when_delivered; /* executions that wait for their files */
};

/* The state of a session, or NULL: it never had any secret. */
static inline struct secret_state *secret_state_of(const struct session *s)
{
	return *session_parts_of(s, &secret_part);
}

/* The state, made if the session has none. */
static inline struct secret_state *secret_state(struct session *s)
{
	struct secret_state *st = secret_state_of(s);

	if (st == NULL) {
		st = calloc(1, sizeof(*st));
		assert(st != NULL);
		st->session = s;
		*session_parts_of(s, &secret_part) = st;
	}
	return st;
}

/* The node's part: secrets that expired up to this moment and id are withdrawn. */
struct secret_node {
	uint64_t seen_ms;
	char seen_id[STORE_ID_MAX];
};
static inline struct secret_node *secret_node(struct core *c)
{
	return *session_parts_of_core(c, &secret_part);
}
