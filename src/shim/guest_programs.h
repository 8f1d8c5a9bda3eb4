/* guest_programs.h - the programs that the server has started in the guest: what the shim keeps of
 * them so that a server that comes back finds them as in any cell (agent_msg.h). Called by
 * requests.c and guest_life.c; report.c sends what is to be sent.
 *
 * The guest starts, reaps and kills; the shim makes the pipes that the server gets, keeps copies of
 * the server's ends until FORGET, and enforces timeouts. An event of the guest that does not fit
 * what was asked is a breach of the protocol.
 *
 * A program that was forgotten stays in the table until the guest has answered a PING that was sent
 * after FORGET: events about it may be on their way. There are at most AGENT_PROGRAMS_MAX that are
 * not forgotten, and as many others. */
#pragma once

#include <stdbool.h>

#include "agent_msg.h"
#include "guest_msg.h"
#include "streams.h"

/* As in init/programs.h, in the order in which they are sent. */
enum {
	GUEST_SEND_HELD = 1 << 0,
	GUEST_SEND_STARTED = 1 << 1,
	GUEST_SEND_FAILED = 1 << 2,
	GUEST_SEND_EXITED = 1 << 3,
	GUEST_SEND_TREE_DEAD = 1 << 4,
};

struct guest_program {
	bool used, held, tty;
	bool starting; /* the guest has not answered SPAWN */
	bool exited, failed;
	bool timed_out;
	bool leftover;	  /* stands for a mark: KILL_TREE of a program that was forgotten */
	bool forgotten;	  /* by the server, or with its connection: no event is sent */
	uint64_t barrier; /* with FORGET: the PING after whose PONG the entry is free; 0: none */
	bool with_stdin, with_results; /* asked for */
	bool kill_wanted;	       /* its connection has ended, and it was not held */
	bool exit_waits;  /* the guest reported its end; its output is not all written yet */
	unsigned to_send; /* set of GUEST_SEND_* */
	bool kill_waits;  /* KILL_TREE was sent, and the guest has not answered */
	bool report_tree; /* the server waits for TREE_DEAD */
	uint32_t tree_flags;
	uint32_t handle, pid;
	uint64_t mark;
	uint64_t deadline_ns;	    /* 0: none */
	unsigned late_ticks;	    /* in which the guest has not ended it */
	int stdio[GUEST_EVENT_FDS]; /* the server's ends, until sent; if held, until FORGET */
	struct stream *streams[GUEST_EVENT_FDS];
	uint64_t output_ends[GUEST_EVENT_FDS]; /* how many bytes had come when it ended */
	struct agent_event end;		       /* FAILED or EXITED */
};

/* Iterates over the entries in use: NULL begins and ends. */
struct guest_program *guest_programs_next(const struct guest_program *p);
struct guest_program *guest_programs_find(uint32_t handle);

/* The handle is of a program that was forgotten, and events about it may still come: a SPAWN with
 * it has to wait. */
bool guest_programs_is_leaving(uint32_t handle);

/* Requests. The caller sends them on to the guest if the result is true. SPAWN: false, and
 * *ret_failed has the answer. */
bool guest_programs_on_spawn(const struct agent_spawn *s, struct agent_event *ret_failed);
/* The program whose tree is to be killed; NULL: none, and *ret_answer has the answer. */
struct guest_program *guest_programs_on_kill_tree(const struct agent_order *o,
						  struct agent_event *ret_answer);
/* barrier: the number of the PING that follows FORGET. */
bool guest_programs_on_forget(uint32_t handle, uint64_t barrier);
/* The guest has answered so many PINGs. */
void guest_programs_on_pong(uint64_t pongs);
void guest_programs_on_close_stdin(uint32_t handle);

/* An event of the guest about a program. -1: it does not fit. greeting: HELD may come. */
int guest_programs_on_event(uint16_t type, const struct guest_event *v, bool greeting,
			    struct err *e) MUST_USE;

/* Sets EXITED to be sent where all output has been written. */
void guest_programs_check_exits(void);

/* The server is gone: HELD of each held program is to be sent to the next one; the others are to be
 * killed (kill_wanted). */
void guest_programs_on_disconnect(void);

/* An event was sent; frees the entry if nothing is left of it. */
void guest_programs_on_sent(struct guest_program *p, unsigned what);

/* The nearest deadline; 0: none. */
uint64_t guest_programs_deadline(void);
void guest_programs_delay_deadlines(uint64_t ms);
/* A program whose deadline is over at now_ns; it counts as timed out from then on. NULL: none. */
struct guest_program *guest_programs_next_late(uint64_t now_ns);
/* Is there a program whose deadline is over and that the guest has not ended? With count a tick has
 * passed for each such program; *ret_most is the most ticks that one has. */
bool guest_programs_are_overdue(uint64_t now_ns, bool count, unsigned *ret_most);
