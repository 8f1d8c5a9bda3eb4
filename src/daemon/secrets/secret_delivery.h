/* secret_delivery.h - brings secrets into a cell, as variables, files and answers of a socket: see
 * secret_delivery.c. Called by secret_part.c for events of the session. */
#pragma once

#include "daemon/session/session.h"

struct buf;
struct execution;

/* Append "NAME=value" strings for an execution, each with its NUL: of its own secrets, then of the
 * session's. to is wiped when released. */
void secret_delivery_add_env(struct session *s, struct execution *x, struct buf *to);
/* Deliver to the cell its secrets, now or when possible. Repeatable. */
void secret_delivery_start(struct session *s);
/* The session continues without its cell. The cell had all delivered secrets. */
void secret_delivery_cell_gone(struct session *s);
/* The session was resumed, or adopted. */
void secret_delivery_refresh(struct session *s);
/* Once a second: tries again what failed. */
void secret_delivery_retry(struct session *s);
/* Does the cell have the secrets it needs before the session is usable? */
bool secret_delivery_is_done(const struct session *s);
/* Does a secret of the session come as a file or by the socket? */
bool secret_delivery_is_needed(const struct session *s);
