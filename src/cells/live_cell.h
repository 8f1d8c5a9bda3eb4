/* live_cell.h - a cell in cordond: made by a keeper, controlled over channel B, ended.
 *
 *   making -> greeting -> linger sent -> up -> ending -> gone
 *
 * Until PID 1 has confirmed LINGER, a cell ends with this daemon; from then on it listens
 * at RUN/cells/<id>.sock and can be adopted by the next. The pool and the sessions own cells; a
 * cell is freed after on_up() with an error, or after on_gone().
 *
 * One request to the keeper is under way at a time (call); keeper_link.c limits its time. PID 1
 * must send READY and confirm LINGER within GREET_MS. A cell is freed only by a reply of the
 * keeper, never inside its own events.
 */
#pragma once

#include "agent_client.h"
#include "cells.h"

enum live_state {
	LIVE_MAKING,
	LIVE_GREETING,
	LIVE_LINGER_SENT,
	LIVE_BOOTING, /* only with a guest: live_guest.h */
	LIVE_UP,
	LIVE_ENDING
};

struct live_cell;
struct live_guest;
struct live_program;

struct live_cell_events {
	void (*on_up)(struct live_cell *c, const struct err *e); /* e: it is not, and is freed */
	/* PID 1 has ended by itself, or broke the protocol (broken). The owner calls
	 * live_cell_end().
	 */
	void (*on_dead)(struct live_cell *c);
	/* It was ending, and PID 1 has ended: its memory and files are free, its cgroup and its
	 * socket are still there. May be NULL, and may not come at all before on_gone(). */
	void (*on_exited)(struct live_cell *c);
	void (*on_gone)(struct live_cell *c); /* nothing of it is left; it is freed */
	/* Adopted ones: a program it holds, with its descriptors in c->agent.fds; then the end.
	 * These three may be NULL: the cell is not trusted to send them only where they fit. */
	void (*on_held)(struct live_cell *c, const struct agent_event *v);
	/* A program that could not be started; an earlier daemon may not have received that. */
	void (*on_failed)(struct live_cell *c, const struct agent_event *v);
	void (*on_synced)(struct live_cell *c);
	/* The answer to agent_send_listen_egress(), if not NULL; its descriptors are in
	 * c->agent.fds. */
	void (*on_egress_listens)(struct live_cell *c, const struct agent_event *v);
	/* Something happened to its guest: v->stage is an enum boot_guest. May be NULL. */
	void (*on_guest)(struct live_cell *c, const struct agent_event *v);
	/* Its guest was stopped for a request that nothing waits for any more: it is to be let run.
	 * May be NULL. */
	void (*on_stopped)(struct live_cell *c);
};

/* A program in the cell, as one of its users sees it. */
struct live_program {
	struct live_program *next, **link; /* list.h */
	uint32_t handle;
	bool results; /* it was asked for with AGENT_RESULTS: set after live_cell_add() */
	bool started; /* STARTED has come */
	/* STARTED, FAILED, EXITED, TREE_DEAD, DIALED. Descriptors are in c->agent.fds: taken by
	 * agent_take_stdio() or by setting c->agent.nfds to 0. FAILED does not come after STARTED.
	 */
	void (*on_event)(struct live_program *p, struct live_cell *c, enum agent_type type,
			 const struct agent_event *v);
};

struct live_cell {
	struct cells *cells; /* borrowed */
	char id[CELL_ID_MAX];
	enum live_state state;
	pid_t pid;
	int slot;     /* of the keeper that made it, see keeper_link_ask_end(); -1: not known */
	int pidfd;    /* owned */
	int listener; /* owned: bound, until PID 1 has it */
	struct agent agent;
	bool connected, greeted, synced, dead, frozen, urgent, broken;
	bool unclean; /* something of a failed try may be there */
	/* The keeper was asked to remove it before PID 1 was dead. The cgroup can go a moment
	 * before that, when the keeper cannot reap PID 1 yet: it is asked once more after the
	 * death. */
	bool early;
	struct loop_fd channel, death;
	struct loop_timer timer;
	struct live_program *programs;
	uint32_t next_handle;
	uint32_t version;     /* of its PID 1 */
	uint64_t deadline_ms; /* of its session; wall clock, 0: none */
	unsigned tries, clears;
	struct live_guest *guest;     /* owned: live_guest.c; NULL: no request was made */
	char root_image[CELL_ID_MAX]; /* of a guest that the pool made: a layer; "": none */
	uint32_t guest_state;	      /* enum boot_guest, as it was told last */
	unsigned nheld;		      /* programs that it reported as held */
	unsigned nguest;	      /* states of its guest that it reported */
	struct keeper_create *plan;   /* owned, while making */
	struct keeper_call *call;     /* under way */
	const struct live_cell_events *events;
	void *owner;
	void *prepared; /* what the owner of its pool has started in it, until it is claimed */
	uint64_t disk_bytes, inodes, processes; /* by the last STATED */
};

/* plan is copied; its id names the cell. */
struct live_cell *live_cell_make(struct cells *cs, const struct keeper_create *plan, bool urgent,
				 const struct live_cell_events *events, void *owner);

/* Connects to a cell that an earlier daemon left. ERR_NOT_FOUND: it is not there any more. A frozen
 * one will answer when it is thawed. */
struct live_cell *live_cell_adopt(struct cells *cs, const char *id, bool frozen,
				  const struct live_cell_events *events, void *owner,
				  struct err *e) MUST_USE;

void live_cell_own(struct live_cell *c, const struct live_cell_events *events, void *owner);

/* Gives the program a handle and waits for its events. */
void live_cell_add(struct live_cell *c, struct live_program *p);
/* The same for one that is known by its handle already. */
void live_cell_add_held(struct live_cell *c, struct live_program *p, uint32_t handle);
void live_cell_remove(struct live_cell *c, struct live_program *p);
/* For live_cell.c: a message of PID 1 about a program; false: of one that is not known. And whether
 * PID 1 may say that. */
bool live_program_event(struct live_cell *c, enum agent_type type, const struct agent_event *v);
int live_program_check(const struct live_cell *c, enum agent_type type, const struct agent_event *v,
		       struct err *e) MUST_USE;

/* After agent_send_*(): sends what is queued, now or when the socket accepts it. */
void live_cell_flush(struct live_cell *c);

/* Sends lease and deadline to PID 1 of an adopted cell: an earlier server may have set others. */
void live_cell_lease_send(struct live_cell *c);

/* Queues for PID 1 when its session ends (wall clock; 0: not by itself), in case no server is there
 * then. It is sent with the next live_cell_flush(), to an adopted cell when PID 1 has answered,
 * which has no deadline until then; nothing is queued if it is the same as before. */
void live_cell_lease_set_deadline(struct live_cell *c, uint64_t deadline_ms);

/* Ends it, in any state. on_gone() follows. Idempotent. If a call to the keeper is under way
 * (c->call), the callback of that call calls live_cell_end_now() if c is ending. */
void live_cell_end(struct live_cell *c);
void live_cell_end_now(struct live_cell *c);

/* The events of a cell that has no owner. */
extern const struct live_cell_events live_cell_orphan_events;
/* Ends it without an owner: its events are not wanted any more. */
void live_cell_abandon(struct live_cell *c);

/* Ends a cell that an earlier daemon left and that belongs to no session. */
struct live_cell *live_cell_end_unknown(struct cells *cs, const char *id);

/* Removes what a dead cell of that name may have left: its cgroup, its socket. Both return the cell
 * that ends, whose owner the caller may become (live_cell_own()): a new cell of that name has to
 * wait until it is gone. */
struct live_cell *live_cell_clean_up(struct cells *cs, const char *id);

/* Frees it without ending the cell, at the end of the daemon; sends what is queued for PID 1. A
 * cell that lingers goes on. */
void live_cell_detach(struct live_cell *c);
