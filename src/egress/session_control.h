/* session_control.h - attaches, changes and detaches sessions, as channel C says. Called by
 * control_channel.c. */
#pragma once

#include "egress_session.h"

/* fds: the TCP and the UDP listener, and the socket for questions (owner_query.h) or -1; taken over
 * in any case, and checked. A session that exists
 * gets the new configuration and the new listeners. On failure the session is detached. */
int session_attach(struct egress *egress, const char *id, int fds[EGRESS_FDS_MAX],
		   const char *config, size_t len, struct err *e) MUST_USE;
/* All or nothing: on failure the session keeps its old configuration (the caller detaches it). */
int session_change(struct egress_session *session, const char *config, size_t len,
		   struct err *e) MUST_USE;
/* The same for its secrets alone: the policy stays, and connections are judged again. */
int session_change_secrets(struct egress_session *session, const char *text, size_t len,
			   struct err *e) MUST_USE;
/* Ends all connections, sends the last counts, and frees it. */
void session_detach(struct egress_session *session);
