/* egress_link.h - channel C on cordond's loop: messages to and from one process of cordon-egress
 * (egress_msg.h). All of the processes are in egress_links.h.
 *
 * An egress may die at any moment and be replaced, and it outlives a daemon. After every new
 * channel each session of that process is attached again (session_egress.h), then SYNCED is sent.
 * cordon-egress reads untrusted bytes and may be taken over, so its messages are checked. An egress
 * that breaks the protocol, does not read, or is silent for timeout_ms after a ping loses its
 * channel, and the supervisor is asked for another one. Until that comes, its cells are without
 * network. */
#pragma once

#include "buf.h"
#include "egress_msg.h"
#include "egress_orders.h"
#include "egress_turns.h"
#include "loop.h"

struct core;
struct session;
struct egress_links;
struct egress_out;

struct egress_numbers {
	uint64_t records, refused, bytes_in, bytes_out, requests;
	uint64_t broken;  /* channels that were given up */
	uint64_t invalid; /* records and counts that could not be read */
};

struct egress_link {
	struct egress_links *all; /* borrowed */
	struct core *core;	  /* borrowed */
	unsigned slot;		  /* in all */
	int sock;		  /* owned; -1: no egress at the moment */
	struct loop_fd watch;
	struct buf in;
	struct egress_out *first, **end; /* waiting to be sent */
	size_t queued;			 /* bytes of those */
	bool synced;			 /* every session it should know was attached */
	bool waiting;			 /* sessions wait to be asked, because others are */
	uint64_t since_ns;		 /* of the channel */
	unsigned asking; /* PID 1s that were asked for their sockets, <= egress_link_asking_max() */
	struct loop_task more;
	uint64_t timeout_ms;
	uint64_t pinged_ns, heard_ns; /* the last ping, the last byte */
	struct loop_timer ping;
	bool hung; /* the last egress did not answer, and there is no other yet */
	struct egress_turns turns;
	struct egress_orders orders;
};

void egress_link_init(struct egress_link *l, struct egress_links *all, unsigned slot);
void egress_link_release(struct egress_link *l);

/* Takes over the channel of a new egress. */
int egress_link_attach(struct egress_link *l, int sock, struct err *e) MUST_USE;
bool egress_link_up(const struct egress_link *l);

/* Queues a frame. text is copied, and the copy is wiped when it is sent: it may have secrets. fds:
 * NULL or as many as the type has, taken over in any case. ERR_LIMIT: egress does not read, and the
 * channel is closed.
 */
int egress_link_send(struct egress_link *l, enum egress_type type, const char *id, const char *text,
		     size_t len, int *fds, struct err *e) MUST_USE;

/* Gives this process up: the supervisor is asked for another one. */
void egress_link_break(struct egress_link *l, const char *why);

/* Sends SYNCED if that was not done yet, and no session is missing or it takes too long. */
void egress_link_synced(struct egress_link *l, bool missing);
/* How many PID 1s may be asked at a time: this process's part of those of the node. */
unsigned egress_link_asking_max(const struct egress_link *l);
