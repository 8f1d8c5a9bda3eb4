#include "incell/interpreter/python_parent.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "incell/interpreter/ascii_json.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

#define LIVED_MS 2000 /* one that lived this long is started again at once */

/* The parent's own process is a kernel without a context. */
static struct python_parent *parent_of(struct kernel *k)
{
	return (struct python_parent *)((char *)k - offsetof(struct python_parent, process));
}

/* Safe if they are closed already. */
static void close_ends(struct kernel_ends *ends)
{
	fd_close(ends->channel);
	fd_close(ends->out[0]);
	fd_close(ends->out[1]);
	*ends = (struct kernel_ends){ .channel = -1, .out = { -1, -1 } };
}

/* Take a request out and give it back. Return its kernel, or NULL. */
static struct kernel *take_from(struct python_spawn ***last, struct python_spawn *s)
{
	struct kernel *k = s->kernel;

	LIST_REMOVE_FROM(last, s);
	close_ends(&s->ends);
	if (k != NULL)
		k->asked_by = NULL;
	free(s);
	return k;
}

static struct kernel *python_parent_take(struct python_parent *p, struct python_spawn *s)
{
	return take_from(&p->last, s);
}

/* A kernel may be asked for again from inside: that one waits for the next parent. */
static void fail_all(struct python_parent *p, const char *why)
{
	struct python_spawn *list = p->first, **last = &list;

	p->first = NULL;
	p->last = &p->first;
	if (list != NULL)
		list->link = &list;
	while (list != NULL) {
		struct kernel *k = take_from(&last, list);

		if (k != NULL)
			kernel_fail(k, why);
	}
}

/* ---- requests
 *
 * A request waits in the list until the parent answers. Answers come in the order of requests. */

/* The ends go to the parent with the message, and are closed here. */
static int send_spawn(struct python_parent *p, struct python_spawn *s, struct err *e)
{
	const int fds[] = { s->ends.channel, s->ends.out[0], s->ends.out[1] };
	struct buf line = BUF_INIT(1U << 16);
	int result;

	buf_put_text(&line, "{\"op\":\"spawn\",\"cwd\":");
	ascii_json_text(&line, s->cwd);
	buf_put_text(&line, "}\n");
	result = buf_check(&line, e);
	if (result == 0)
		result = io_send(p->process.channel, line.data, line.len, fds, COUNT(fds), e);
	buf_release(&line);
	close_ends(&s->ends);
	return result;
}

/* Send the requests that waited for it to be ready. */
static void send_all(struct python_parent *p)
{
	struct err e;

	for (struct python_spawn *s = p->first; s != NULL; s = s->next)
		if (s->ends.channel >= 0 && send_spawn(p, s, &e) < 0) {
			kernel_kill(&p->process); /* its end fails all requests */
			return;
		}
}

/* k hears of its process by kernel_take(), or of a failure by kernel_fail(). */
int python_parent_spawn(struct python_parent *p, struct kernel *k, const char *cwd, struct err *e)
{
	size_t n = strlen(cwd) + 1;
	struct python_spawn *s;

	if (python_parent_start(p, e) < 0)
		return -1;
	s = calloc(1, sizeof(*s) + n);
	if (s == NULL)
		return err_sys(e, "allocate");
	if (kernel_open(k, &s->ends, e) < 0) {
		close_ends(&s->ends);
		free(s);
		return -1;
	}
	memcpy(s->cwd, cwd, n);
	s->kernel = k;
	k->asked_by = &s->kernel;
	LIST_APPEND(&p->last, s);
	if (p->ready)
		send_all(p);
	return 0;
}

/* ---- answers
 *
 * The first request in the list is the one answered. Its kernel may be gone by then. */

/* A process for a kernel that is gone is killed. */
static void on_spawned(struct python_parent *p, const struct kernel_message *m)
{
	struct kernel *k = p->first == NULL ? NULL : python_parent_take(p, p->first);
	bool valid = m->number > 1 && m->number < INT32_MAX;

	if (k != NULL && valid)
		kernel_take(k, (pid_t)m->number);
	else if (k != NULL)
		kernel_fail(k, "the parent process of Python kernels gave no process");
	else if (valid)
		(void)kill((pid_t)m->number, SIGKILL);
}

/* The parent stays. */
static void on_failed(struct python_parent *p, const struct kernel_message *m)
{
	struct kernel *k = p->first == NULL ? NULL : python_parent_take(p, p->first);
	struct buf why = BUF_INIT(512);
	struct err e;

	if (k == NULL)
		return;
	IGNORED(json_read_text(json_read_member(m->body, "message"), &why, &e), "cut off");
	kernel_fail(k, why.len == 0 ? "it could not be forked" : buf_text(&why));
	buf_release(&why);
}

/* Other messages are ignored. */
static void on_message(struct kernel *k, const struct kernel_message *m)
{
	struct python_parent *p = parent_of(k);

	if (m->type == KERNEL_MESSAGE_READY && !p->ready) {
		p->ready = true;
		send_all(p);
		p->on_change(p->arg);
	} else if (m->type == KERNEL_MESSAGE_SPAWNED) {
		on_spawned(p, m);
	} else if (m->type == KERNEL_MESSAGE_FAILED) {
		on_failed(p, m);
	}
}

/* Its output, such as a traceback when it cannot start, is for the log of the service. */
static void on_output(struct kernel *k, int stream, uint8_t *bytes, size_t n)
{
	static struct log_limit limit = { .burst = 50, .interval_ms = 10000 };
	char text[LOG_VALUE_MAX];
	unsigned long long dropped;

	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	memcpy(text, bytes, n);
	text[n] = '\0';
	if (log_limit(&limit, &dropped))
		log_warn("the parent of Python kernels writes", "text=%s", text);
}

/* A parent that ends too soon is not started again here. */
static void on_end(struct kernel *k, const char *why)
{
	struct python_parent *p = parent_of(k);
	bool was_ready = p->ready;
	char text[192];
	struct err e;

	log_warn("the parent of Python kernels has ended", "why=%s", why);
	(void)snprintf(text, sizeof(text), "the process that Python kernels are forked from: %s",
		       why);
	p->ready = false;
	p->failed = !was_ready || clock_now_ns() - p->started_ns < LIVED_MS * CLOCK_MS;
	fail_all(p, text);
	if (!p->failed && python_parent_start(p, &e) < 0)
		log_error("Python cannot be started again", "error=%s", e.msg);
	p->on_change(p->arg);
}

static const struct kernel_calls calls = { on_message, on_output, on_end, NULL };

/* ---- its process
 *
 * Started at the first need, and again when it has ended. */

void python_parent_init(struct python_parent *p, struct loop *loop, const char *kernels,
			unsigned slow_ms, void (*on_change)(void *arg), void *arg)
{
	*p = (struct python_parent){ .loop = loop,
				     .language = language_find("python"),
				     .kernels = kernels,
				     .on_change = on_change,
				     .arg = arg };
	p->last = &p->first;
	kernel_init(&p->process, loop, slow_ms, &calls);
}

/* 0 as well if it runs already. */
int python_parent_start(struct python_parent *p, struct err *e)
{
	char program[4096];
	struct kernel_start start = {
		.language = p->language, .program = program, .kernels = p->kernels, .cwd = "/"
	};

	if (p->process.state != KERNEL_NONE)
		return 0;
	if (language_program(p->language, program, sizeof(program), e) < 0)
		return -1;
	p->ready = p->failed = false;
	p->started_ns = clock_now_ns();
	return kernel_exec(&p->process, &start, e);
}
