/* run_private.h - the state of `cordon run`. For run*.c only.
 *
 * run.c calls the parts in order, from the command line to the exit code. run_cell.c asks the
 * keeper to make the cell, list its changes and destroy it. run_command.c starts the command.
 * run_wait.c relays its streams and signals until it ends. run_guest.c starts the guest of a level
 * that has one. */
#pragma once

#include "agent_client.h"
#include "cell_level.h"
#include "keeper_client.h"
#include "level_machine.h"
#include "run_result.h"
#include "relay.h"
#include "run_net.h"
#include "run_options.h"
#include "template.h"
#include "terminal.h"

#define RUN_HANDLE 1 /* of the one command, towards PID 1 */

struct run {
	struct run_options o;
	struct template template;
	int root_fd;		      /* owned: the root image of a virtual machine */
	struct level_machine machine; /* what the engine of the level needs; levels with a guest */
	uint32_t uid;		      /* of the command, unless it names a user */
	char machine_id[CELL_MACHINE_ID + 8];
	int sources[CELL_MOUNTS_MAX]; /* owned */
	struct keeper_client keeper;
	struct agent agent;
	struct relay relay;
	struct terminal terminal;
	struct run_result outcome;
	struct run_net net;
	int pidfd;     /* owned */
	int signal_fd; /* owned */
	uint64_t requested_ns, started_ns;
	uint64_t timed_ns; /* when the command's time began */
	bool spawn_sent;
	bool hung_up; /* its terminal, when the output was cut */
};

/* ---- run.c */
/* Records whether the user or the platform caused the error. Returns -1. */
int run_failed(struct run *r, bool user_fault);

/* ---- run_cell.c */
/* Opens the sources of mounts. */
int run_cell_sources(struct run *r, struct err *e) MUST_USE;
/* Fails if a limit of the command line cannot be enforced. Default limits are left out then. */
int run_cell_limits(struct run *r, struct err *e) MUST_USE;
/* Asks the keeper to make the cell. A short command is sent before the cell exists. */
int run_cell_create(struct run *r, struct err *e) MUST_USE;
/* Prints what the command changed. Everything in the cell is killed first. */
int run_cell_changes(struct run *r, struct err *e) MUST_USE;
int run_cell_destroy(struct run *r, struct err *e) MUST_USE;

/* ---- run_command.c */
/* Bytes of command line and environment. */
size_t run_command_size(const struct run_options *o);
/* Requests the start of the command; PID 1 need not exist yet. */
int run_command_send(struct run *r, struct err *e) MUST_USE;
/* Returns when the command runs and its standard streams have come; else an error with the reason.
 */
int run_command_start(struct run *r, struct err *e) MUST_USE;
/* Waits for a message that PID 1 sends at once. */
int run_command_receive(struct run *r, enum agent_type *ret_type, struct agent_event *ret,
			struct err *e) MUST_USE;

/* ---- run_wait.c */
/* From here on signals are passed on to the command. */
int run_wait_signals(struct run *r, struct err *e) MUST_USE;
/* PID 1 enforces the timeout; this many milliseconds after the beginning of the command's time
 * cordon itself does so. */
uint64_t run_wait_limit_ms(const struct run *r);
/* The command's time begins: from here on a timer wakes cordon when it is long over. Called again
 * when a guest has booted, which is not the command's time. */
void run_wait_begin(struct run *r);
/* Relays until the command has ended or the cell is lost. */
int run_wait(struct run *r, struct err *e) MUST_USE;

/* ---- run_guest.c: at a level with a guest (cell_level.h) PID 1 of the cell is cordon-shim, and
 * the command runs behind it. */
/* Whether the level that was asked for has a guest. */
bool run_guest_wanted(const struct run *r);

/* Finds out what this machine has for the level. A level that it cannot do is refused, and never
 * replaced by another one. */
int run_guest_check(struct run *r, struct err *e) MUST_USE;

/* The template of the cell; that of a guest with a root image is the machine's. */
const char *run_guest_cell_template(const struct run *r);

/* Opens or makes that image; the template is open. */
int run_guest_root(struct run *r, struct err *e) MUST_USE;

/* After the keeper's HELLO: gVisor does not work with a single id. */
int run_guest_ids(const struct run *r, struct err *e) MUST_USE;

/* Changes the request for the cell: its engine, and limits that leave the engine what it needs
 * beside the command. */
void run_guest_plan(const struct run *r, struct keeper_create *c);

/* After READY: sends BOOT and waits until the guest takes commands. */
int run_guest_boot(struct run *r, struct err *e) MUST_USE;

/* Something happened to the guest (AGENT_GUEST). Returns -1 with the reason if it has ended. */
int run_guest_event(struct run *r, const struct agent_event *v, struct err *e) MUST_USE;

/* Whether the guest has the files of the command, and not the cell. */
bool run_guest_has_files(const struct run *r);
void run_guest_release(struct run *r);

/* ---- run_guest_changes.c */
/* Prints what the command changed in the guest, in which no program runs any more. */
int run_guest_changes(struct run *r, struct err *e) MUST_USE;
