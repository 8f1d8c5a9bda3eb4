/* guest_ping.h - whether the guest answers: a PING from time to time, and one after FORGET, so that
 * the shim knows when no more events about a program can come. Called by guest_life.c and
 * requests.c.
 *
 * A guest that does not answer is reported as unresponsive, and nothing more: it may be busy. Time
 * is counted in calls, not by the clock: a cell may be frozen for hours at any instruction. */
#pragma once

#include <stdint.h>

#include "err.h"

extern unsigned guest_ping_ms; /* between two calls of guest_ping_watch(); tests set it */

/* Sends a PING; returns its number. The guest answers them in order (guest_programs.h). */
uint64_t guest_ping_send(void);

/* A PONG. -1: it was not asked for. */
int guest_ping_on_pong(struct err *e) MUST_USE;

/* So much time has passed while the guest ran. */
void guest_ping_watch(void);
/* What was not answered before does not count: the guest was stopped. */
void guest_ping_forgive(void);
