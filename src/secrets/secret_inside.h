/* secret_inside.h - what the files of core that handle secrets share. */
#pragma once

#include "secret.h"

#define SECRET_ABOUT_MAX (STORE_ID_MAX + STORE_NAME_MAX + 24)

struct session;

/* What a box is about. */
void secret_about(const struct store_secret *row, char ret[SECRET_ABOUT_MAX]);
/* The value; the caller wipes it (seal_wipe()). Also of one whose time is over. */
int secret_open(const struct core *c, const struct store_secret *row, char **ret, size_t *ret_len,
		struct err *e) MUST_USE;
bool secret_is_expired(const struct store_secret *row);

/* A value that was replaced or revoked, sealed still: it is masked until its session ends. */
struct secret_past {
	struct secret_past *next;
	char about[SECRET_ABOUT_MAX], name[STORE_NAME_MAX];
	const char *hosts; /* lines, behind the box: what it was bound to then */
	size_t len;
	uint8_t box[];
};

/* Of a session that has secrets, or had. */
struct secret_state {
	struct session *session;
	char *lines;		  /* owned: what the row points to; NULL: it has its own */
	struct secret_past *past; /* owned */
	char *told;		  /* owned: lines, the names in all orders for egress */
	size_t bytes;		  /* of all values that are masked */
	bool unmasked;		  /* a value has changed, and the mask is not made yet */
	bool changed;		  /* and it was not brought yet */
	/* The built-in in the cell. */
	struct file_op *op;
	struct buf table;  /* what is being sent; wiped then */
	struct buf answer; /* of the built-in, not complete yet */
	size_t sent;
	unsigned tries;
	struct err failed; /* what it said */
	bool wanted;	   /* what is in the cell is not what should be */
	bool awaiting;	   /* a table was sent, and not answered */
	bool closing;	   /* it was told to end */
	bool bringing;	   /* for the first time: the session is not ready before */
	struct loop_task give_up;
};

/* The state of a session; made if there is none. */
struct secret_state *secret_state(struct session *s);

/* secret_delivery.c */
bool secret_is_carried(const struct session *s);

/* One of a session's values, in the clear. */
struct secret_value {
	const char *value;
	size_t len;
	const char *name, *hosts; /* hosts: lines */
	bool past;		  /* it was replaced or revoked */
};
/* secret_egress.c: every value that must not be seen: its secrets, those that rules put in, and
 * what they were before. Wiped when see returns. */
void secret_each_value(struct session *s, void (*see)(const struct secret_value *v, void *arg),
		       void *arg);
/* secret_egress.c: is it one of its secrets, or does a rule put it in? */
bool secret_is_had(const struct session *s, const char *name);
/* secret_mask.c: makes the mask if a value has changed. Called before any value of the session is
 * taken for its cell or for egress. */
void secret_mask_now(struct session *s);
/* secret_egress.c: bytes of the secrets that a document refers to. */
size_t secret_referenced(struct core *c, const struct tenant *t, const char *text);
/* secret_quota.c: may the sessions of a tenant have so many bytes more; may the secret get a value
 * of that length? ERR_LIMIT. */
int secret_quota_more(struct core *c, const struct tenant *t, size_t more, struct err *e) MUST_USE;
int secret_quota_change(struct core *c, const struct tenant *t, const char *name, size_t len,
			struct err *e) MUST_USE;
/* secret_egress.c: the secret of that name has changed, was revoked, or is new. The sessions that
 * have it are marked; egress_link.c calls secret_deliver() for each, some in each turn. */
void secret_changed(struct core *c, const struct tenant *t, const char *name);
/* secret_egress.c: its value stays masked in the sessions that had it. */
void secret_keep_masked(struct core *c, const struct tenant *t, const struct store_secret *row);
