#include "context.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ascii_json.h"
#include "clock.h"
#include "context_private.h"
#include "event_line.h"
#include "list.h"
#include "log.h"
#include "session_env.h"

#define RETRIES_MAX 3
#define RETRY_MS 50ULL	  /* then twice as long, and again */
#define INTERRUPT_MS 5000 /* then the kernel is killed */
#define AGAIN_MS 2000	  /* then it is interrupted once more: see on_interrupt_late() */
#define NUDGE_MS 200	  /* until then it is woken so often: see kernel_nudge() */
#define SCRATCH_KEEP (1U << 20)
#define EXECUTE_MAX (60U << 20) /* 17 MiB of which each byte may become six, rarely */

/* ---- lines of answers */

static struct context *context_of(struct kernel *k)
{
	return (struct context *)((char *)k - offsetof(struct context, kernel));
}

/* Empties the scratch buffer, and gives back a large one. */
static struct buf *scratch(struct contexts *all)
{
	if (all->line.size > SCRATCH_KEEP)
		buf_release(&all->line);
	buf_clear(&all->line);
	return &all->line;
}

static void give(struct context *c, struct execution *x)
{
	struct buf *b = &c->all->line;
	struct err e;

	if (b->len == 0 || buf_check(b, &e) < 0)
		return;
	if (x->calls->on_lines(x, b->data, b->len))
		kernel_pause(&c->kernel, true);
}

/* ---- the queue */

static void take_out(struct execution *x)
{
	struct context *c = x->context;

	if (x->link != NULL)
		c->waiting--;
	LIST_REMOVE_FROM(&c->last, x);
	if (c->running == x)
		c->running = NULL;
	x->context = NULL;
	buf_release(&x->line);
}

/* Ends an accepted execution; with an error before, if why is not NULL. Clients know these words.
 */
static void end_with(struct context *c, struct execution *x, const char *why)
{
	struct buf *b = scratch(c->all);

	if (why != NULL)
		event_line_failure(b, "ContextRestarting", "Context was restarted", why);
	event_line_end(b);
	give(c, x);
	take_out(x);
	x->calls->on_end(x);
}

static void start_next(struct context *c)
{
	struct execution *x = c->first;
	char tail[40];
	struct err e;
	int n;

	if (x == NULL || c->running_id != 0)
		return;
	c->running_id = ++c->all->next_id;
	c->has_error = c->began = false;
	c->used = true;
	c->running = x;
	LIST_REMOVE_FROM(&c->last, x);
	c->waiting--;
	buf_truncate(&x->line, x->whole);
	n = snprintf(tail, sizeof(tail), "\"id\":%llu}\n", (unsigned long long)c->running_id);
	if (buf_add(&x->line, tail, (size_t)n, &e) < 0) {
		c->running_id = 0;
		end_with(c, x, e.msg);
		start_next(c); /* at most CONTEXT_WAITING_MAX times */
		return;
	}
	kernel_send(&c->kernel, x->line.data, x->line.len);
}

static void accept_one(struct execution *x)
{
	if (!x->accepted) {
		x->accepted = true;
		x->calls->on_accepted(x);
	}
}

/* The kernel is ready: accepts all executions that wait, then runs the first one. */
static void accept_all(struct context *c)
{
	struct execution *x = c->first;

	while (x != NULL && c->kernel.state == KERNEL_READY) {
		/* alone: an execution that is accepted or ended is its own client's */
		struct execution *next = x->next;

		if (x->only_start) {
			take_out(x);
			x->calls->on_end(x);
		} else {
			accept_one(x);
		}
		x = next;
	}
	if (c->kernel.state == KERNEL_READY)
		start_next(c);
}

/* The kernel takes longer than clients wait for the beginning of an answer. What waits for nothing
 * but its start has an answer without a beginning, and goes on waiting. */
static void on_slow(struct kernel *k)
{
	struct context *c = context_of(k);
	struct execution *next;

	for (struct execution *x = c->first; x != NULL && kernel_start_is_slow(k); x = next) {
		next = x->next; /* alone: as above */
		if (!x->only_start)
			accept_one(x);
	}
}

/* Nothing of the queue can run: each gets an error line, or a failure if it was not accepted. */
static void end_all(struct context *c, const char *why)
{
	struct execution *x;

	loop_timer_cancel(c->all->loop, &c->interrupt_timer);
	loop_timer_cancel(c->all->loop, &c->retry_timer);
	c->running_id = 0;
	if (c->running != NULL)
		end_with(c, c->running, c->has_error ? NULL : why);
	while ((x = c->first) != NULL) {
		if (x->accepted) {
			end_with(c, x, why);
			continue;
		}
		take_out(x);
		x->calls->on_fail(x, why);
	}
}

/* ---- the kernel */

void context_send_env(struct context *c)
{
	struct buf *b = scratch(c->all);

	if (c->all->env.len == 0 || c->kernel.state == KERNEL_NONE)
		return;
	buf_put_text(b, "{\"op\":\"env\",\"env\":");
	buf_put(b, c->all->env.data, c->all->env.len);
	buf_put_text(b, "}\n");
	kernel_send(&c->kernel, b->data, b->len);
}

static int start_kernel(struct context *c, struct err *e)
{
	struct contexts *all = c->all;
	char program[4096];
	struct kernel_start start = {
		.language = c->language, .program = program, .kernels = all->kernels, .cwd = c->cwd
	};
	struct stat st;
	int result;

	c->was_ready = false;
	if (stat(c->cwd, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "%.200s is not a directory", c->cwd);
	if (c->language->forked) {
		if (python_parent_spawn(&all->python, &c->kernel, c->cwd, e) < 0)
			return -1;
	} else if (language_program(c->language, program, sizeof(program), e) < 0) {
		return -1;
	} else {
		start.env = session_env_make(&all->env);
		result = kernel_exec(&c->kernel, &start, e);
		session_env_free(start.env);
		if (result < 0)
			return -1;
	}
	context_send_env(c);
	return 0;
}

/* Starts the kernel if something waits for it. */
static void pump(struct context *c)
{
	struct err e = { 0 };

	if (c->first == NULL)
		return;
	if (c->kernel.state == KERNEL_NONE && start_kernel(c, &e) < 0)
		end_all(c, e.msg);
	else if (c->kernel.state == KERNEL_READY)
		accept_all(c);
	else
		on_slow(&c->kernel); /* for one that has just come */
}

static void on_done(struct context *c)
{
	struct execution *x = c->running;

	loop_timer_cancel(c->all->loop, &c->interrupt_timer);
	c->running_id = 0;
	if (x != NULL)
		end_with(c, x, NULL);
	kernel_pause(&c->kernel, false);
	pump(c);
}

static void on_running_message(struct context *c, const struct kernel_message *m)
{
	struct buf *b = scratch(c->all);

	switch (m->type) {
	case KERNEL_MESSAGE_COUNT:
		c->began = true;
		buf_release(&c->running->line);
		event_line_count(b, m->number);
		break;
	case KERNEL_MESSAGE_STDOUT:
		event_line_output(b, "stdout", json_read_member(m->body, "text"));
		break;
	case KERNEL_MESSAGE_STDERR:
		event_line_output(b, "stderr", json_read_member(m->body, "text"));
		break;
	case KERNEL_MESSAGE_RESULT:
		event_line_result(b, m->body);
		break;
	case KERNEL_MESSAGE_ERROR:
		if (!c->has_error) /* clients expect one at most */
			event_line_error(b, m->body);
		c->has_error = true;
		break;
	case KERNEL_MESSAGE_OTHER:
	case KERNEL_MESSAGE_READY:
	case KERNEL_MESSAGE_DONE:
	case KERNEL_MESSAGE_SPAWNED:
	case KERNEL_MESSAGE_FAILED:
		break;
	}
	give(c, c->running);
}

/* The first Python kernel is ready, or cannot be started. */
static void end_warming(struct context *c)
{
	if (c->is_default && c->language->forked)
		c->all->warming = false;
}

static void on_message(struct kernel *k, const struct kernel_message *m)
{
	struct context *c = context_of(k);

	if (m->type == KERNEL_MESSAGE_READY) {
		c->was_ready = true;
		c->retries = 0;
		end_warming(c);
		pump(c);
	} else if (m->type == KERNEL_MESSAGE_DONE) {
		if (c->running_id != 0 && m->number == c->running_id)
			on_done(c);
	} else if (c->running != NULL) {
		on_running_message(c, m);
	}
}

/* Output of processes that a former execution left behind belongs to none, and is dropped. */
static void on_output(struct kernel *k, int stream, uint8_t *bytes, size_t n)
{
	struct context *c = context_of(k);

	if (c->running == NULL)
		return;
	if (stream == 1 && c->language->file != NULL)
		n = event_line_rename(bytes, n, c->language->file, c->language->shown);
	event_line_bytes(scratch(c->all), stream == 0 ? "stdout" : "stderr", bytes, n);
	give(c, c->running);
}

/* The kernel was dead, or about to die, when it was sent the code, which has not begun: it runs in
 * the next one. */
static bool run_again(struct context *c)
{
	struct execution *x = c->running;

	if (x == NULL || c->began || x->resent)
		return false;
	x->resent = true;
	c->running = NULL;
	c->running_id = 0;
	if (c->first == NULL) {
		LIST_APPEND(&c->last, x);
	} else {
		LIST_PUSH(&c->first, x);
	}
	c->waiting++;
	pump(c);
	return true;
}

static void on_end(struct kernel *k, const char *why)
{
	struct context *c = context_of(k);
	char text[320];

	if (run_again(c))
		return;
	if (c->language->forked && !c->was_ready && c->retries < RETRIES_MAX) {
		loop_timer_set(c->all->loop, &c->retry_timer,
			       clock_now_ns() + (RETRY_MS << c->retries) * CLOCK_MS);
		c->retries++;
		return;
	}
	c->retries = 0;
	(void)snprintf(text, sizeof(text), "the kernel of %s: %.200s%s", c->language->name, why,
		       c->was_ready ? ", and the variables of the context are gone" : "");
	log_warn("a kernel has ended", "context=%s language=%s why=%s", c->id, c->language->name,
		 why);
	end_warming(c);
	end_all(c, text);
}

static const struct kernel_calls calls = { on_message, on_output, on_end, on_slow };

/* ---- executions */

void execution_init(struct execution *x, const struct execution_calls *from)
{
	*x = (struct execution){ .calls = from };
	buf_init(&x->line, EXECUTE_MAX);
}

int execution_set(struct execution *x, struct json_value code, struct json_value env, struct err *e)
{
	buf_clear(&x->line);
	buf_put_text(&x->line, "{\"op\":\"execute\",\"code\":");
	ascii_json_value(&x->line, code);
	buf_put_text(&x->line, ",\"env\":");
	if (env.kind == JSON_READ_NONE)
		buf_put_text(&x->line, "{}");
	else
		ascii_json_value(&x->line, env);
	buf_put_text(&x->line, ",\"silent\":false,");
	x->whole = x->line.len;
	return buf_check(&x->line, e);
}

int context_run(struct context *c, struct execution *x, struct err *e)
{
	if (c->waiting >= CONTEXT_WAITING_MAX)
		return err_set(e, ERR_LIMIT, "%u executions wait in this context already",
			       c->waiting);
	x->context = c;
	x->accepted = false;
	LIST_APPEND(&c->last, x);
	c->waiting++;
	pump(c);
	return 0;
}

void execution_resume(struct execution *x)
{
	if (x->context != NULL && x->context->running == x)
		kernel_pause(&x->context->kernel, false);
}

void execution_abandon(struct execution *x)
{
	struct context *c = x->context;
	bool ran = c != NULL && c->running == x;

	if (c == NULL)
		return;
	take_out(x);
	if (!ran)
		return;
	kernel_pause(&c->kernel, false);
	kernel_interrupt(&c->kernel);
	c->interrupted_again = false;
	c->interrupted_ns = clock_now_ns();
	loop_timer_set(c->all->loop, &c->interrupt_timer, c->interrupted_ns + NUDGE_MS * CLOCK_MS);
}

/* A signal that comes when the kernel has its code but has not begun it is taken for a late one of
 * the code before, and dropped: shells and R cannot tell them apart. */
static void on_interrupt_late(struct loop_timer *t)
{
	struct context *c = t->arg;
	uint64_t now = clock_now_ns();

	if (c->running_id == 0 || c->running != NULL)
		return;
	if (now - c->interrupted_ns >= INTERRUPT_MS * CLOCK_MS) {
		kernel_kill(&c->kernel);
		return;
	}
	if (!c->interrupted_again && now - c->interrupted_ns >= AGAIN_MS * CLOCK_MS) {
		c->interrupted_again = true;
		kernel_interrupt(&c->kernel);
	}
	kernel_nudge(&c->kernel);
	loop_timer_set(c->all->loop, &c->interrupt_timer, now + NUDGE_MS * CLOCK_MS);
}

static void on_retry(struct loop_timer *t)
{
	struct context *c = t->arg;
	struct err e = { 0 };

	if (c->kernel.state == KERNEL_NONE && start_kernel(c, &e) < 0)
		end_all(c, e.msg);
}

void context_setup(struct context *c)
{
	c->last = &c->first;
	c->retry_timer = (struct loop_timer){ .on_expire = on_retry, .arg = c };
	c->interrupt_timer = (struct loop_timer){ .on_expire = on_interrupt_late, .arg = c };
	kernel_init(&c->kernel, c->all->loop, c->all->slow_ms, &calls);
}

void context_stop(struct context *c, const char *why)
{
	kernel_release(&c->kernel);
	end_all(c, why);
}

int context_warm(struct context *c, struct err *e)
{
	return c->kernel.state == KERNEL_NONE ? start_kernel(c, e) : 0;
}
