/* run_options.h - the options of `cordon run`, parsed and checked. */
#pragma once

#include "cmd/base/options.h"
#include "lib/wire/keeper_msg.h"

struct run_options {
	const char *template, *profile_name, *level, *runsc, *state_dir, *user, *cwd, *hostname,
		*result;
	const char *policy, *net_log, *egress_ca;
	uint64_t memory, cpus, pids, disk, inodes, nofile, timeout_ms, boot_ms, output_limit;
	struct option_list env, mounts, allow, deny, allow_private;
	bool tty, mount_unsafe, interactive, read_only, diff, best_effort, help;
	/* from here on: derived */
	enum cell_profile profile;
	unsigned limits_asked; /* set of CELL_LIMIT_* named on the command line */
	struct {
		char source[4096], at[CELL_PATH_MAX];
		bool writable;
	} mount[CELL_MOUNTS_MAX];
	char **command;
};

extern const struct verb run_verb;

/* Fill in defaults, parse, check. On failure o->result is still set if it was given anywhere. */
int run_options_parse(struct run_options *o, int argc, char **argv, struct err *e) MUST_USE;

/* The user id of --user: the keeper needs it before there is a cell that could be asked. */
int run_options_uid(const struct run_options *o, uint32_t *ret, struct err *e) MUST_USE;
