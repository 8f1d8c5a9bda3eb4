/* agentd.h - the half of PID 1 that speaks with the server, at every level: in cordon-init, which
 * starts programs itself, and in cordon-shim, whose programs run in a guest. It receives requests
 * over channel B, sends events in their order, accepts the next server, and keeps deadlines and the
 * lease. The other half knows how a program is started and killed: struct agentd_ops. Called by
 * both main.c.
 *
 * There is no queue of events. The pending events of a program are a set of flags in its entry.
 * Beside these there is at most one event of each kind (struct agentd_slot). So memory is bounded
 * however slowly the server reads, and events can be sent again over the next connection.
 *
 * A lingering cell outlives the server that made it, so that the next server can use it. If no
 * other server is started with the same run_dir, the cell would stay until the machine is
 * restarted. So the server sends two times: the lease, how long the cell may be without a
 * connection, and the deadline, when its session ends. While a server is connected they have no
 * effect. Without one the cell ends at the sooner of the two. A new connection drops the deadline:
 * its server may have promised another one to a client before PID 1 ran, and ended before it could
 * send it. A server sends the deadline after READY. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/own.h"
#include "lib/wire/agent_msg.h"

#define AGENTD_STDIO 4 /* standard descriptors, and that of results */

/* Events about one program, in the order in which they are sent. HELD has everything of STARTED and
 * EXITED. */
enum {
	AGENTD_SEND_HELD = 1 << 0,
	AGENTD_SEND_STARTED = 1 << 1,
	AGENTD_SEND_FAILED = 1 << 2,
	AGENTD_SEND_EXITED = 1 << 3,
	AGENTD_SEND_TREE_DEAD = 1 << 4,
};

/* A program as the server knows it: the first member of the owner's structure. */
struct agentd_program {
	bool used, held, tty;
	bool starting; /* not known yet whether exec succeeded */
	bool exited, timed_out;
	bool failed;	  /* it could not be started: end is of FAILED */
	bool exit_waits;  /* it has exited, but counts as running until its output is written */
	bool forgotten;	  /* by the server: no event is sent, and no deadline counts */
	bool leftover;	  /* stands for processes that a forgotten program left: KILL_TREE */
	bool report_tree; /* TREE_DEAD is sent when its tree is dead */
	unsigned to_send; /* set of AGENTD_SEND_* */
	uint32_t handle;
	uint32_t tree_flags; /* of TREE_DEAD */
	pid_t pid;
	uint64_t mark;
	uint64_t deadline_ns;	 /* 0: none */
	int stdio[AGENTD_STDIO]; /* the server's ends, until sent, if held, until FORGET */
	struct agent_event end;	 /* FAILED or EXITED */
};

/* The half that runs programs. Members that may be NULL say so. */
struct agentd_ops {
	/* Iterate over the programs in use: NULL begins and ends. */
	struct agentd_program *(*next)(const struct agentd_program *p);
	/* Must this event wait, and with it all later ones of the program? */
	bool (*waits)(const struct agentd_program *p, unsigned what);
	/* An event was sent. May free p. */
	void (*on_sent)(struct agentd_program *p, unsigned what);
	/* Send the events that belong to no program. False: the channel takes no more. */
	bool (*send_others)(void);
	/* Handle a request that agentd_on_order() does not. False: it has to wait, and is handed
	 * over again. */
	bool (*handle)(const struct frame *f);
	/* Is a request still read from the channel's buffer, so that none may be parsed? May be
	 * NULL: never. */
	bool (*is_busy)(void);
	/* A connection has begun: events that only the server before asked for are dropped. */
	void (*on_begin)(void);
	/* The connection was lost, or is about to be replaced. */
	void (*on_disconnect)(void);
	/* The cell was frozen for ms: times of its own are later by that. May be NULL. */
	void (*on_paused)(uint64_t ms);
	/* Kill the programs of agentd_next_late(). */
	void (*end_late)(uint64_t now_ns);
	/* Take fd over and answer questions about owners of connections at it (owner_msg.h). -1: no
	 * more. */
	void (*answer_owners)(int fd);
};

/* One pending event, with its descriptors. */
struct agentd_slot {
	bool pending;
	enum agent_type type;
	struct agent_event event;
	int fds[2]; /* owned */
	size_t nfds;
};

void agentd_slot_clear(struct agentd_slot *s);
/* Take descriptors a and b over. -1: none. */
void agentd_slot_set(struct agentd_slot *s, enum agent_type type, const struct agent_event *v,
		     int a, int b);
/* True also if nothing was pending. */
bool agentd_slot_send(struct agentd_slot *s);

/* Called first. */
void agentd_init(const struct agentd_ops *ops);

/* A connection has begun. greet: it is not the first one, so HELD of each held program and SYNCED
 * are sent. */
void agentd_begin(bool greet);

/* The answer to the current request. Requests are handled only while no event is pending, so there
 * is at most one answer. */
void agentd_answer(enum agent_type type, const struct agent_event *v);
/* An answer with a descriptor. Take fd over. */
void agentd_answer_fd(enum agent_type type, const struct agent_event *v, int fd);

/* Handle a request that every PID 1 handles alike. False: it is another one. */
bool agentd_on_order(uint16_t type, const struct agent_order *o);

/* Drop PID 1's copy of a held program's input. */
void agentd_close_stdin(struct agentd_program *p);

/* Send pending events, then handle requests one by one, as long as no event is pending. */
void agentd_exchange(void);

/* Receive once, and exchanges. False if nothing was received. */
bool agentd_read(void);

/* Accept the next server, if one waits. */
void agentd_accept(void);

/* A request waits for the guest: nothing more is to be received. */
bool agentd_is_blocked(void);

/* Times are of CLOCK_MONOTONIC, which continues while a cell is frozen. */

/* The deadline of a program that starts now. 0: none. */
uint64_t agentd_deadline(uint64_t timeout_ms);
/* The time, later by ms of a pause, 0 stays 0. */
uint64_t agentd_put_off(uint64_t end_ns, uint64_t ms);
/* The nearest deadline that still counts. 0: none. */
uint64_t agentd_nearest_deadline(void);
/* A program whose deadline was reached at now_ns. It counts as timed out from then on. NULL: none.
 */
struct agentd_program *agentd_next_late(uint64_t now_ns);
/* End programs at their deadline. */
void agentd_check_deadlines(uint64_t now_ns);
/* End the cell if no server has connected in time. */
void agentd_check_lease(uint64_t now_ns);
/* When the lease is to be checked, or sending to be tried again. 0: no such time. */
uint64_t agentd_wake_ns(uint64_t now_ns);
/* The sooner of two times. 0: none. */
uint64_t agentd_sooner(uint64_t a, uint64_t b);

/* Name the process. Make it not dumpable, so that no process of the cell may trace it or read its
 * memory. Reset what signals do and blocks all. Keep the keeper's descriptors (keeper_msg.h) from
 * programs. Return a non-blocking signalfd(2) of SIGCHLD, or -1. */
int agentd_setup(const char *name) MUST_USE;
