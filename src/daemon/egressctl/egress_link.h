/* egress_link.h - channel C on cordond's loop: messages to and from one process of cordon-egress
 * (egress_msg.h). All of the processes are in egress_link.h.
 *
 * An egress may die at any moment and be replaced, and it outlives a daemon. After every new
 * channel each session of that process is attached again (session_egress.h), then SYNCED is sent.
 * cordon-egress reads untrusted bytes and may be taken over, so its messages are checked. An egress
 * that breaks the protocol, does not read, or is silent for timeout_ms after a ping loses its
 * channel, and the supervisor is asked for another one. Until that comes, its cells are without
 * network. */
#pragma once

#include <stddef.h>

#include "daemon/egressctl/egress_orders.h"
#include "lib/base/err.h"
#include "lib/channel/channel.h"
#include "lib/loop/turns.h"
#include "lib/wire/egress_msg.h"
#include "lib/wire/supervisor_msg.h"

struct egress_link;

/* ---- how long turns of cordon-egress's loop take, as it reports them, for /metrics.
 */

struct buf;

/* ---- the channel to one process */

struct core;
struct session;
struct egress_links;

bool egress_link_up(const struct egress_link *l);

/* Queue a frame. text is copied, and the copy is wiped when it is sent: it may have secrets. fds:
 * NULL or as many as the type has, taken over in any case. ERR_LIMIT: egress does not read, and the
 * channel is closed.
 */
int egress_link_send(struct egress_link *l, enum egress_type type, const char *id, const char *text,
		     size_t len, int *fds, struct err *e) MUST_USE;

/* Give this process up: the supervisor is asked for another one. */
void egress_link_break(struct egress_link *l, const char *why);

/* How many PID 1s may be asked at a time: this process's part of those of the node. */
unsigned egress_link_asking_max(const struct egress_link *l);

/* ---- the channels to all processes of cordon-egress, and which session belongs to
 * which of them.
 *
 * A session's process follows from its id and the number of processes alone (doc/decisions/019), so
 * a new cordond finds each session where it was, and a message of one process about a session of
 * another is recognized as invalid. The number is constant while cordond runs. */

void egress_links_init(struct egress_links *all, struct core *c, unsigned n);
void egress_links_release(struct egress_links *all);

/* The one of n processes that a session belongs to. Pure. */
unsigned egress_links_slot(const char *session_id, unsigned n);

/* The channel of a process, taken over. ERR_INVALID: there is no such slot. */
int egress_links_attach(struct egress_links *all, unsigned slot, int sock, struct err *e) MUST_USE;

/* Ask for sockets of missing sessions. Send SYNCED to each process for which none is missing.
 * Repeatable. The second does it at the end of the turn. */
void egress_links_sync(struct egress_links *all);
void egress_links_sync_later(struct egress_links *all);

/* How many processes are connected. */
unsigned egress_links_up(const struct egress_links *all);
/* Is there one that does not answer, and has not been replaced? */
bool egress_links_any_hung(const struct egress_links *all);
/* How long turns of their loops took, all processes in one histogram. */
void egress_links_write_turns(const struct egress_links *all, struct buf *to);
