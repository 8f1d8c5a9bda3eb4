/* Start commands in cells of the pool, with a PID 1 that answers as it likes: what it starts
 * becomes an execution of the session that gets the cell, and whatever it says or does not, nothing
 * leaks and no cell counts as ready before its commands said so. */
#include "bed.h"
#include "daemon/execution/execution.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/execution/file_op.h"
#include "daemon/session/session_boot.h"
#include "daemon/session/session_service.h"
#include "daemon/store/store_template.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/tenant.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct template_version *version;
static unsigned spawns, destroyed; /* when the last program was asked for */

static void make_with(bool restart, bool pool)
{
	const struct store_template ask = { .name = "svc",
					    .start_command = "serve",
					    .ready_command = "look",
					    .start_restart = restart };
	const struct store_actor who = { 0 };
	struct err e = { 0 };

	bed.started_pool = pool;
	bed_make(30000);
	version = templates_derive(bed.core, bed.tenant, templates_find(bed.core, NULL, "host"),
				   &ask, &who, &e);
	CHECK(version != NULL);
}

static void make(bool restart)
{
	make_with(restart, true);
}

static struct core_metrics_pool pool(void)
{
	struct core_metrics_pool p;

	template_pool(version, &p);
	return p;
}

static bool is_spawned(void)
{
	return bed.ordered[AGENT_SPAWN] > spawns;
}

/* PID 1 is asked for the next program: bed.handle. */
static void await_spawn(void)
{
	bed_until(is_spawned);
	spawns = bed.ordered[AGENT_SPAWN];
	destroyed = bed.asked[KEEPER_DESTROY];
}

static bool is_ready(void)
{
	return pool().ready == 1;
}

static bool is_gone(void)
{
	return bed.core->cells.ending == 0 && bed.core->live == 0;
}

static void exits(uint32_t handle, uint32_t code)
{
	uint32_t last = bed.handle;

	bed.handle = handle;
	bed_says(AGENT_EXITED, &(struct agent_event){ .pid = 7, .exit_code = code });
	bed.handle = last;
}

/* The first session gets a cell of its own; when it is gone, there is one of the pool. */
static void use_it(void)
{
	CHECK(pool().size == 0);
	bed.template = "svc";
	bed_session();
	CHECK(bed.session->cell != NULL && !bed.session->prepared && pool().misses == 1);
	bed_delete();
	await_spawn();
}

/* Up to the start of the ready command; returns the handle of the start command. */
static uint32_t start_it(void)
{
	uint32_t start = bed.handle;

	bed_started();
	await_spawn();
	CHECK(bed.handle != start && pool().ready == 0);
	return start;
}

static void it_becomes_an_execution(void)
{
	uint32_t start;
	const struct execution *x;

	make(false);
	use_it();
	start = start_it();
	CHECK(write(bed.out, "early", 5) == 5);
	bed_started(); /* the ready command */
	exits(bed.handle, 1);
	await_spawn(); /* again */
	bed_started();
	exits(bed.handle, 0);
	bed_until(is_ready);
	bed_session();
	CHECK(pool().hits == 1 && bed.session->prepared);
	x = execution_next(bed.session, NULL);
	CHECK(x != NULL && execution_row(x)->kind == EXECUTION_SERVICE &&
	      execution_row(x)->handle == start && execution_pid(x) == 7);
	CHECK(execution_next(bed.session, (struct execution *)(uintptr_t)x) == NULL);
	bed_delete();
	bed_end();
}

static bool is_dropped(void)
{
	return bed.asked[KEEPER_DESTROY] > destroyed && bed.core->cells.ending == 0 &&
	       pool().ready == 0;
}

/* Each way in which it does not become ready; the cell is dropped, and the next one is not made at
 * once. */
static void the_start_fails(void)
{
	make(false);
	use_it();
	exits(start_it(), 3);
	bed_until(is_dropped);
	bed_turn(300);
	CHECK(bed.ordered[AGENT_SPAWN] == spawns);
	bed_end();
}

static void one_that_is_kept_running_ends(void)
{
	make(true);
	use_it();
	exits(start_it(), 0); /* well, but it is to run */
	bed_until(is_dropped);
	bed_end();
}

static void there_is_no_bash(void)
{
	make(false);
	use_it();
	bed_says(AGENT_FAILED, &(struct agent_event){ .handle = bed.handle,
						      .stage = AGENT_AT_EXEC,
						      .sys = ENOENT });
	await_spawn(); /* by /bin/sh */
	bed_says(AGENT_FAILED, &(struct agent_event){ .handle = bed.handle,
						      .stage = AGENT_AT_EXEC,
						      .sys = ENOENT });
	bed_until(is_dropped);
	bed_end();
}

/* It ends well before there is a session: a command that only prepares. */
static void one_that_only_prepares(void)
{
	struct execution *x;

	make(false);
	use_it();
	exits(start_it(), 0);
	bed_started();
	exits(bed.handle, 0);
	bed_until(is_ready);
	bed_session();
	CHECK(pool().hits == 1);
	x = execution_next(bed.session, NULL);
	CHECK(x == NULL || execution_ended(x));
	bed_delete();
	bed_end();
}

static void pid1_repeats_itself(void)
{
	uint32_t start, ready;

	make(false);
	use_it();
	start = start_it();
	ready = bed.handle;
	bed_started();
	bed.handle = start;
	bed_started(); /* a second time */
	exits(start + 1000, 0);
	exits(ready, 0);
	bed_until(is_ready);
	exits(ready, 1);
	bed_turn(20);
	CHECK(is_ready());
	exits(start, 9);
	bed_until(is_dropped);
	bed_end();
}

static bool over;

static size_t take_all(struct file_op *op, const uint8_t *data, size_t len)
{
	return len;
}

static void on_end(struct file_op *op, int status, const struct err *e)
{
	CHECK(e != NULL);
	over = true;
}

static bool has_ended(void)
{
	return over;
}

static void fails_to_exec(uint32_t handle)
{
	bed.handle = handle;
	bed_says(AGENT_FAILED, &(struct agent_event){ .stage = AGENT_AT_EXEC, .sys = ENOENT });
}

/* It would be run again by another shell, and then the ready command a second time. */
static void pid1_says_that_what_runs_failed(void)
{
	make(false);
	use_it();
	fails_to_exec(start_it());
	bed_until(is_dropped);
	CHECK(bed.ordered[AGENT_SPAWN] == spawns);
	bed_end();
}

static void the_ready_command_runs_and_failed(void)
{
	make(false);
	use_it();
	(void)start_it();
	bed_started();
	fails_to_exec(bed.handle);
	bed_until(is_dropped);
	CHECK(bed.ordered[AGENT_SPAWN] == spawns);
	bed_end();
}

/* bed_end() counts descriptors. */
static void pid1_sends_a_pipe_too_many(void)
{
	make(false);
	use_it();
	bed_started_with_results();
	bed_until(is_dropped);
	bed_end();
}

static void a_file_operation_gets_a_pipe_too_many(void)
{
	static const struct file_op_events events = { .on_output = take_all, .on_end = on_end };
	const char *const args[] = { "read", "/etc/passwd" };
	struct err e = { 0 };

	make(false);
	bed_session();
	bed_turn(20);
	spawns = bed.ordered[AGENT_SPAWN];
	CHECK(file_op_start(bed.session, "", args, 2, false, &events, NULL, &e) != NULL);
	await_spawn();
	bed_started_with_results();
	bed_until(has_ended);
	bed_end();
}

/* The loop must not turn while there is nothing to do. */
static void the_start_closes_its_output(void)
{
	uint64_t turns;

	make(false);
	use_it();
	(void)start_it();
	bed_close_output();
	bed_turn(50);
	turns = loop_step(bed.loop);
	bed_turn(300);
	CHECK(loop_step(bed.loop) - turns < 3000); /* of the bed itself: one each millisecond */
	bed_end();
}

static void pid1_does_not_answer(void)
{
	make(false);
	use_it();
	(void)start_it();
	bed_until(is_dropped);
	CHECK(bed.ordered[AGENT_SPAWN] == spawns);
	bed_end();
}

static void pid1_dies_while_it_starts(void)
{
	make(false);
	use_it();
	(void)start_it();
	bed_pid1_dies();
	bed_until(is_dropped);
	bed_end();
}

static struct execution *running(enum execution_kind kind)
{
	for (struct execution *x = NULL; (x = execution_next(bed.session, x)) != NULL;)
		if (execution_row(x)->kind == (uint32_t)kind && !execution_ended(x))
			return x;
	return NULL;
}

/* A session with both programs: what ended is started again, if it is the start command. */
static void code_and_a_service(void)
{
	const struct store_actor who = { 0 };
	uint32_t service, code;
	struct execution *x;
	struct err e = { 0 };

	make_with(true, false);
	bed.template = "svc";
	bed_session();
	spawns = bed.ordered[AGENT_SPAWN];
	x = session_boot_start(bed.session, &who, false, &e);
	CHECK(x != NULL);
	session_service_follow(bed.session, x, NULL);
	await_spawn();
	service = bed.handle;
	bed_started();
	CHECK(session_service_interpreter(bed.session, &who, &e) == 0);
	await_spawn();
	code = bed.handle;
	bed_started();
	bed_turn(20);
	exits(service, 1);
	await_spawn();
	CHECK(running(EXECUTION_SERVICE) != NULL && running(EXECUTION_INTERPRETER) != NULL);
	bed_started();
	bed_turn(20);
	exits(code, 1);
	bed_turn(2500);
	CHECK(!is_spawned() && running(EXECUTION_INTERPRETER) == NULL);
	CHECK(session_service_interpreter(bed.session, &who, &e) == 0);
	await_spawn();
	CHECK(running(EXECUTION_INTERPRETER) != NULL);
	bed_delete();
	bed_end();
}

/* The daemon ends with a cell whose commands are under way, and with one that is ready. */
static void the_daemon_ends(void)
{
	make(false);
	use_it();
	(void)start_it();
	bed_end();
}

static void the_daemon_ends_with_one_ready(void)
{
	make(false);
	use_it();
	(void)start_it();
	bed_started();
	exits(bed.handle, 0);
	bed_until(is_ready);
	CHECK(is_gone());
	bed_end();
}

TEST_MAIN({ "it becomes an execution", it_becomes_an_execution },
	  { "the start fails", the_start_fails },
	  { "one that is kept running ends", one_that_is_kept_running_ends },
	  { "there is no bash", there_is_no_bash },
	  { "one that only prepares", one_that_only_prepares },
	  { "pid1 repeats itself", pid1_repeats_itself },
	  { "pid1 says that what runs failed", pid1_says_that_what_runs_failed },
	  { "the ready command runs and failed", the_ready_command_runs_and_failed },
	  { "pid1 sends a pipe too many", pid1_sends_a_pipe_too_many },
	  { "a file operation gets a pipe too many", a_file_operation_gets_a_pipe_too_many },
	  { "the start closes its output", the_start_closes_its_output },
	  { "pid1 does not answer", pid1_does_not_answer },
	  { "pid1 dies while it starts", pid1_dies_while_it_starts },
	  { "code and a service", code_and_a_service }, { "the daemon ends", the_daemon_ends },
	  { "the daemon ends with one ready", the_daemon_ends_with_one_ready })
