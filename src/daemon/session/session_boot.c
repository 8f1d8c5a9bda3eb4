/* session_boot.c - runs a template's start and ready commands, in a new session and after a reboot:
 * see session_boot.h. A rebooted session runs even if its start command fails, because its owner
 * needs it to find the cause.
 *
 * Invariant: struct boot and struct reboot end exactly once, by boot_finish() and
 * session_reboot_finish(). Both free the structure before they call the waiters, because a waiter
 * may free the session.
 */
#include "daemon/session/session_boot.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/execution/execution.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_service.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

struct reboot {
	struct session_op op;	   /* first */
	struct completion running; /* all session parts are ready */
	struct completion ready;   /* the start and ready commands are done */
	struct completions waiters;
};

/* A waiter may free the session, so it is called last. */
static void session_reboot_finish(struct reboot *b, const struct err *e)
{
	struct completions waiters = { 0 };

	completions_move(&b->waiters, &waiters);
	completion_cancel(&b->running);
	completion_cancel(&b->ready);
	session_op_end(&b->op);
	free(b);
	completions_end_all(&waiters, e);
}

static void on_ready(struct completion *c, const struct err *e)
{
	struct reboot *b = c->arg;
	struct err why = { 0 };
	bool over = b->op.session->row.state >= SESSION_ENDING;

	if (e != NULL)
		why = *e;
	if (e != NULL && !over)
		log_warn("the start command of a session failed", "session_id=%s error=%s",
			 b->op.session->row.id, why.msg);
	session_reboot_finish(b, over && e != NULL ? &why : NULL);
}

static void on_running(struct completion *c, const struct err *e)
{
	struct reboot *b = c->arg;
	struct err why;

	if (e == NULL) {
		session_boot(b->op.session, &b->op.session->actor, &b->ready);
		return;
	}
	why = *e;
	session_reboot_finish(b, &why);
}

static void on_free(struct session_op *op, const struct err *why)
{
	session_reboot_finish((struct reboot *)op, why);
}

static const struct session_op_calls reboot_calls = { .kind = SESSION_OP_REBOOT,
						      .on_free = on_free };

/* The requests that wait for the session to run are moved to the reboot: on_running() would let
 * them go too early. */
void session_reboot_begin(struct session *s)
{
	struct reboot *b;

	if (!session_boot_is_needed(s))
		return;
	b = calloc(1, sizeof(*b));
	assert(b != NULL);
	b->running = (struct completion){ .on_done = on_running, .arg = b };
	b->ready = (struct completion){ .on_done = on_ready, .arg = b };
	session_op_begin(&b->op, s, &reboot_calls);
	completions_move(&s->when_running, &b->waiters);
	completion_begin(&b->running, s->core->loop, &s->when_running);
}

#define READY_MS 600000ULL
#define ENV_MS 10000ULL /* for an interpreter to read the environment */
#define EVERY_MS 500ULL
#define SOON_MS 25ULL /* after the first tries */
#define STRINGS_MAX ((size_t)256 * 1024)

/* A boot in progress. Freed when it ends, or with its session. */
struct boot {
	struct core *core;
	struct session *session; /* until `over` ends */
	struct store_actor actor;
	struct completions waiters;
	struct completion over, ready_end;
	struct execution_follower start, ready;
	struct loop_timer retry;
	uint64_t until_ns;
	unsigned tries;
};

static const char *text_of(const char *text)
{
	return text == NULL ? "" : text;
}

static const char *start_command(const struct session *s)
{
	const struct store_template *t = session_template(s);

	return t == NULL ? "" : text_of(t->start_command);
}

static const char *ready_command(const struct session *s)
{
	const struct store_template *t = session_template(s);

	return t == NULL ? "" : text_of(t->ready_command);
}

enum execution_kind session_boot_kind(const struct store_template *t)
{
	return t->interpreter ? EXECUTION_INTERPRETER : EXECUTION_SERVICE;
}

/* In the locked profile there is one user only. */
const char *session_boot_user(const struct store_template *t, uint32_t profile)
{
	if (t != NULL && !t->interpreter)
		return text_of(t->user);
	return profile == CELL_LOCKED ? "" : "root";
}

uint64_t session_boot_rest_ms(unsigned tries)
{
	uint64_t ms = SOON_MS << (tries < 5 ? tries : 5);

	return ms < EVERY_MS ? ms : EVERY_MS;
}

/* A session that continues saved memory has the command's processes already. */
bool session_boot_is_needed(const struct session *s)
{
	return !s->guest.from_memory &&
	       (start_command(s)[0] != '\0' || ready_command(s)[0] != '\0');
}

static void boot_finish(struct boot *b, const struct err *e)
{
	struct completions told = { 0 };

	completion_cancel(&b->over);
	completion_cancel(&b->ready_end);
	execution_unfollow(&b->start);
	execution_unfollow(&b->ready);
	loop_timer_cancel(b->core->loop, &b->retry);
	completions_move(&b->waiters, &told);
	free(b);
	completions_end_all(&told, e);
}

static void on_over(struct completion *w, const struct err *e)
{
	struct boot *b = w->arg;
	struct err why = *e;

	b->start.execution = b->ready.execution = NULL; /* freed with the session */
	IGNORED(err_wrap(&why, "the session ended before it was ready"), "told");
	boot_finish(b, &why);
}

/* ---- commands */

static struct execution *boot_run(struct session *s, const char *const *args, uint32_t n,
				  struct execution_spec *spec, struct err *e)
{
	struct buf strings = BUF_INIT(STRINGS_MAX);
	struct execution *x = NULL;

	for (size_t i = 0; i < n; i++)
		buf_put(&strings, args[i], strlen(args[i]) + 1);
	spec->argc = n;
	spec->strings = (const char *)strings.data;
	spec->strings_len = strings.len;
	spec->keep_text = true;
	if (buf_check(&strings, e) == 0)
		x = execution_start(s, spec, e);
	buf_release(&strings);
	return x;
}

static struct execution *run_shell(struct session *s, const char *command,
				   struct execution_spec *spec, struct err *e)
{
	const char *args[] = { s->plain_shell ? "/bin/sh" : "/bin/bash", "-l", "-c", command };
	const struct store_template *t = session_template(s);

	spec->text = command;
	spec->user = session_boot_user(t, s->row.profile);
	spec->cwd = t != NULL && t->interpreter ? "/" : NULL;
	return boot_run(s, args, COUNT(args), spec, e);
}

struct execution *session_boot_start(struct session *s, const struct store_actor *who,
				     bool interpreter, struct err *e)
{
	static const char *const server[] = { SESSION_BOOT_INTERPRETER, "serve" };
	const struct store_template *t = session_template(s);
	struct execution_spec spec = { .kind = EXECUTION_INTERPRETER,
				       .stdin_open = true,
				       .text = SESSION_BOOT_INTERPRETER " serve",
				       .client = SESSION_BOOT_ENV_OWED,
				       .cwd = "/",
				       .actor = who };

	if (interpreter && (t == NULL || !t->interpreter)) {
		spec.user = session_boot_user(NULL, s->row.profile);
		return boot_run(s, server, COUNT(server), &spec, e);
	}
	spec.kind = session_boot_kind(t);
	spec.stdin_open = t->interpreter;
	spec.client = t->interpreter ? SESSION_BOOT_ENV_OWED : NULL;
	return run_shell(s, start_command(s), &spec, e);
}

/* A minimal image may have no bash. Then the commands run with /bin/sh. */
static bool has_no_shell(const struct execution *x)
{
	return execution_row(x)->state == EXECUTION_FAILED &&
	       execution_fault(x, &(int){ 0 }) == EXECUTION_NO_PROGRAM;
}

static bool boot_start(struct boot *b, struct err *e);

/* Has the start command failed? Then the boot has ended, or continues with another shell. */
static bool start_failed(struct boot *b)
{
	const struct execution *x = b->start.execution;
	struct err e;
	int code;

	if (x == NULL || !execution_ended(x))
		return false;
	if (has_no_shell(x) && !b->session->plain_shell) {
		b->session->plain_shell = true;
		execution_unfollow(&b->start);
		if (boot_start(b, &e))
			return false;
		boot_finish(b, &e);
		return true;
	}
	code = execution_row(x)->exit_code;
	if (code == 0 && execution_row(x)->state != EXECUTION_FAILED)
		return false;
	IGNORED(err_set(&e, ERR_CONFLICT, "start command failed: exit status %d", code), "told");
	boot_finish(b, &e);
	return true;
}

static void on_progress(struct execution_follower *f)
{
	(void)f; /* its state is read when the ready command has ended */
}

static bool boot_start(struct boot *b, struct err *e)
{
	struct execution *x = session_boot_start(b->session, &b->actor, false, e);

	if (x == NULL)
		return false;
	b->start = (struct execution_follower){ .on_progress = on_progress, .arg = b };
	execution_follow(x, &b->start);
	session_service_follow(b->session, x, NULL);
	return true;
}

/* ---- ready? */

static void boot_look(struct boot *b);

static void on_retry(struct loop_timer *t)
{
	boot_look(t->arg);
}

/* Each failure of the start command ends the boot, also if the ready command just succeeded: the
 * success may belong to another program. */
static void on_ready_end(struct completion *w, const struct err *e)
{
	struct boot *b = w->arg;
	const struct execution *x = b->ready.execution;
	int code = x == NULL || e != NULL ? 1 : execution_row(x)->exit_code;
	bool no_shell = x != NULL && e == NULL && has_no_shell(x) && !b->session->plain_shell;
	struct err why;

	if (x != NULL && e == NULL && execution_row(x)->state == EXECUTION_FAILED)
		code = 127;
	execution_unfollow(&b->ready);
	/* Without bash the next try uses /bin/sh at once. */
	b->session->plain_shell |= no_shell;
	if (start_failed(b))
		return;
	if (code == 0) {
		boot_finish(b, NULL);
		return;
	}
	if (clock_now_ns() > b->until_ns) {
		IGNORED(err_set_reason(&why, REASON_TIMEOUT, "ready command failed: exit status %d",
				       code),
			"told");
		boot_finish(b, &why);
		return;
	}
	loop_timer_set(b->core->loop, &b->retry,
		       clock_now_ns() +
			       (no_shell ? 0 : session_boot_rest_ms(b->tries++)) * CLOCK_MS);
}

static void boot_look(struct boot *b)
{
	struct execution_spec spec = { .timeout_ms = READY_MS, .actor = &b->actor };
	struct execution *x;
	struct err e;

	if (start_failed(b))
		return;
	x = run_shell(b->session, ready_command(b->session), &spec, &e);
	if (x == NULL) {
		boot_finish(b, &e);
		return;
	}
	b->ready = (struct execution_follower){ .on_progress = on_progress, .arg = b };
	execution_follow(x, &b->ready);
	execution_wait(x, &b->ready_end);
}

/* The commands ran in the pool. An interpreter still has to get the session's environment. */
static void take_prepared(struct session *s, struct completion *w)
{
	struct execution *x = NULL;

	s->prepared = false;
	while ((x = execution_next(s, x)) != NULL && execution_row(x)->kind < EXECUTION_SERVICE)
		;
	if (x == NULL || execution_ended(x)) {
		completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	session_service_follow(s, x, w);
	completion_set_deadline(w, ENV_MS, "the program that gets the session's environment");
}

void session_boot(struct session *s, const struct store_actor *who, struct completion *w)
{
	struct boot *b;
	struct err e;

	if (s->prepared) {
		take_prepared(s, w);
		return;
	}
	b = calloc(1, sizeof(*b));
	assert(b != NULL);
	b->core = s->core;
	b->session = s;
	if (who != NULL)
		b->actor = *who;
	b->over = (struct completion){ .on_done = on_over, .arg = b };
	b->ready_end = (struct completion){ .on_done = on_ready_end, .arg = b };
	b->retry = (struct loop_timer){ .on_expire = on_retry, .arg = b };
	b->until_ns = clock_now_ns() + READY_MS * CLOCK_MS;
	completion_begin(w, s->core->loop, &b->waiters);
	session_when_over(s, &b->over);
	if (start_command(s)[0] != '\0' && !boot_start(b, &e))
		boot_finish(b, &e);
	else if (ready_command(s)[0] == '\0')
		boot_finish(b, NULL);
	else
		boot_look(b);
}
