/* event_out.h - events that PID 1 has still to send, and their order. Called by main.c.
 *
 * There is no queue. What is to be sent about a program is a set of flags in its entry of the table
 * (programs.h); beside these there is at most one READY, one SYNCED, one answer and one ALL_DEAD.
 * So memory is bounded however slowly the other end reads. */
#pragma once

#include <stdbool.h>

#include "agent_msg.h"

/* A connection has begun. greet: it is not the first one, so HELD of each held program and SYNCED
 * are sent. */
void event_out_begin(bool greet);

/* The answer to the current request. Requests are handled only while no event is pending, so there
 * is at most one answer. */
void event_out_answer(enum agent_type type, const struct agent_event *v);

/* An answer with a descriptor, which is taken over. */
void event_out_answer_fd(enum agent_type type, const struct agent_event *v, int fd);

/* An answer with n descriptors that stay the caller's, and open as long as the process runs. */
void event_out_answer_kept(enum agent_type type, const struct agent_event *v, const int *fds,
			   size_t n);

void event_out_all_dead(const struct agent_event *v);

/* Sends pending events until the channel accepts no more. True if none is left, or the channel is
 * broken: then they are sent over the next connection. */
bool event_out_all(void);

/* Does EXITED of a program wait for its output? Then event_out_all() is to be called again soon. */
bool event_out_waits(void);
