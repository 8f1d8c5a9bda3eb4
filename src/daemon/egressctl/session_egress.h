/* session_egress.h - a session's access to the network: PID 1 of its cell opens two sockets, to
 * which the kernel redirects all connections and name lookups of the cell, and passes them to
 * cordon-egress, which serves them by the session's policy.
 *
 *   none -> wanted -> asked (PID 1 for its sockets) -> sent (to egress) -> open
 *
 * A session whose policy is "none" has no such sockets: the kernel refuses its connections at once.
 * Open sockets stay open until the session ends. Then a policy that refuses everything has the same
 * effect as none. While there is no egress, connections of cells wait.
 *
 * Called by net_access.c for events of the session, and by egress_link.c for events of the channel.
 */
#pragma once

#include "daemon/node/core.h"
#include "lib/wire/egress_msg.h"

struct agent_event;
struct live_cell;

/* Parts of a configuration. */
enum { SESSION_EGRESS_SECRETS = 1 << 0, SESSION_EGRESS_POLICY = 1 << 1 };

struct egress_link;

/* As clients see it: "none", "opening", "open" or "failed". */
const char *session_egress_state_name(const struct session *s);

struct net_session;
/* The channel to the process of cordon-egress that the session belongs to, always the same. */
struct egress_link *session_egress_link(const struct session *s);

/* A new session: if its policy wants a network, it is opened before the session is usable. */
void session_egress_on_started(struct session *s);

/* The policy or the secrets of the session have changed (what): egress gets the new configuration,
 * or the network is opened. w (may be NULL) ends when it is in force, soon if there is nothing to
 * do, or with an error:
 *
 * ERR_UNSUPPORTED	the cell was made by an older version, or this kernel has no way to do it
 * REASON_UNAVAILABLE	there was no egress for 5 s, or it did not answer
 * others		egress or PID 1 refused. The session is without network then */
void session_egress_changed(struct session *s, unsigned what, struct completion *w);
/* The secrets have changed, or the tenant's policy. */
void session_egress_look_again(struct session *s);

/* Called by egress_orders.c when it is the session's turn: compose the due order, and send it.
 * Return its counted bytes. */
size_t session_egress_send(struct session *s);

/* An earlier daemon left the session: PID 1 may have opened its sockets. */
void session_egress_on_adopted(struct session *s);
/* Ask PID 1 for its sockets, if they are wanted and it can be asked now. Repeatable. */
void session_egress_try(struct session *s);
void session_egress_on_resumed(struct session *s);

/* PID 1 has passed its sockets (c->agent.fds), or failed. */
void session_egress_on_listens(struct session *s, struct live_cell *c, const struct agent_event *v);

/* Events of the channel: there is a new one, it is lost, egress has answered a configuration (why
 * of length 0: it is in force). */
void session_egress_on_connected(struct session *s);
void session_egress_on_disconnected(struct session *s);
void session_egress_on_taken(struct session *s, const char *why, size_t len);
/* Should egress have the session's sockets, and cannot have them yet? */
bool session_egress_is_missing(const struct session *s);

/* The session ends: egress forgets it, and those that wait get e. Repeatable. */
void session_egress_on_ending(struct session *s, const struct err *e);
/* Its cell has gone, and it continues. */
void session_egress_on_cell_gone(struct session *s, const struct err *e);
/* The daemon ends and the session continues: egress keeps its state. */
void session_egress_leave(struct session *s, const struct err *e);
/* The session leaves memory. */
void session_egress_free(struct session *s, const struct err *e);
