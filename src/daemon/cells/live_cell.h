/* live_cell.h - a cell in cordond: made by a keeper, controlled over channel B, ended.
 *
 *   making -> greeting -> linger sent -> up -> ending -> gone
 *
 * Until PID 1 has confirmed LINGER, a cell ends with this daemon. From then on it listens
 * at RUN/cells/<id>.sock and can be adopted by the next. The pool and the sessions own cells. A
 * cell is freed after on_up() with an error, or after on_gone().
 *
 * One request to the keeper is in progress at a time (call). keeper_link.c limits its time. PID 1
 * must send READY and confirm LINGER within GREET_MS. A cell is freed only by a reply of the
 * keeper, never inside its own events.
 */
#pragma once

#include "cell/cellctl/agent_client.h"
#include "daemon/cells/cells.h"

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
	/* Write into the new file of its watcher (watch_file.h) what that needs. False: it could
	 * not. Optional. */
	bool (*on_watch)(struct live_cell *c, int fd);
	void (*on_up)(struct live_cell *c, const struct err *e); /* e: it is not, and is freed */
	/* PID 1 has ended by itself, or broke the protocol (broken). The owner calls
	 * live_cell_end().
	 */
	void (*on_dead)(struct live_cell *c);
	/* It was ending, and PID 1 has ended: its memory and files are free, its cgroup and its
	 * socket are still there. May be NULL, and may not come at all before on_gone(). */
	void (*on_exited)(struct live_cell *c);
	void (*on_gone)(struct live_cell *c); /* all its parts are gone, and it is freed */
	/* For adopted cells: a program that it holds, with its descriptors in c->agent.fds, then
	 * the end. These three are optional. An untrusted cell may send them at any time. */
	void (*on_held)(struct live_cell *c, const struct agent_event *v);
	/* A program failed to start. An earlier daemon may have missed that. */
	void (*on_failed)(struct live_cell *c, const struct agent_event *v);
	void (*on_synced)(struct live_cell *c);
	/* The answer to agent_send_listen_egress(), if not NULL. Its descriptors are in
	 * c->agent.fds. */
	void (*on_egress_listens)(struct live_cell *c, const struct agent_event *v);
	/* An answer to live_cell_stat(), the one that c->stats_answered counts. May be NULL. */
	void (*on_stated)(struct live_cell *c, const struct agent_event *v);
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
	char tenant[LANE_OWNER_MAX]; /* live_cell_charge() */
	enum live_state state;
	pid_t pid;
	int slot;     /* of the keeper that made it, see keeper_link_ask_end(). -1: not known */
	int pidfd;    /* owned */
	int listener; /* owned: bound, until PID 1 has it */
	struct agent agent;
	bool connected, greeted, synced, dead, frozen, urgent, broken;
	bool in_call; /* frozen: but one of its programs may still be in a system call */
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
	uint64_t deadline_ms; /* of its session. Wall clock, 0: none */
	bool deadline_due;    /* PID 1's queue has refused it */
	unsigned tries, clears;
	struct live_guest *guest;     /* owned: live_guest.c. NULL: no request was made */
	char root_image[CELL_ID_MAX]; /* of a pool's guest: a layer. "": none */
	uint32_t guest_state;	      /* enum boot_guest, as it was told last */
	unsigned nheld;		      /* programs that it reported as held */
	unsigned nguest;	      /* states of its guest that it reported */
	struct keeper_create *plan;   /* owned, while making */
	struct keeper_call *call;     /* in progress */
	const struct live_cell_events *events;
	void *owner;
	void *prepared; /* what the owner of its pool has started in it, until it is claimed */
	uint64_t disk_bytes, inodes, processes; /* by the last STATED */
	uint64_t stats_asked, stats_answered;
};

/* plan is copied. Its id names the cell. tenant: see live_cell_charge(). */
struct live_cell *live_cell_make(struct cells *cs, const struct keeper_create *plan,
				 const char *tenant, bool urgent,
				 const struct live_cell_events *events, void *owner);

/* Does no program of the cell run any more, as the answer to a freeze says? With REASON_NOT_FROZEN
 * none does, but one may still be in a system call: the cell is marked. */
bool live_cell_holds(struct live_cell *c, const struct err *e);

/* Connect to a cell that an earlier daemon left. ERR_NOT_FOUND: it is not there any more. A frozen
 * one will answer when it is thawed. */
struct live_cell *live_cell_adopt(struct cells *cs, const char *id, bool frozen,
				  const struct live_cell_events *events, void *owner,
				  struct err *e) MUST_USE;

void live_cell_own(struct live_cell *c, const struct live_cell_events *events, void *owner);
/* The cell's requests to keepers are that tenant's from now on. "", as for adopted cells at first:
 * the server's own. */
void live_cell_charge(struct live_cell *c, const char *tenant);

/* Give the program a handle and wait for its events. */
void live_cell_add(struct live_cell *c, struct live_program *p);
/* Add a program with a known handle. */
void live_cell_add_held(struct live_cell *c, struct live_program *p, uint32_t handle);
void live_cell_remove(struct live_cell *c, struct live_program *p);
/* For live_cell.c: handle a message of PID 1 about a program. False: the program is unknown. And
 * may PID 1 say that? */
bool live_program_event(struct live_cell *c, enum agent_type type, const struct agent_event *v);
int live_program_check(const struct live_cell *c, enum agent_type type, const struct agent_event *v,
		       struct err *e) MUST_USE;

/* Ask PID 1 for the cell's use. Return the number of the question, which comes back in
 * c->stats_answered, or 0 if PID 1 cannot be asked now. */
uint64_t live_cell_stat(struct live_cell *c);

/* After agent_send_*(): send queued messages, now or when the socket accepts them. */
void live_cell_flush(struct live_cell *c);
/* After agent_queue_*(): send them with the next message, and in a moment at the latest. */
void live_cell_flush_later(struct live_cell *c);

/* Send lease and deadline to PID 1 of an adopted cell: an earlier server may have set others. */
void live_cell_lease_send(struct live_cell *c);

/* Queue the session's end for PID 1 (wall clock, 0: not by itself), in case no server runs then. It
 * is sent with the next live_cell_flush(), to an adopted cell when PID 1 has answered. Until then
 * that cell has no deadline. Nothing is queued for an unchanged one. */
void live_cell_lease_set_deadline(struct live_cell *c, uint64_t deadline_ms);

/* Queue it although it has not changed: PID 1 was told of a pause, which moves it. */
void live_cell_lease_renew_deadline(struct live_cell *c);

/* Once a second: queue it again if PID 1's queue has refused it. */
void live_cell_lease_retry(struct live_cell *c);

/* End it, in any state. on_gone() follows. Idempotent. If a call to the keeper is in progress
 * (c->call), the callback of that call calls live_cell_end_now() if c is ending. */
void live_cell_end(struct live_cell *c);
void live_cell_end_now(struct live_cell *c);

/* The events of a cell without an owner. */
extern const struct live_cell_events live_cell_orphan_events;
/* End it without an owner: its events are not wanted any more. */
void live_cell_abandon(struct live_cell *c);

/* End a cell that an earlier daemon left and that belongs to no session. */
struct live_cell *live_cell_end_unknown(struct cells *cs, const char *id);

/* Remove the possible remains of a dead cell of that name: its cgroup, its socket. Both return the
 * cell that ends, whose owner the caller may become (live_cell_own()): a new cell of that name must
 * wait until it is gone. */
struct live_cell *live_cell_clean_up(struct cells *cs, const char *id);

/* Free it without ending the cell, at the end of the daemon. Send messages queued for PID 1. A
 * lingering cell continues. */
void live_cell_detach(struct live_cell *c);
