/* secret_change.h - what a changed or revoked secret means for live sessions. secret.c calls the
 * first two when a secret changes; session_parts.c calls the third for each session that was
 * marked, some in each turn of the loop. */
#pragma once

#include "session.h"

struct store_secret;

/* The old value stays masked in the sessions that had it. Called before the new value is used. */
void secret_change_keep_old(struct core *c, const struct tenant *t, const struct store_secret *row);
/* A new session begins with the memory of another: what that masks of the past is masked in it,
 * too. Returns the bytes of it. */
size_t secret_change_inherit(struct session *s);
/* The secret of that name has changed, was revoked, or is new: marks the sessions that have it. */
void secret_change_mark(struct core *c, const struct tenant *t, const char *name);
/* Delivers a change to the session: its mask first, then its cell. */
void secret_change_apply(struct session *s);
