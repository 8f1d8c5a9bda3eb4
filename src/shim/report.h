/* report.h - what the shim has still to send to the server, and its order; as init/event_out.h does
 * for cordon-init. Called by main.c (report_all) and by all that have something to report.
 *
 * There is no queue: one slot for each kind, flags in the entries of programs and dials. So memory
 * is bounded however slowly the server reads. */
#pragma once

#include <stdbool.h>

#include "agent_msg.h"

/* A connection has begun. greet: it is not the first one. */
void report_begin(bool greet);

/* The answer to the current request; requests are handled only while no report is pending. */
void report_answer(enum agent_type type, const struct agent_event *v);
/* With a descriptor, which is taken over. */
void report_answer_fd(enum agent_type type, const struct agent_event *v, int fd);
/* With descriptors that stay open as long as the process runs. */
void report_answer_kept(enum agent_type type, const struct agent_event *v, const int *fds,
			size_t n);

/* Answers that come later than their request. Descriptors (-1: none) are taken over. A server that
 * connects meanwhile does not get those that the one before asked for. */
void report_all_dead(const struct agent_event *v);
void report_stated(const struct agent_event *v);
void report_booted(const struct agent_event *v, int text);
void report_snapshot(const struct agent_event *v, int memory, int devices);

/* Whether the guest answers; told once for each change, and to each new server. */
void report_responsive(bool now);

/* The last report: when it is sent, the process exits. state: enum boot_guest. */
void report_gone(uint32_t state, int text);

/* Sends until the channel takes no more. True if nothing is left, or the channel is broken. */
bool report_all(void);
