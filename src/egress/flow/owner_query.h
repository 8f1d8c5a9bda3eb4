/* owner_query.h - asks a cell which program made a connection, for the record of it. Called by
 * session_control.c (the socket) and flow_accept.c (the questions).
 *
 * The cell's answers are untrusted: the most it can do is to name another program of its own cell.
 * Nothing here blocks, and questions and answers are bounded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "egress/flow/owner_link.h"
#include "lib/base/ip.h"

struct egress_session;
struct flow;

/* Take the socket, in place of an earlier one. -1: there is none. */
void owner_query_open(struct egress_session *session, int sock);
void owner_query_close(struct egress_session *session);

/* Ask who made the connection f, from and to as its program sees them. True: the answer should be
 * waited for, and f->owner.on_answer is called when it is there. Otherwise f->owner says why not.
 * An answer that comes nevertheless is ignored. */
bool owner_query_ask(struct flow *f, const struct ip *from, uint16_t from_port, const struct ip *to,
		     uint16_t to_port);
/* The flow waits no longer. */
void owner_query_give_up(struct flow *f);
