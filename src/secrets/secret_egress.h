/* secret_egress.h - what cordon-egress and the masks get of a session's secrets, and what a changed
 * secret means for live sessions. */
#pragma once

#include "json.h"
#include "secret_spec.h"
#include "session.h"

struct store_secret;

/* Checks the secrets of a new session, and gives it placeholders. */
int secret_check_session(struct session *s, struct err *e) MUST_USE;

/* May the session, or an execution of it, have this one so? Gives it a placeholder, and adds the
 * bytes of its value. */
int secret_check_one(struct session *s, struct secret_spec *l, size_t *bytes,
		     struct err *e) MUST_USE;
/* Is its place taken by one of these lines? Variables of a session are apart from files. */
bool secret_is_twice(const char *lines, const struct secret_spec *l);
/* Is the name a whole line of these? */
bool secret_is_line(const char *lines, const char *name);

/* The members "secrets" and "mask" of the configuration for egress (egress_msg.h), into the object
 * that is open in j. What is in j before is searched for ${secret.NAME}: those are added. j is
 * wiped when it is released. */
int secret_write_order(struct session *s, struct json *j, struct err *e) MUST_USE;
/* Bytes of the secrets that a document refers to. */
size_t secret_referenced(struct core *c, const struct tenant *t, const char *text);

/* One of a session's values, in the clear. */
struct secret_value {
	const char *value;
	size_t len;
	const char *name, *hosts; /* hosts: lines */
	bool past;		  /* it was replaced or revoked */
};
/* Every value that must not be seen: the session's secrets, those that rules put in, and what they
 * were before. Wiped when see returns. */
void secret_each_value(struct session *s, void (*see)(const struct secret_value *v, void *arg),
		       void *arg);
/* Is it one of the session's secrets, or does a rule put it in? */
bool secret_is_had(const struct session *s, const char *name);

/* The secret of that name has changed, was revoked, or is new. The sessions that have it are
 * marked; egress_link.c calls secret_apply_change() for each, some in each turn. */
void secret_changed(struct core *c, const struct tenant *t, const char *name);
/* The old value stays masked in the sessions that had it. */
void secret_keep_masked(struct core *c, const struct tenant *t, const struct store_secret *row);
/* Delivers a change to the session: its mask first, then its cell. */
void secret_apply_change(struct session *s);
