/* process.c - the unary calls of the process service, but for input: List, Update, SendSignal,
 * CloseStdin. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "e2b_private.h"
#include "process_find.h"
#include "reply.h"
#include "rpc.h"

#define SEEN_MAX 4096 /* executions of a session: the most executions_max can be */

/* ---- List */

struct one {
	uint32_t pid;
	struct execution *x;
};

struct seen {
	size_t n;
	struct one list[SEEN_MAX];
};

static void on_execution(struct execution *x, void *arg)
{
	struct seen *s = arg;

	if (execution_pid(x) != 0 && !execution_ended(x) && s->n < SEEN_MAX)
		s->list[s->n++] = (struct one){ execution_pid(x), x };
}

static int by_pid(const void *a, const void *b)
{
	uint32_t p = ((const struct one *)a)->pid, q = ((const struct one *)b)->pid;

	return p < q ? -1 : p > q;
}

static void on_session_to_list(struct request *r, struct session *s)
{
	OWN_MEM struct seen *seen = calloc(1, sizeof(*seen));
	struct json j;

	if (seen == NULL) {
		rpc_fail(r, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	execution_each(s, on_execution, seen);
	qsort(seen->list, seen->n, sizeof(seen->list[0]), by_pid);
	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "processes", '[');
	for (size_t i = 0; i < seen->n; i++) {
		const struct store_execution *row = execution_row(seen->list[i].x);

		json_open(&j, NULL, '{');
		process_spec_show(&j, row->client, row->command);
		json_uint(&j, "pid", seen->list[i].pid);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	rpc_reply(r, &j);
}

static void on_list(struct request *r, json_t *message)
{
	(void)message; /* an empty one */
	request_use(r, on_session_to_list);
}

void process_list(struct request *r)
{
	rpc_read(r, on_list);
}

/* ---- the rest: read, then use the session, then do it to the process */

struct order {
	struct process_selector which;
	int signal;
	bool has_size;
	uint16_t rows, cols;
};

static void release(struct request *r, bool answered)
{
	struct order *o = r->state;

	(void)answered;
	process_selector_release(&o->which);
}

/* The order with its selector read; else answers. */
static struct order *new_order(struct request *r, const json_t *message)
{
	struct order *o = request_state(r, sizeof(*o), release);
	struct err e = { 0 };

	if (o == NULL)
		return NULL;
	if (process_selector_read(message, &o->which, &e) == 0)
		return o;
	process_find_refuse(r, &e);
	return NULL;
}

/* The process; else answers. */
static struct execution *find(struct request *r, struct session *s)
{
	const struct order *o = r->state;
	struct execution *x = process_find(s, &o->which);

	if (x == NULL)
		process_find_fail(r, &o->which);
	return x;
}

/* ---- SendSignal */

static void on_killed(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e == NULL)
		rpc_reply_empty(r);
	else
		rpc_fail(r, RPC_INTERNAL, "error sending signal: %s", e->msg);
}

static void on_session_to_signal(struct request *r, struct session *s)
{
	const struct order *o = r->state;
	struct execution *x = find(r, s);
	struct err e = { 0 };

	if (x == NULL)
		return;
	if (o->signal == 0) {
		rpc_fail(r, RPC_UNIMPLEMENTED,
			 "invalid signal: only SIGNAL_SIGKILL and SIGNAL_SIGTERM are supported");
		return;
	}
	if (execution_ended(
		    x)) { /* processes that hold its output open are killed, too, so that it ends */
		r->wait.on_done = on_killed;
		execution_kill(x, &r->wait);
		return;
	}
	if (execution_signal(x, o->signal, &e) < 0)
		rpc_fail(r, RPC_INTERNAL, "error sending signal: %s", e.msg);
	else
		rpc_reply_empty(r);
}

/* 0: none that is supported. */
static int read_signal(const json_t *message)
{
	const json_t *value = rpc_member(message, "signal");
	const char *name = json_is_string(value) ? json_string_value(value) : "";

	if (json_is_integer(value) &&
	    (json_integer_value(value) == SIGKILL || json_integer_value(value) == SIGTERM))
		return (int)json_integer_value(value);
	return strcmp(name, "SIGNAL_SIGKILL") == 0   ? SIGKILL
	       : strcmp(name, "SIGNAL_SIGTERM") == 0 ? SIGTERM
						     : 0;
}

static void on_signal(struct request *r, json_t *message)
{
	struct order *o = new_order(r, message);

	if (o == NULL)
		return;
	o->signal = read_signal(message);
	request_use(r, on_session_to_signal);
}

void process_send_signal(struct request *r)
{
	rpc_read(r, on_signal);
}

/* ---- Update */

static void on_session_to_update(struct request *r, struct session *s)
{
	const struct order *o = r->state;
	struct execution *x = find(r, s);
	struct err e = { 0 };

	if (x == NULL)
		return;
	if (o->has_size && !execution_row(x)->tty)
		rpc_fail(r, RPC_INTERNAL, "error resizing tty: tty not assigned to process");
	else if (o->has_size && execution_resize(x, o->rows, o->cols, &e) < 0)
		rpc_fail(r, RPC_INTERNAL, "error resizing tty: %s", e.msg);
	else
		rpc_reply_empty(r);
}

static int read_size(const json_t *message, struct order *o, struct err *e)
{
	json_t *pty = NULL, *size = NULL;
	uint32_t rows = 0, cols = 0;

	if (rpc_object(message, "pty", &pty, e) < 0 || rpc_object(pty, "size", &size, e) < 0 ||
	    rpc_uint32(size, "rows", &rows, e) < 0 || rpc_uint32(size, "cols", &cols, e) < 0)
		return -1;
	o->has_size = pty != NULL;
	o->rows = rows > UINT16_MAX ? UINT16_MAX : (uint16_t)rows;
	o->cols = cols > UINT16_MAX ? UINT16_MAX : (uint16_t)cols;
	return 0;
}

static void on_update(struct request *r, json_t *message)
{
	struct order *o = new_order(r, message);
	struct err e = { 0 };

	if (o == NULL)
		return;
	if (read_size(message, o, &e) < 0)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	else
		request_use(r, on_session_to_update);
}

void process_update(struct request *r)
{
	rpc_read(r, on_update);
}

/* ---- CloseStdin */

static void on_session_to_close(struct request *r, struct session *s)
{
	struct execution *x = find(r, s);

	if (x == NULL)
		return;
	if (execution_row(x)->tty) {
		rpc_fail(r, RPC_INTERNAL,
			 "error closing stdin: cannot close stdin for PTY process - send Ctrl+D "
			 "(0x04) instead");
		return;
	}
	execution_close_input(x);
	rpc_reply_empty(r);
}

static void on_close(struct request *r, json_t *message)
{
	if (new_order(r, message) != NULL)
		request_use(r, on_session_to_close);
}

void process_close_stdin(struct request *r)
{
	rpc_read(r, on_close);
}
