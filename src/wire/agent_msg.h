/* agent_msg.h - channel B: what PID 1 of a cell is asked, and what it says. doc/agent-protocol.md.
 *
 * Everything PID 1 says is hostile to the one who reads it: a cell may have taken it over. So each
 * message has one exact layout, each string a bound, and a decoder that takes all or nothing. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "frame.h"

#define AGENT_VERSION 1
#define AGENT_REQUEST_MAX                                                      \
	(4U << 20) /* arguments and environment together; execve(2) takes less \
		    */
#define AGENT_REPLY_MAX 1024U
#define AGENT_STRINGS_MAX 65536U
#define AGENT_USER_MAX 64

enum agent_type {
	/* to PID 1 */
	AGENT_SPAWN = 1, /* start a program */
	AGENT_SIGNAL,	 /* one signal to a program's process group */
	AGENT_KILL_ALL,	 /* SIGKILL to all in the cell but PID 1; answered when all are reaped */
	/* from PID 1 */
	AGENT_READY = 64, /* first message; the cell is usable */
	AGENT_STARTED,	  /* the program runs; its ends of stdio come along */
	AGENT_FAILED,	  /* the program could not be started */
	AGENT_EXITED,	  /* the program ended */
	AGENT_ALL_DEAD,	  /* nothing runs in the cell but PID 1 */
};

enum {
	AGENT_TTY = 1 << 0,	 /* one PTY instead of three pipes */
	AGENT_NO_STDIN = 1 << 1, /* stdin reads end of file at once */
	AGENT_SPAWN_FLAGS = (1 << 2) - 1,
};

/* Which step of the start failed. */
enum agent_stage {
	AGENT_AT_USER,
	AGENT_AT_CWD,
	AGENT_AT_EXEC,
	AGENT_AT_SYSTEM, /* fork, pipe, PTY: not the program's fault */
	AGENT_STAGES
};

struct agent_spawn {
	uint32_t handle; /* chosen by the asker; names the program from now on */
	uint32_t flags;
	uint16_t rows, cols;
	uint64_t timeout_ms; /* 0: none. PID 1 kills the program's session when it is over */
	uint64_t nofile;
	uint32_t argc, envc;
	const char *user;    /* name or number; "" is the default */
	const char *cwd;     /* "" is the user's home */
	const char *strings; /* argc + envc strings, each with its NUL, one after another */
	size_t strings_len;
};

struct agent_signal {
	uint32_t handle;
	int32_t sig;
};

/* STARTED: pid inside the cell. FAILED: stage and errno. EXITED: how. */
struct agent_event {
	uint32_t handle;
	uint32_t pid;
	uint32_t stage;
	int32_t sys;
	uint32_t exit_code, signal; /* one of them is 0 */
	uint32_t timed_out;
	uint32_t zero;
	uint64_t cpu_us, maxrss_bytes;
	uint64_t disk_full, inodes_full; /* samples in which the cell's file system was full */
};

/* Reads a SPAWN body. The strings point into it. */
int agent_spawn_read(const uint8_t *body, size_t len, struct agent_spawn *ret,
		     struct err *e) MUST_USE;

/* Size of the body that agent_spawn_write() will make, or 0 if it would be over the maximum. */
size_t agent_spawn_size(const struct agent_spawn *s);
void agent_spawn_write(const struct agent_spawn *s, uint8_t *ret_body);

/* Reads any message of PID 1. type must be one of READY to ALL_DEAD. */
int agent_event_read(const struct frame *f, struct agent_event *ret, struct err *e) MUST_USE;

int agent_signal_read(const uint8_t *body, size_t len, struct agent_signal *ret,
		      struct err *e) MUST_USE;
