#include "incell/interpreter/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "incell/interpreter/ascii_json.h"
#include "incell/interpreter/event_line.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"
#include "lib/json/json_read.h"

#define RETRIES_MAX 3
#define RETRY_MS 50ULL	  /* then twice as long, and again */
#define INTERRUPT_MS 5000 /* then the kernel is killed */
#define AGAIN_MS 2000	  /* then it is interrupted once more: see on_interrupt_late() */
#define NUDGE_MS 200	  /* until then it is woken so often: see kernel_nudge() */
#define SCRATCH_KEEP (1U << 20)
#define EXECUTE_MAX (60U << 20) /* 17 MiB of which each byte may become six, rarely */

/* ---- the environment of a new kernel: the server's own, and over it that of the session */

extern char **environ;

static bool names_same(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n + 1) == 0;
}

/* Take text. In place of a variable of the same name, or behind the last. */
static void context_put(char **env, size_t *n, char *text)
{
	for (size_t i = 0; i < *n; i++)
		if (names_same(env[i], text)) {
			free(env[i]);
			env[i] = text;
			return;
		}
	env[(*n)++] = text;
}

/* "NAME=value". The caller frees it. */
static char *make_text(struct json_value name, struct json_value value)
{
	struct buf b = BUF_INIT(8U << 20);
	struct err e;

	if (json_read_text(name, &b, &e) < 0 || buf_add(&b, "=", 1, &e) < 0 ||
	    json_read_text(value, &b, &e) < 0 || buf_add(&b, "", 1, &e) < 0) {
		buf_release(&b);
		return NULL;
	}
	return (char *)b.data;
}

static size_t count_members(struct json_value v)
{
	struct json_value name, value;
	const char *at = NULL;
	size_t n = 0;

	while (json_read_next(v, &at, &name, &value))
		n++;
	return n;
}

/* json: an object of texts (code_request_is_env()), or empty. The caller frees the result with
 * session_env_free(). NULL without memory. */
static char **session_env_make(const struct buf *json)
{
	struct json_value v = { 0 }, name, value;
	const char *at = NULL;
	size_t n = 0, own = 0;
	struct err e;
	char **env;

	if (json->len > 0 && json_read((const char *)json->data, json->len, 8, &v, &e) < 0)
		return NULL;
	while (environ[own] != NULL)
		own++;
	env = calloc(own + count_members(v) + 1, sizeof(*env));
	for (size_t i = 0; env != NULL && i < own; i++) {
		char *text = strdup(environ[i]);

		if (text != NULL)
			context_put(env, &n, text);
	}
	while (env != NULL && json_read_next(v, &at, &name, &value)) {
		char *text = make_text(name, value);

		if (text != NULL)
			context_put(env, &n, text);
	}
	return env;
}

static void session_env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}

/* ---- lines of answers */

static struct context *context_of(struct kernel *k)
{
	return (struct context *)((char *)k - offsetof(struct context, kernel));
}

/* Empty the scratch buffer, and give back a large one. */
static struct buf *context_scratch(struct contexts *all)
{
	if (all->line.size > SCRATCH_KEEP)
		buf_release(&all->line);
	buf_clear(&all->line);
	return &all->line;
}

static void context_give(struct context *c, struct context_run *x)
{
	struct buf *b = &c->all->line;
	struct err e;

	if (b->len == 0 || buf_check(b, &e) < 0)
		return;
	if (x->calls->on_lines(x, b->data, b->len))
		kernel_pause(&c->kernel, true);
}

/* ---- the queue */

static void take_out(struct context_run *x)
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

/* End an accepted execution, after an error if why is not NULL. Clients know these words.
 */
static void end_with(struct context *c, struct context_run *x, const char *why)
{
	struct buf *b = context_scratch(c->all);

	if (why != NULL)
		event_line_failure(b, "ContextRestarting", "Context was restarted", why);
	event_line_end(b);
	context_give(c, x);
	take_out(x);
	x->calls->on_end(x);
}

static void start_next(struct context *c)
{
	struct context_run *x = c->first;
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

static void accept_one(struct context_run *x)
{
	if (!x->accepted) {
		x->accepted = true;
		x->calls->on_accepted(x);
	}
}

/* The kernel is ready: accepts all executions that wait, then runs the first one. */
static void accept_all(struct context *c)
{
	/* alone: an accepted or ended execution is its own client's */
	LIST_WALK_ENDING(struct context_run, x, c->first) {
		if (c->kernel.state != KERNEL_READY)
			break;
		if (x->only_start) {
			take_out(x);
			x->calls->on_end(x);
		} else {
			accept_one(x);
		}
	}
	if (c->kernel.state == KERNEL_READY)
		start_next(c);
}

/* The kernel takes longer than clients wait for the beginning of an answer. An execution waiting
 * for nothing but its start has an answer without a beginning, and continues waiting. */
static void on_slow(struct kernel *k)
{
	struct context *c = context_of(k);

	LIST_WALK_ENDING(struct context_run, x, c->first) {
		if (!kernel_start_is_slow(k))
			break;
		/* alone: as above */
		if (!x->only_start)
			accept_one(x);
	}
}

/* Nothing of the queue can run: each gets an error line, or a failure if it was not accepted. */
static void end_all(struct context *c, const char *why)
{
	struct context_run *x;

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

/* Send the session's environment to its kernel, if it has one. */
static void context_send_env(struct context *c)
{
	struct buf *b = context_scratch(c->all);

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

/* Start the kernel if something waits for it. */
static void context_pump(struct context *c)
{
	struct err e = { 0 };

	if (c->first == NULL)
		return;
	if (c->kernel.state == KERNEL_NONE && start_kernel(c, &e) < 0)
		end_all(c, e.msg);
	else if (c->kernel.state == KERNEL_READY)
		accept_all(c);
	else
		on_slow(&c->kernel); /* for a new one */
}

static void on_done(struct context *c)
{
	struct context_run *x = c->running;

	loop_timer_cancel(c->all->loop, &c->interrupt_timer);
	c->running_id = 0;
	if (x != NULL)
		end_with(c, x, NULL);
	kernel_pause(&c->kernel, false);
	context_pump(c);
}

static void on_running_message(struct context *c, const struct kernel_message *m)
{
	struct buf *b = context_scratch(c->all);

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
	context_give(c, c->running);
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
		context_pump(c);
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
	event_line_bytes(context_scratch(c->all), stream == 0 ? "stdout" : "stderr", bytes, n);
	context_give(c, c->running);
}

/* The kernel was dead, or about to die, when it was sent the code. The code has not begun: it runs
 * in the next one. */
static bool run_again(struct context *c)
{
	struct context_run *x = c->running;

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
	context_pump(c);
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

void execution_init(struct context_run *x, const struct execution_calls *from)
{
	*x = (struct context_run){ .calls = from };
	buf_init(&x->line, EXECUTE_MAX);
}

int execution_set(struct context_run *x, struct json_value code, struct json_value env,
		  struct err *e)
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

int context_run(struct context *c, struct context_run *x, struct err *e)
{
	if (c->waiting >= CONTEXT_WAITING_MAX)
		return err_set(e, ERR_LIMIT, "%u executions wait in this context already",
			       c->waiting);
	x->context = c;
	x->accepted = false;
	LIST_APPEND(&c->last, x);
	c->waiting++;
	context_pump(c);
	return 0;
}

void execution_resume(struct context_run *x)
{
	if (x->context != NULL && x->context->running == x)
		kernel_pause(&x->context->kernel, false);
}

void execution_abandon(struct context_run *x)
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

/* A new context. The rest of it is set by the caller. */
static void context_setup(struct context *c)
{
	c->last = &c->first;
	c->retry_timer = (struct loop_timer){ .on_expire = on_retry, .arg = c };
	c->interrupt_timer = (struct loop_timer){ .on_expire = on_interrupt_late, .arg = c };
	kernel_init(&c->kernel, c->all->loop, c->all->slow_ms, &calls);
}

/* End its kernel, and its executions with an error. */
static void context_stop(struct context *c, const char *why)
{
	kernel_release(&c->kernel);
	end_all(c, why);
}

/* Start the kernel before it is needed. */
static int context_warm(struct context *c, struct err *e)
{
	return c->kernel.state == KERNEL_NONE ? start_kernel(c, e) : 0;
}

/* ---- the table of contexts */

#define ENV_MAX (6U << 20)
#define LINE_MAX_BYTES (100U << 20)

/* A version 4 UUID, as clients expect. */
static void make_id(char ret[CONTEXT_ID_MAX])
{
	unsigned char b[16];

	rand_bytes(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	(void)snprintf(ret, CONTEXT_ID_MAX,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		       b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		       b[13], b[14], b[15]);
}

struct context *context_add(struct contexts *all, const struct language *l, const char *cwd,
			    struct err *e)
{
	struct context *c;

	if (all->n >= CONTEXTS_MAX) {
		(void)err_set(e, ERR_LIMIT, "there are %u contexts already: remove one first",
			      all->n);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL) {
		(void)err_sys(e, "allocate");
		return NULL;
	}
	c->all = all;
	c->language = l;
	make_id(c->id);
	str_copy(c->cwd, cwd[0] == '\0' ? all->cwd : cwd);
	context_setup(c);
	LIST_APPEND(&all->last, c);
	all->n++;
	return c;
}

struct context *context_find(struct contexts *all, const char *id)
{
	struct context *c = all->first;

	while (c != NULL && strcmp(c->id, id) != 0)
		c = c->next;
	return c;
}

/* A context without a run can still have another directory: it gets a new kernel. */
static int change_cwd(struct context *c, const char *cwd, struct err *e)
{
	if (cwd[0] == '\0' || strcmp(cwd, c->cwd) == 0)
		return 0;
	if (c->used || c->first != NULL)
		return err_set(e, ERR_INVALID,
			       "the %s%.63s of %s has its directory already, %.80s; use another "
			       "context for %.80s",
			       c->name[0] == '\0' ? "default context" : "context ", c->name,
			       c->language->name, c->cwd, cwd);
	str_copy(c->cwd, cwd);
	context_restart(c);
	return 0;
}

struct context *context_get(struct contexts *all, const struct language *l, const char *name,
			    const char *cwd, struct err *e)
{
	struct context *c = all->first;

	for (; c != NULL; c = c->next)
		if (name[0] == '\0' ? c->is_default && c->language == l
				    : strcmp(c->name, name) == 0)
			break;
	if (c != NULL && c->language != l) {
		(void)err_set(e, ERR_INVALID, "the context %s is one of %s", name,
			      c->language->name);
		return NULL;
	}
	if (c != NULL)
		return change_cwd(c, cwd, e) < 0 ? NULL : c;
	c = context_add(all, l, cwd, e);
	if (c == NULL)
		return NULL;
	c->is_default = name[0] == '\0';
	str_copy(c->name, name);
	return c;
}

void context_remove(struct context *c)
{
	struct contexts *all = c->all;

	context_stop(c, "the context was removed");
	loop_timer_cancel(all->loop, &c->interrupt_timer);
	LIST_REMOVE_FROM(&all->last, c);
	all->n--;
	free(c);
}

void contexts_sweep(struct contexts *all)
{
	LIST_WALK_ENDING(struct context, c, all->first) {
		/* alone: a context is removed by itself */
		if (c->unwanted)
			context_remove(c);
	}
}

void context_restart(struct context *c)
{
	context_stop(c, "a client has restarted the context");
}

void contexts_env(struct contexts *all, struct json_value env)
{
	buf_clear(&all->env);
	ascii_json_value(&all->env, env);
	for (struct context *c = all->first; c != NULL; c = c->next)
		context_send_env(c);
}

static struct context *find_default(const struct contexts *all, const struct language *l)
{
	struct context *c = all->first;

	while (c != NULL && (!c->is_default || c->language != l))
		c = c->next;
	return c;
}

bool contexts_ready(const struct contexts *all)
{
	const struct context *c = find_default(all, all->python.language);

	return c == NULL || c->kernel.state == KERNEL_READY ||
	       (c->kernel.state == KERNEL_NONE && !all->warming);
}

/* The first Python kernel, when its parent is ready, or none if it has failed. */
static void on_parent_change(void *arg)
{
	struct contexts *all = arg;
	struct context *c = find_default(all, all->python.language);
	struct err e;

	if (!all->warming)
		return;
	if (!all->python.ready) {
		all->warming = false;
	} else if (c != NULL && context_warm(c, &e) < 0) {
		log_warn("no Python kernel", "error=%s", e.msg);
		all->warming = false;
	}
}

int contexts_init(struct contexts *all, struct loop *loop, const char *kernels, const char *cwd,
		  unsigned slow_ms, struct err *e)
{
	*all = (struct contexts){
		.loop = loop, .kernels = kernels, .cwd = cwd, .slow_ms = slow_ms
	};
	all->last = &all->first;
	buf_init(&all->env, ENV_MAX);
	buf_init(&all->line, LINE_MAX_BYTES);
	python_parent_init(&all->python, loop, kernels, slow_ms, on_parent_change, all);
	for (size_t i = 0; language_at(i) != NULL; i++)
		if (language_at(i)->at_start && context_get(all, language_at(i), "", "", e) == NULL)
			return -1;
	all->warming = true;
	if (python_parent_start(&all->python, e) < 0) {
		all->warming = false;
		log_warn("Python cannot be run here", "error=%s", e->msg);
	}
	return 0;
}
