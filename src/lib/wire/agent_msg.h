/* agent_msg.h - channel B: the requests to PID 1 of a cell, and the events that it sends.
 * doc/agent-protocol.md describes their use. Encoded and decoded by cell/cellctl/agent_client.c and
 * cell/init/main.c.
 *
 * Messages from PID 1 are untrusted: the cell may have taken it over. So each message has one exact
 * layout, each string a bound, and a decoder returns the whole message or an error. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/frame.h"

#define AGENT_VERSION 9
#define AGENT_VERSION_MARKS 3	/* the first that supports KILL_TREE with a mark */
#define AGENT_VERSION_DIAL 4	/* the first that supports DIAL */
#define AGENT_VERSION_EGRESS 5	/* the first that supports LISTEN_EGRESS */
#define AGENT_VERSION_LEASE 6	/* the first that supports LEASE and DEADLINE */
#define AGENT_VERSION_OWNERS 7	/* the first that answers questions about connections */
#define AGENT_VERSION_RESULTS 8 /* the first that supports AGENT_RESULTS */
#define AGENT_VERSION_BOOT 9	/* the first that supports BOOT, RESUME and SNAPSHOT */

/* Where the egress listener is inside the cell (tools/gen-cell-network). No connection is made to
 * it from outside: cordon-egress accepts on it, for the cell only. */
#define AGENT_EGRESS_PORT 1
/* Where the code interpreter of a cell listens. It serves root only, and finds the user by the
 * socket at the other end: a connection to it is made where the interpreter is, by the guest's
 * agent if there is a guest. */
#define AGENT_CODE_PORT 49999
/* Arguments and environment together. execve(2) takes less. */
#define AGENT_REQUEST_MAX (4U << 20)
#define AGENT_REPLY_MAX 1024U
#define AGENT_STRINGS_MAX 65536U
#define AGENT_USER_MAX 64
#define AGENT_SPAWN_HEAD 40U	       /* bytes of a SPAWN before its strings */
#define AGENT_PROGRAMS_MAX 256U	       /* running or held, at any time */
#define AGENT_DIALS_MAX 512U	       /* connections to ports: in progress or held, at any time */
#define AGENT_TIME_MAX_MS (1ULL << 40) /* 35 years: far from any overflow */
#define AGENT_STAY 1U
#define AGENT_PAGE 4096U

enum agent_type {
	/* to PID 1 */
	AGENT_SPAWN = 1,   /* start a program */
	AGENT_SIGNAL,	   /* one signal to a program's process group */
	AGENT_KILL_ALL,	   /* SIGKILL to all in the cell but PID 1. Answered when all are reaped */
	AGENT_KILL_TREE,   /* SIGKILL to all that a program started. Answered by TREE_DEAD */
	AGENT_CLOSE_STDIN, /* PID 1 drops its copy of a held program's input */
	AGENT_RESIZE,	   /* the size of a held program's terminal */
	AGENT_FORGET,	   /* removes a held program from PID 1's table */
	AGENT_LINGER,	   /* with a bound socket: the cell outlives its channel, for a lease */
	AGENT_PAUSED,	   /* the cell was frozen for ms: every deadline is later by that */
	AGENT_STAT,	   /* answered by STATED */
	AGENT_END,	   /* PID 1 exits, and with it the cell */
	AGENT_DIAL,	   /* a connection to a port of the cell. Answered by DIALED */
	AGENT_LISTEN_EGRESS, /* opens the egress listener. Answered by EGRESS_LISTENS. May bring a
				socket for questions about connections (owner_msg.h) */
	AGENT_LEASE,	     /* how long the cell may be without a connection. 0: no limit */
	AGENT_DEADLINE,	     /* when its session ends. Counts while there is no connection */
	/* Only to cordon-shim (boot_msg.h, doc/shim-protocol.md). */
	AGENT_BOOT,	/* with descriptors: starts an engine and its guest. Answered by BOOTED */
	AGENT_RESUME,	/* makes the guest a new machine and lets it run. Answered by BOOTED */
	AGENT_SNAPSHOT, /* writes the guest's memory. Answered by SNAPSHOT_DONE */
	AGENT_REQUESTS_END,
	/* from PID 1 */
	AGENT_READY = 64, /* first message of every connection. The cell is usable */
	AGENT_STARTED,	  /* the program runs. Its ends of stdio come along */
	AGENT_FAILED,	  /* the program could not be started. A held one is kept until FORGET */
	AGENT_EXITED,	  /* the program ended */
	AGENT_ALL_DEAD,	  /* nothing runs in the cell but PID 1 */
	AGENT_HELD,	  /* after READY: a program started over an earlier connection */
	AGENT_SYNCED,	  /* after the last HELD */
	AGENT_TREE_DEAD,  /* answer to KILL_TREE */
	AGENT_LINGERING,  /* answer to LINGER: sys is 0, or why it cannot */
	AGENT_STATED,	  /* answer to STAT */
	AGENT_DIALED,	  /* answer to DIAL: sys is 0 and a socket comes along, or why not */
	AGENT_EGRESS_LISTENS, /* answer to LISTEN_EGRESS: sys is 0 and two sockets come along, or
				 why not */
	AGENT_BOOTED,	      /* answer to BOOT and RESUME: sys is 0, or which step failed */
	AGENT_SNAPSHOT_DONE,  /* answer to SNAPSHOT: sys is 0 and a memory image comes along, or why
				 not */
	AGENT_GUEST,	      /* something happened to the guest */
	AGENT_EVENTS_END,
};

/* Flags of SPAWN. */
enum {
	AGENT_TTY = 1 << 0,	 /* one PTY instead of three pipes */
	AGENT_NO_STDIN = 1 << 1, /* stdin reads end of file at once */
	/* PID 1 keeps copies of the server's ends of stdio, and how the program ended, until
	 * FORGET. The timeout kills the whole tree. Without the flag a program is killed when the
	 * connection that started it ends. */
	AGENT_HOLD = 1 << 2,
	AGENT_BUILTIN =
		1
		<< 3, /* argv[0] names a built-in (cell/init/files/builtin.h). Not with HOLD, TTY */
	AGENT_RESULTS = 1 << 4, /* a third pipe, its descriptor 3. Not with TTY, BUILTIN */
	AGENT_SPAWN_FLAGS = (1 << 5) - 1,
};

/* Flags of events: the kind of a STARTED or HELD program, and the descriptors that come along, in
 * order:
 *
 *	pipes			stdin (if HAS_STDIN), stdout, stderr, results (if HAS_RESULTS)
 *	IS_TTY | IS_HELD	input (if HAS_STDIN), output: pipes too, PID 1 moves the bytes
 *	IS_TTY			the PTY's master, alone
 *	IS_STARTING		none: STARTED or FAILED is still to come
 *
 * With DIALED: a TCP socket, connected or about to be, if sys is 0.
 * With EGRESS_LISTENS: a TCP socket that listens and a UDP socket, if sys is 0.
 * With SNAPSHOT_DONE: the guest's memory and the state of its devices, if sys is 0.
 * With BOOTED and GUEST: if HAS_TEXT, the end of the output of the engine and the guest's console.
 * The last three are sealed memory files: they never change again. */
enum {
	AGENT_IS_TTY = 1 << 0,
	AGENT_IS_HELD = 1 << 1,
	AGENT_HAS_STDIN = 1 << 2,   /* it was not closed yet */
	AGENT_IS_STARTING = 1 << 3, /* HELD only */
	AGENT_HAS_EXITED = 1 << 4,  /* HELD only: the fields of EXITED count */
	AGENT_SOME_REMAIN = 1 << 5, /* TREE_DEAD only: they could not be killed in time */
	AGENT_NOT_KNOWN = 1 << 6,   /* TREE_DEAD only: no program of that handle or mark */
	AGENT_HAS_RESULTS = 1 << 7, /* STARTED, HELD: not with IS_TTY */
	AGENT_HAS_TEXT = 1 << 8,    /* BOOTED, GUEST */
	/* EXITED, HELD with HAS_EXITED, of a guest with limits of its own kernel: these were hit
	 * since the last program ended. In a cell, its cgroups have the counters. */
	AGENT_HIT_MEMORY = 1 << 9,
	AGENT_HIT_PIDS = 1 << 10,
	AGENT_EVENT_FLAGS = (1 << 11) - 1,
};

/* The step of the start that failed. */
enum agent_stage {
	AGENT_AT_USER,
	AGENT_AT_CWD,
	AGENT_AT_EXEC,
	AGENT_AT_SYSTEM, /* fork, pipe, PTY, too many: not the program's fault */
	AGENT_STAGES
};

struct agent_spawn {
	uint32_t handle; /* chosen by the sender. Names the program until EXITED or FORGET */
	uint32_t flags;
	uint16_t rows, cols;
	uint64_t timeout_ms; /* 0: none. PID 1 kills the program's session when it ends */
	uint64_t nofile;
	uint32_t argc, envc;
	const char *user;    /* name or number. "" is the default */
	const char *cwd;     /* "" is the user's home. Relative, "~" and "~/x" are in it */
	const char *strings; /* argc + envc strings, each with its NUL, one after another */
	size_t strings_len;
};

/* The body of every other request but BOOT and RESUME (boot_msg.h). Members that a type does not
 * use are zero. */
struct agent_order {
	uint32_t handle;     /* SIGNAL, KILL_TREE, CLOSE_STDIN, RESIZE, FORGET, DIAL */
	int32_t sig;	     /* SIGNAL */
	uint16_t rows, cols; /* RESIZE */
	uint16_t port;	     /* DIAL */
	uint16_t zero;
	/* PAUSED: how long. LINGER, LEASE: the lease. DEADLINE: from now on. 0 is none. KILL_TREE:
	 * a mark, if there is no program of that handle, or 0. SNAPSHOT: AGENT_STAY if the guest is
	 * to stay stopped, and bytes, in whole pages: if at most so many pages changed since the
	 * guest was started from a memory image, these are enough. */
	uint64_t ms;
};

/* The body of every message of PID 1. Members that a type does not use are zero.
 * FAILED: stage and errno. BOOTED, SNAPSHOT_DONE: enum boot_stage and errno. GUEST: the state, enum
 * boot_guest, in stage. EXITED, and HELD with HAS_EXITED: how the program ended, its resource use
 * (of a program not held: what all ended programs of the cell used), and in how many samples the
 * disk was full. STATED: the cell's resource use, and how often it hit each limit since its start.
 * Members that an earlier PID 1 does not send are zero. */
struct agent_event {
	uint32_t handle;
	uint32_t pid; /* inside the cell. READY: AGENT_VERSION. BOOTED: enum boot_accel in use.
		       SNAPSHOT_DONE: 1 if the memory has changed pages only */
	uint32_t stage;
	int32_t sys;
	uint32_t exit_code, signal; /* one of them is 0 */
	uint32_t timed_out;
	uint32_t flags;
	union {
		uint64_t cpu_us;
		uint64_t memory_kills; /* STATED, of a guest with limits of its own kernel: */
	};
	union {
		uint64_t maxrss_bytes;
		uint64_t pids_refused; /* processes killed for memory, or refused */
	};
	/* Samples in which the cell's file system was full. STATED: how often it became full. */
	uint64_t disk_full, inodes_full;
	union {
		uint64_t mark; /* STARTED, HELD: its mark: a hard limit in /proc/<pid>/limits of all
				  that it starts */
		uint64_t inodes_limit; /* STATED */
	};
	uint64_t disk_bytes, disk_limit_bytes, inodes, processes; /* STATED */
};

/* Read a SPAWN body. The strings point into it. */
int agent_spawn_read(const uint8_t *body, size_t len, struct agent_spawn *ret,
		     struct err *e) MUST_USE;

/* Size of the body that agent_spawn_write() will make, or 0 if it would be over the maximum. */
size_t agent_spawn_size(const struct agent_spawn *s);
void agent_spawn_write(const struct agent_spawn *s, uint8_t *ret_body);
/* The first bytes of a SPAWN, but without a timeout. */
void agent_spawn_untimed(const uint8_t *body, uint8_t ret_head[AGENT_SPAWN_HEAD]);

/* Read any request but SPAWN, BOOT and RESUME. */
int agent_order_read(const struct frame *f, struct agent_order *ret, struct err *e) MUST_USE;

/* Read any message of PID 1. */
int agent_event_read(const struct frame *f, struct agent_event *ret, struct err *e) MUST_USE;

/* How many descriptors must come with an event. */
size_t agent_event_fds(enum agent_type type, const struct agent_event *v);
