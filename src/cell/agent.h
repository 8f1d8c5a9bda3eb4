/* agent.h - channel B, seen from outside: talks to PID 1 of a cell, and believes it nothing. */
#pragma once

#include "agent_msg.h"

#define AGENT_FDS 3

struct agent {
	int sock; /* owned */
	size_t have;
	int fds[AGENT_FDS]; /* owned: received, waiting for their STARTED */
	size_t nfds;
	uint8_t bytes[FRAME_HEAD + AGENT_REPLY_MAX];
};

void agent_init(struct agent *a, int sock);
void agent_release(struct agent *a);

int agent_send_spawn(struct agent *a, const struct agent_spawn *s, struct err *e) MUST_USE;
int agent_send_signal(struct agent *a, uint32_t handle, int sig, struct err *e) MUST_USE;
int agent_send_kill_all(struct agent *a, struct err *e) MUST_USE;

/* The next message: 1 if there is one, 0 if none is complete within wait_ms, -1 if PID 1 is gone or
 * talks nonsense. Never blocks longer. With STARTED the caller takes a->fds, checked to be fresh
 * pipe ends (or one PTY master) and set non-blocking. */
int agent_next(struct agent *a, int wait_ms, enum agent_type *ret_type, struct agent_event *ret,
	       struct err *e) MUST_USE;
