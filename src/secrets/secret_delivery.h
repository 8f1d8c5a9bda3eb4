/* secret_delivery.h - secrets on their way into a cell: see secret_delivery.c. */
#pragma once

#include "session.h"

struct buf;
struct execution;

/* Appends "NAME=value" strings for an execution, each with its NUL: of its own secrets, then of the
 * session's. to is wiped when released. */
void secret_delivery_add_env(struct session *s, struct execution *x, struct buf *to);
/* Delivers to the cell what it should have, now or when it can. Repeatable. */
void secret_delivery_start(struct session *s);
/* The session was resumed, or adopted. */
void secret_delivery_refresh(struct session *s);
/* Once a second: tries again what failed. */
void secret_delivery_retry(struct session *s);
/* Has the cell what it should have from the start? */
bool secret_delivery_is_done(const struct session *s);
/* Does any secret of the session have to be delivered by PID 1? */
bool secret_delivery_is_needed(const struct session *s);
