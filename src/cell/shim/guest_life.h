/* guest_life.h - the guest as a whole: starts it, greets it, stops and saves it, notices its end.
 * Called by requests.c for BOOT, RESUME and SNAPSHOT, and by main.c for exits of children.
 *
 *	NONE --BOOT--> STARTING --+--> GREETING --> RUNNING --SNAPSHOT--> DRAINING, QUIESCING
 *	                          |       ^          ^   |                    |
 *	              (PAUSED) PAUSED     |          |   +--RESUME (greets    v
 *	                  |RESUME         |          |       again)        STOPPING
 *	                  v               |          |                        |
 *	              GOING_ON -----------+----------+                        v
 *	                  ^                                    STOPPED <--- SAVING
 *	                  +------- RESUME, or at once ------------+
 *
 * A cold boot that failed for the kernel's timer: GREETING, AGAIN, STARTING.
 * From every state to GONE: the engine or the guest's kernel ended, or the guest broke the
 *protocol. Each state that waits for the guest or the engine has a bound, counted in ticks of the
 *loop's timer and not by the clock: a cell may be frozen for hours at any instruction. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

/* BOOT. Take its descriptors over. RESUME. Answered by BOOTED. */
void guest_life_boot(const struct boot_request *r, int *fds, size_t nfds);
void guest_life_resume(const struct boot_request *r);
/* Answered by SNAPSHOT_DONE. bytes: of changes, see agent_msg.h. */
void guest_life_snapshot(bool stay_stopped, uint64_t bytes);

/* Requests for the guest can be sent on now. */
bool guest_life_takes_requests(void);
/* They must wait: the guest is about to take requests again. Else they are refused. */
bool guest_life_is_changing(void);
/* Its programs run, and nothing bounds that. */
bool guest_life_is_running(void);
/* A program outlived its timeout: the engine is ended. */
void guest_life_end_overdue(void);

/* A child was reaped. */
void guest_life_on_exit(pid_t pid, int status);

/* At the end of each turn, when no code of the engine runs: continues the work that waits for the
 * carrier, and frees an ended engine. */
void guest_life_settle(void);
