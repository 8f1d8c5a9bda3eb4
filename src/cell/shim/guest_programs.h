/* guest_programs.h - the programs that the server has started in the guest: the shim keeps a record
 * of each, so that a returning server finds them as in any cell (agent_msg.h). Called by requests.c
 * and guest_life.c. agentd.c sends the events about them.
 *
 * The guest starts, reaps and kills. The shim makes the pipes that the server gets, keeps copies of
 * the server's ends until FORGET, and enforces timeouts. An event of the guest without a matching
 * request is a breach of the protocol.
 *
 * A forgotten program stays in the table until the guest has answered a PING sent after FORGET:
 * events about it may be on their way. There are at most AGENT_PROGRAMS_MAX others, and as many
 * forgotten ones. */
#pragma once

#include <stdbool.h>

#include "cell/init/pid1/agentd.h"
#include "cell/shim/streams.h"
#include "lib/wire/guest_msg.h"

struct guest_program {
	struct agentd_program agent;
	uint64_t barrier; /* with FORGET: the PING after whose PONG the entry is free. 0: none */
	bool with_stdin, with_results; /* asked for */
	bool kill_wanted;	       /* its connection has ended, and it was not held */
	bool kill_waits;	       /* KILL_TREE was sent, and the guest has not answered */
	unsigned late_ticks;	       /* in which the guest has not ended it */
	struct stream *streams[GUEST_EVENT_FDS];
	uint64_t output_ends[GUEST_EVENT_FDS]; /* how many bytes had come when it ended */
};

/* Iterate over the entries in use: NULL begins and ends. */
struct guest_program *guest_programs_next(const struct guest_program *p);
struct guest_program *guest_programs_find(uint32_t handle);

/* The handle belongs to a forgotten program, and events about it may still come: a SPAWN with it
 * has to wait. */
bool guest_programs_is_leaving(uint32_t handle);

/* Requests. The caller sends them on to the guest if the result is true. SPAWN: false, and
 * *ret_failed has the answer. */
bool guest_programs_on_spawn(const struct agent_spawn *s, struct agent_event *ret_failed);
/* The program whose tree is to be killed. NULL: none, and *ret_answer has the answer. */
struct guest_program *guest_programs_on_kill_tree(const struct agent_order *o,
						  struct agent_event *ret_answer);
/* barrier: the number of the PING that follows FORGET. */
bool guest_programs_on_forget(uint32_t handle, uint64_t barrier);
/* The guest has answered so many PINGs. */
void guest_programs_on_pong(uint64_t pongs);

/* An event of the guest about a program. -1: it does not fit. greeting: HELD may come. */
int guest_programs_on_event(uint16_t type, const struct guest_event *v, bool greeting,
			    struct err *e) MUST_USE;

/* Set EXITED to be sent where all output has been written. */
void guest_programs_check_exits(void);

/* The server is gone: HELD of each held program is to be sent to the next one. The others are to be
 * killed (kill_wanted). */
void guest_programs_on_disconnect(void);

/* For agentd.h: TREE_DEAD is not sent before EXITED. */
bool guest_programs_waits(const struct guest_program *p, unsigned what);
/* For agentd.h: frees the entry if nothing is left of it. */
void guest_programs_on_sent(struct guest_program *p, unsigned what);

/* Does a program still run after its deadline? With count a tick has passed for each such program.
 * *ret_most is the most ticks that one has. */
bool guest_programs_are_overdue(uint64_t now_ns, bool count, unsigned *ret_most);
