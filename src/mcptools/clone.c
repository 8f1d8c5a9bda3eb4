#include "clone.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "exit_codes.h"
#include "json_view.h"
#include "reply.h"
#include "store_net.h"

#define BODY_MAX 8192
#define WHY_MAX (128U << 10)
#define GRACE_NS (500 * CLOCK_MS) /* in which records of what was refused come */

static struct clone *of(const struct run_end *n)
{
	return (struct clone *)((char *)(uintptr_t)n - offsetof(struct clone, end));
}

static bool is_there(const struct run_end *n)
{
	return of(n)->follower.link != NULL;
}

void clone_release(struct clone *k)
{
	if (k->c == NULL)
		return;
	loop_timer_cancel(core_loop(k->c->r->core), &k->grace);
	run_end_release(&k->end);
	execution_unfollow(&k->follower);
	run_progress_release(&k->progress);
	if (k->has_spec)
		spec_exec_release(&k->spec);
}

bool clone_progress(struct clone *k, uint64_t *ret_done, struct buf *message)
{
	if (k->follower.link == NULL)
		return false;
	run_progress_show(&k->progress, k->c, k->follower.execution, ret_done, message);
	return true;
}

/* ---- the request */

/* Prints the commit, if there is one: git clone itself writes nothing to its standard output. What
 * the client gave are arguments, never text of the shell. */
#define SCRIPT                                                            \
	("name=$1; shift; git clone --depth 1 \"$@\" \"$name\" || exit; " \
	 "git -C \"./$name\" rev-parse --quiet --verify HEAD || :")

static void write_body(const struct repository_arg *a, struct json *j)
{
	const char *const words[] = { "sh", "-c", SCRIPT, "sh", a->name };

	json_open(j, NULL, '{');
	json_open(j, "argv", '[');
	for (size_t i = 0; i < COUNT(words); i++)
		json_text(j, NULL, words[i]);
	if (a->ref[0] != '\0') {
		json_text(j, NULL, "--branch");
		json_text(j, NULL, a->ref);
	}
	json_text(j, NULL, "--");
	json_text(j, NULL, a->url);
	json_close(j, ']');
	json_open(j, "env", '{');
	json_text(j, "GIT_TERMINAL_PROMPT", "0");
	json_text(j, "GIT_ALLOW_PROTOCOL", "https");
	json_close(j, '}');
	json_uint(j, "timeout", CLONE_S);
	json_close(j, '}');
}

int clone_read(struct clone *k, struct tool_call *c, const struct json_node *arg, struct err *e)
{
	struct json j;
	int done;

	k->c = k->end.c = c;
	if (repository_arg_read(arg, &k->arg, e) < 0)
		return -1;
	json_init_heap(&j, BODY_MAX);
	write_body(&k->arg, &j);
	k->has_spec = json_ok(&j);
	done = k->has_spec ? spec_exec_read(j.text, j.len, &k->spec, e)
			   : err_set(e, ERR_INVALID, "repository: is too large");
	json_release(&j);
	return done;
}

/* ---- the end */

static bool is_good(const struct store_execution *row)
{
	return row->state == EXECUTION_EXITED && row->exit_code == 0;
}

/* What git wrote, what the policy refused, and what can be done. */
static void write_why(struct clone *k, const struct store_execution *row, struct buf *why)
{
	struct buf said = BUF_INIT(EXCERPT_TEXT_MAX);
	int sys;

	if (execution_fault(k->follower.execution, &sys) == EXECUTION_NO_PROGRAM ||
	    json_view_exit_code(row) == EXIT_NOT_FOUND) {
		buf_put_text(why, "repository: the template has no program git.");
		return;
	}
	buf_printf(why, "repository: git clone of %s failed%s", k->arg.url,
		   row->timed_out ? ": it took too long" : "");
	if (!row->timed_out && row->state == EXECUTION_FAILED)
		buf_printf(why, ": it could not be started");
	else if (!row->timed_out)
		buf_printf(why, " with exit code %d", json_view_exit_code(row));
	buf_put_text(why, ".\n");
	(void)excerpt_text(&k->end.excerpt, 1, &said);
	buf_put(why, said.data, said.len);
	buf_release(&said);
	if (k->end.denied.len > 0) {
		buf_put_text(why, "The network policy refused:\n");
		buf_put(why, k->end.denied.data, k->end.denied.len);
	}
	if (k->end.denied.len > 0 || json_tree_get(k->c->q.arguments, "network") == NULL)
		buf_printf(why, "The argument network must allow %s.\n", k->arg.host);
}

/* The cell's word for it, so only what looks like one is taken. */
static void read_commit(struct clone *k)
{
	struct buf said = BUF_INIT(EXCERPT_TEXT_MAX);
	size_t n;

	(void)excerpt_text(&k->end.excerpt, 0, &said);
	n = strspn(buf_text(&said), "0123456789abcdef");
	if ((n == 40 || n == 64) && strcmp(buf_text(&said) + n, "\n") == 0)
		memcpy(k->commit, said.data, n);
	buf_release(&said);
}

static void on_written(struct run_end *n)
{
	struct clone *k = of(n);
	const struct store_execution *row = execution_row(k->follower.execution);
	struct buf why = BUF_INIT(WHY_MAX);

	if (is_good(row)) {
		read_commit(k);
		k->on_cloned(k, NULL);
		return;
	}
	write_why(k, row, &why);
	k->on_cloned(k, buf_text(&why));
	buf_release(&why);
}

static void report(struct clone *k, const struct err *why)
{
	struct request *r = k->c->r;
	struct err e = { 0 };

	if (why == NULL && k->follower.link != NULL) {
		run_end_start(&k->end);
		return;
	}
	IGNORED(err_set_reason(&e, REASON_GONE, "session %s was stopped", r->session_id),
		"answered");
	reply_error(r, why != NULL ? why : &e);
}

static void on_grace(struct loop_timer *t)
{
	report(t->arg, NULL);
}

static void on_waited(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct clone *k = tool_of(r)->own; /* the first there */
	struct loop *l = core_loop(r->core);

	if (why != NULL || k->follower.link == NULL ||
	    is_good(execution_row(k->follower.execution))) {
		report(k, why);
		return;
	}
	k->grace.on_expire = on_grace;
	k->grace.arg = k;
	loop_timer_set(l, &k->grace, loop_now_ns(l) + GRACE_NS);
}

/* ---- the start */

static void ignore_output(struct execution_follower *f)
{
	(void)f; /* followed only so that it stays in memory */
}

int clone_start(struct clone *k, struct session *s, struct err *e)
{
	struct request *r = k->c->r;
	struct execution *x;

	k->spec.spec.actor = request_actor(r);
	if (store_net_last(core_store(r->core), &k->end.net_seq, e) < 0)
		return -1;
	x = execution_start(s, &k->spec.spec, e);
	if (x == NULL)
		return -1;
	k->follower.on_progress = ignore_output;
	execution_follow(x, &k->follower);
	k->end.x = x;
	k->end.is_there = is_there;
	k->end.on_written = on_written;
	r->wait.on_done = on_waited;
	execution_wait(x, &r->wait);
	return 0;
}
