/* egress_links.h - the channels to all processes of cordon-egress, and which session belongs to
 * which of them.
 *
 * A session's process follows from its id and the number of processes alone (doc/decisions/019), so
 * a new cordond finds each session where it was, and a message of one process about a session of
 * another is recognized as invalid. The number is constant while cordond runs. */
#pragma once

#include "egress_link.h"
#include "supervisor_msg.h"

struct egress_links {
	struct core *core; /* borrowed */
	struct egress_link links[SERVE_EGRESS_MAX];
	unsigned n;
	struct loop_task sync;
	struct egress_numbers numbers; /* of all together */
};

void egress_links_init(struct egress_links *all, struct core *c, unsigned n);
void egress_links_release(struct egress_links *all);

/* Which of n processes a session belongs to. Pure. */
unsigned egress_links_slot(const char *session_id, unsigned n);

/* The channel of a process, taken over. ERR_INVALID: there is no such slot. */
int egress_links_attach(struct egress_links *all, unsigned slot, int sock, struct err *e) MUST_USE;

/* Asks for sockets of sessions that are missing; sends SYNCED to each process for which none is
 * missing. Repeatable. The second does it at the end of the turn. */
void egress_links_sync(struct egress_links *all);
void egress_links_sync_later(struct egress_links *all);

/* How many processes are connected. */
unsigned egress_links_up(const struct egress_links *all);
/* Is there one that does not answer, and has not been replaced? */
bool egress_links_any_hung(const struct egress_links *all);
/* How long turns of their loops took, all processes in one histogram. */
void egress_links_write_turns(const struct egress_links *all, struct buf *to);
