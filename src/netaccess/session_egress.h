/* session_egress.h - a session's way to the network: PID 1 of its cell opens the door and passes it
 * out, and cordon-egress serves it by the session's policy.
 *
 *   none -> wanted -> asked (of PID 1) -> sent (to egress) -> open
 *
 * A session whose policy is "none" has no door: whatever connects inside is refused by the kernel
 * at once. A door that is open stays open until the session ends, since PID 1 listens: a policy
 * that refuses everything closes it as well. While there is no egress, connections of cells wait.
 */
#pragma once

#include "core.h"
#include "live_cell.h"

enum session_egress_state { DOOR_NONE, DOOR_WANTED, DOOR_ASKED, DOOR_SENT, DOOR_OPEN, DOOR_FAILED };

struct egress_link;

struct session_egress {
	struct egress_link *link; /* borrowed: to the process that the session belongs to */
	enum session_egress_state state;
	bool kept;		 /* of a paused session: known to egress, but not attached anew */
	bool creating;		 /* the session is not usable until it is open */
	bool late;		 /* PID 1 was asked, and has not answered in time */
	unsigned orders;	 /* that egress has not answered */
	unsigned stale;		 /* before those: their answers do not matter any more */
	struct completion made;	 /* of creating */
	struct completions when; /* in force */
	struct loop_timer timer;
};

struct net_session;
void session_egress_init(struct session *s, struct net_session *n);
/* The channel to the process of cordon-egress that the session belongs to, always the same. */
struct egress_link *session_egress_link(const struct session *s);

/* The session is new: if its policy wants a network, that is opened before the session is usable.
 */
void session_egress_started(struct session *s);

/* Its policy or its secrets have changed: egress gets the change, or the door is opened. w (may be
 * NULL) ends when it is in force, soon if there is nothing to do, or with the reason why it is not:
 *
 * ERR_UNSUPPORTED	the cell was made by an older version, or this kernel has no way to do it
 * REASON_UNAVAILABLE	there was no egress for 5 s, or it did not answer
 * others		egress or PID 1 refused; the session is without network then */
void session_egress_changed(struct session *s, struct completion *w);

/* A daemon before us left it: perhaps it has a door. */
void session_egress_adopted(struct session *s);
/* Its cell can be asked now, perhaps: it was adopted, or resumed. */
void session_egress_try(struct session *s);
void session_egress_resumed(struct session *s);

/* What PID 1 says. */
void session_egress_answered(struct session *s, struct live_cell *c, const struct agent_event *v);

/* What the channel says. */
void session_egress_channel_new(struct session *s);
void session_egress_channel_lost(struct session *s);
void session_egress_taken(struct session *s, const char *why, size_t len);
/* Should egress have it, and cannot yet? */
bool session_egress_is_missing(const struct session *s);

/* The session ends: egress forgets it; those that wait get e. Repeatable. */
void session_egress_end(struct session *s, const struct err *e);
/* The daemon ends, the session goes on: egress is not told. */
void session_egress_leave(struct session *s, const struct err *e);
