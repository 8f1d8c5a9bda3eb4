/* event_out.h - messages that PID 1 has still to send, and their order. */
#pragma once

#include <stdbool.h>

#include "agent_msg.h"

/* A connection has begun. greet: it is not the first: what is held is sent. */
void event_out_begin(bool greet);

/* The one answer to the request at hand. Requests are looked at only when nothing is owed, so there
 * is never a second. */
void event_out_answer(enum agent_type type, const struct agent_event *v);

/* The answer with a descriptor, which is taken. */
void event_out_answer_fd(enum agent_type type, const struct agent_event *v, int fd);

/* The answer with n descriptors that stay where they are: they must outlive the connection. */
void event_out_answer_kept(enum agent_type type, const struct agent_event *v, const int *fds,
			   size_t n);

void event_out_all_dead(const struct agent_event *v);

/* Sends all that is kept, as far as it goes. True if nothing is left to send, or there is no
 * connection.
 */
bool event_out_all(void);
