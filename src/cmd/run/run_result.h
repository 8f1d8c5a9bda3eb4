/* run_result.h - the result of `cordon run`, as an exit code and as JSON. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cell/cellctl/usage.h"
#include "lib/wire/agent_msg.h"
#include "lib/wire/exit_codes.h"
#include "lib/wire/keeper_msg.h"

/* Totals by cordon-egress for this cell. run_net.c fills them. */
struct run_result_network {
	bool wanted;
	uint64_t connections, requests, refused, bytes;
};

struct run_result {
	char id[CELL_ID_MAX];
	char started_at[32];
	uint64_t wall_ms;
	bool ended; /* the command ran and its end was seen */
	bool timed_out;
	bool user_fault;	  /* err is the caller's fault, not cordon's */
	bool wrong_use;		  /* the command line or policy is wrong, and no command started */
	int start_failed;	  /* exit code if it could not be started, else 0 */
	struct agent_event event; /* EXITED, if ended */
	struct usage usage;
	struct cell_disk disk;
	struct cell_restrictions restrictions;
	uint64_t output_bytes;
	bool output_truncated;
	enum cell_profile profile;
	const struct cell_level *level; /* NULL: not known */
	bool cell_made;
	struct run_result_network network;
	struct err err; /* ERR_NONE: cordon itself did not fail */
};

/* Find the limits hit, also those that the command hid by ending well. The first is the one that
 * ended the command, if one did. Return their number. */
#define RUN_RESULT_LIMITS 7
size_t run_result_limits(const struct run_result *o, const char *ret[RUN_RESULT_LIMITS]);

/* Print them as one line, if any was hit. */
void run_result_say_limits(const struct run_result *o, FILE *to);

int run_result_exit_code(const struct run_result *o);

/* Write the JSON object to fd. */
int run_result_write(const struct run_result *o, int fd, struct err *e) MUST_USE;
