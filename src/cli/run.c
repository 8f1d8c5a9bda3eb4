/* run.c - theory of operation
 *
 * Starts a keeper, has it make a cell, has the PID 1 of the cell start the command, relays until
 * the command ends, and has the keeper destroy the cell. If cordon is killed, the keeper sees
 * channel A close and destroys the cell; if the keeper is killed, the kernel kills PID 1 and with
 * it the cell, and cordon removes the cgroup. If both are killed, an empty cgroup stays, which the
 * next cordon removes. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <sys/random.h>

#include "cell_ops.h"
#include "clock.h"
#include "rand.h"
#include "root_check.h"
#include "run_private.h"

int run_failed(struct run *r, bool user_fault)
{
	r->outcome.user_fault = user_fault;
	return -1;
}

static int use_cell(struct run *r, struct err *e)
{
	r->started_ns = clock_now_ns();
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
	run_wait_begin(r);
	if (run_command_start(r, e) < 0 || run_wait(r, e) < 0)
		return -1;
	r->outcome.wall_ms = (clock_now_ns() - r->started_ns) / CLOCK_MS;
	/* PID 1's clock began a moment before this one, with the request. */
	if (r->outcome.timed_out && r->outcome.wall_ms < r->o.timeout_ms)
		r->outcome.wall_ms = r->o.timeout_ms;
	if (r->o.diff && !r->outcome.ended)
		return err_set(e, ERR_SYSTEM, "--diff: PID 1 of the cell did not end the command");
	if (r->o.diff && run_cell_changes(r, e) < 0)
		return err_wrap(e, "--diff");
	return 0;
}

static int with_keeper(struct run *r, struct err *e)
{
	struct err later = { 0 };
	int result = -1;

	if (run_cell_limits(r, e) < 0 || run_guest_ids(r, e) < 0)
		return run_failed(r, true);
	if (run_cell_create(r, e) < 0)
		return run_failed(r, e->code == ERR_INVALID);
	result = use_cell(r, e);
	cell_ops(cell_level_find(r->o.level))
		->usage(&r->keeper.cgroups, r->outcome.id, USAGE_ALL, &r->outcome.usage);
	if (run_cell_destroy(r, &later) < 0 && result == 0) {
		*e = later;
		result = -1;
	}
	relay_drain(&r->relay);
	r->outcome.output_bytes = r->relay.output_bytes;
	r->outcome.output_truncated = r->relay.truncated;
	errno = r->relay.write_error;
	if (result == 0 && errno != 0) {
		(void)err_sys(e, "write the command's output");
		return run_failed(r, true);
	}
	return result;
}

static int run(struct run *r, struct err *e)
{
	const struct node_ca *authority = NULL;
	int result = -1;

	if (run_options_uid(&r->o, &r->uid, e) < 0 || run_guest_check(r, e) < 0 ||
	    run_cell_sources(r, e) < 0 || run_net_check(&r->net, &r->o, &r->outcome.network, e) < 0)
		return run_failed(r, true);
	if (root_check(e) < 0 || run_wait_signals(r, e) < 0 ||
	    keeper_client_start(&r->keeper, run_guest_wanted(r), e) < 0)
		return -1;
	if (run_net_open(&r->net, &authority, e) < 0)
		(void)run_failed(r, false);
	else if (template_open(run_guest_cell_template(r), authority, &r->template, e) < 0 ||
		 run_guest_root(r, e) < 0)
		(void)run_failed(r, e->code == ERR_NOT_FOUND || e->code == ERR_INVALID);
	else if (keeper_client_hello(&r->keeper, e) == 0)
		result = with_keeper(r, e);
	/* First: PID 1 ends when this channel is closed, even if its keeper died before it could
	 * ask the kernel for PID 1's end. */
	agent_release(&r->agent);
	keeper_client_stop(&r->keeper, r->outcome.id);
	run_net_close(&r->net);
	run_guest_release(r);
	return result;
}

static void init(struct run *r)
{
	uint64_t random = 0;

	r->pidfd = r->signal_fd = r->root_fd = -1;
	r->terminal = TERMINAL_NONE;
	agent_init(&r->agent, -1);
	run_net_init(&r->net);
	relay_init(&r->relay, -1, -1, -1, 0);
	for (size_t i = 0; i < COUNT(r->sources); i++)
		r->sources[i] = -1;
	level_machine_init(&r->machine);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = clock_now_ns();
	(void)snprintf(r->outcome.id, sizeof(r->outcome.id), "%016llx", (unsigned long long)random);
	rand_machine_id(r->machine_id);
	clock_stamp(r->outcome.started_at, sizeof(r->outcome.started_at));
}

/* Opened before anything happens: a file for the result that cannot be written is an error at the
 * start. */
static int open_result(const struct run_options *o, int *ret_fd, struct err *e)
{
	*ret_fd = -1;
	if (o->result == NULL)
		return 0;
	*ret_fd = strcmp(o->result, "-") == 0
			  ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
			  : open(o->result, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (*ret_fd < 0)
		return err_sys(e, "--result %.120s", o->result);
	return 0;
}

int run_main(int argc, char **argv)
{
	static struct run r; /* large: the relay's buffers */
	struct err e = { 0 }, unwritable = { 0 };
	int opened = -1, parsed, code;

	init(&r);
	parsed = run_options_parse(&r.o, argc, argv, &e);
	r.outcome.profile = r.o.profile;
	r.outcome.level = cell_level_find(r.o.level);
	if (parsed == 0 && r.o.help) {
		options_help(&run_verb, stdout);
		return 0;
	}
	/* Written also for a command line that is wrong, as far as it was understood. */
	if (open_result(&r.o, &opened, &unwritable) < 0 && parsed == 0) {
		e = unwritable;
		parsed = -1;
	}
	OWN_FD result = opened;
	if (parsed < 0)
		(void)run_failed(&r, true);
	else
		parsed = run(&r, &e);
	terminal_stop(&r.terminal);
	if (parsed < 0) {
		err_sanitize(&e); /* it may quote the command line, or the cell */
		r.outcome.err = e;
		(void)fprintf(stderr, "cordon: %s\n", e.msg);
	}
	code = run_result_exit_code(&r.outcome);
	if (parsed == 0 && code != 0 && run_result_limit(&r.outcome) != NULL)
		(void)fprintf(stderr, "cordon: limit reached: %s\n", run_result_limit(&r.outcome));
	if (result >= 0 && run_result_write(&r.outcome, result, &e) < 0) {
		(void)fprintf(stderr, "cordon: --result: %s\n", e.msg);
		code = EXIT_CORDON;
	}
	return code;
}
