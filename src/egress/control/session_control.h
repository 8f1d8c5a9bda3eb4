/* session_control.h - attaches, changes and detaches sessions, as channel C says. Called by
 * control_channel.c. */
#pragma once

#include <jansson.h>

#include "egress/control/egress_session.h"
#include "lib/policy/policy.h"
#include "lib/wire/egress_msg.h"

/* fds: the TCP and the UDP listener, and the socket for questions (owner_query.h) or -1. Taken over
 * in any case, and checked. A session that exists
 * gets the new configuration and the new listeners. On failure the session is detached. */
int session_attach(struct egress *egress, const char *id, int fds[EGRESS_FDS_MAX],
		   const char *config, size_t len, struct err *e) MUST_USE;
/* All or nothing: on failure the session keeps its old configuration (the caller detaches it). */
int session_change(struct egress_session *session, const char *config, size_t len,
		   struct err *e) MUST_USE;
/* As above, for its secrets alone: the policy stays, and connections are judged again. */
int session_change_secrets(struct egress_session *session, const char *text, size_t len,
			   struct err *e) MUST_USE;
/* End all connections, send the last counts, and free it. */
void session_detach(struct egress_session *session);

/* ---- the text of EGRESS_ATTACH and EGRESS_CHANGE, read: a session's policy,
 * secrets, tenant and former counts (the form is in egress_msg.h). Called by session_control.c. The
 * text comes from cordond. */

struct secrets;

struct session_config {
	struct policy *policy;	 /* owned */
	struct secrets *secrets; /* owned */
	json_t *used;		 /* owned. session_counts.h. NULL: none so far */
	char tenant[EGRESS_ID_MAX];
};

/* On failure there is nothing to release. */
int session_config_read(const char *text, size_t len, struct session_config *ret,
			struct err *e) MUST_USE;
/* The text of EGRESS_SECRETS. */
int session_config_read_secrets(const char *text, size_t len, struct secrets **ret,
				struct err *e) MUST_USE;
/* Members taken over are set to NULL by the caller before. */
void session_config_release(struct session_config *c);
