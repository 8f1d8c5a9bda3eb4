/* run_private.h - the state of `cordon run`, for run.c and run_guest.c.
 *
 * run.c makes the cell, starts the command in it and relays its streams until it ends. run_guest.c
 * starts the guest of a level with one. */
#pragma once

#include "cell/cellctl/agent_client.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/template/template.h"
#include "cmd/base/level_machine.h"
#include "cmd/base/relay.h"
#include "cmd/base/terminal.h"
#include "cmd/run/run_net.h"
#include "cmd/run/run_options.h"
#include "cmd/run/run_result.h"
#include "lib/wire/cell_level.h"

#define RUN_HANDLE 1 /* of the one command, towards PID 1 */

struct run {
	struct run_options o;
	struct template template;
	int root_fd;		      /* owned: the root image of a virtual machine */
	struct level_machine machine; /* what the engine of the level needs. Levels with a guest */
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
/* Wait for a message that PID 1 sends at once. */
int run_command_receive(struct run *r, enum agent_type *ret_type, struct agent_event *ret,
			struct err *e) MUST_USE;

/* ---- run_guest.c: at a level with a guest (cell_level.h) PID 1 of the cell is cordon-shim, and
 * the command runs behind it. */
/* Whether the level asked for has a guest. */
bool run_guest_wanted(const struct run *r);

/* Find this machine's programs for the level. An impossible level is refused, and never replaced by
 * another one. */
int run_guest_check(struct run *r, struct err *e) MUST_USE;

/* The template of the cell. That of a guest with a root image is the machine's. */
const char *run_guest_cell_template(const struct run *r);

/* Open or make that image. The template is open. */
int run_guest_root(struct run *r, struct err *e) MUST_USE;

/* After the keeper's HELLO: gVisor does not work with a single id. */
int run_guest_ids(const struct run *r, struct err *e) MUST_USE;

/* Change the request for the cell: its engine, and limits with room for the engine beside the
 * command. */
void run_guest_plan(const struct run *r, struct keeper_create *c);

/* After READY: sends BOOT and waits until the guest takes commands. */
int run_guest_boot(struct run *r, struct err *e) MUST_USE;

/* Something happened to the guest (AGENT_GUEST). Return -1 with the reason if it has ended. */
int run_guest_event(struct run *r, const struct agent_event *v, struct err *e) MUST_USE;

/* Whether the guest has the files of the command, and not the cell. */
bool run_guest_has_files(const struct run *r);
void run_guest_release(struct run *r);

/* Print the command's changes in the guest, after its last program. */
int run_guest_changes(struct run *r, struct err *e) MUST_USE;
