/* report.h - events of the shim that belong to no program: answers of the guest that come later
 * than their request, and the state of the guest. Called by main.c (report_send) and by every file
 * with a report.
 *
 * There is one slot for each kind, so memory is bounded however slowly the server reads. */
#pragma once

#include <stdbool.h>

#include "lib/wire/agent_msg.h"

/* A connection has begun: answers that only the server before asked for are dropped. */
void report_begin(void);

/* Descriptors (-1: none) are taken over. */
void report_all_dead(const struct agent_event *v);
void report_stated(const struct agent_event *v);
void report_booted(const struct agent_event *v, int text);
void report_snapshot(const struct agent_event *v, int memory, int devices);

/* Whether the guest answers. Told once for each change, and to each new server. */
void report_responsive(bool now);

/* The last report: when it is sent, the process exits. state: enum boot_guest. */
void report_gone(uint32_t state, int text);

/* Send until the channel takes no more: then false. */
bool report_send(void);
