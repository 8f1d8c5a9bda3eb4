/* api.c - E2B's interface of the code interpreter: routes, contexts, executions.
 *
 * X-Access-Token is not checked here: the server in the cell does not know the token. cordond
 * checks it before a request comes here. A program of the cell needs none if it is root's: for all
 * others http_conn.c refuses everything but GET /health. */
#include <stdio.h>
#include <string.h>

#include "ascii_json.h"
#include "code_request.h"
#include "http_conn.h"
#include "url.h"

#define LIST_MAX (1U << 20)

static struct conn *conn_of(struct execution *x)
{
	return (struct conn *)((char *)x - offsetof(struct conn, execution));
}

static int status_of(const struct err *e)
{
	return e->code == ERR_INVALID ? 400 : e->code == ERR_LIMIT ? 429 : 500;
}

static void fail(struct conn *c, const struct err *e)
{
	conn_text(c, status_of(e), e->msg);
}

static const struct language *read_language(struct conn *c, const char *name)
{
	const struct language *l = language_find(name);
	char text[256];

	if (l != NULL)
		return l;
	(void)snprintf(text, sizeof(text),
		       "there is no kernel for %.60s; there are python, javascript, typescript, "
		       "bash, r and java",
		       name);
	conn_text(c, 500, text);
	return NULL;
}

/* ---- executions */

static void on_accepted(struct execution *x)
{
	conn_stream(conn_of(x));
}

static bool on_lines(struct execution *x, const void *lines, size_t n)
{
	return conn_stream_add(conn_of(x), lines, n);
}

static void on_end(struct execution *x)
{
	conn_stream_end(conn_of(x));
}

static void on_fail(struct execution *x, const char *why)
{
	conn_text(conn_of(x), 500, why);
}

static const struct execution_calls execution_calls = { on_accepted, on_lines, on_end, on_fail };

static struct context *find_context(struct conn *c, const struct code_request *r)
{
	struct contexts *all = &c->server->contexts;
	const struct language *l;
	struct context *found;
	struct err e = { 0 };
	char text[128];

	if (r->context_id[0] != '\0') {
		found = context_find(all, r->context_id);
		(void)snprintf(text, sizeof(text), "Context %s not found", r->context_id);
		if (found == NULL)
			conn_text(c, 404, text);
		return found;
	}
	l = read_language(c, r->language);
	if (l == NULL)
		return NULL;
	found = context_get(all, l, r->context_name, r->cwd, &e);
	if (found == NULL)
		fail(c, &e);
	return found;
}

static void execute(struct conn *c)
{
	static struct code_request r; /* large */
	struct context *context;
	struct err e = { 0 };

	if (code_request_execute((const char *)c->body.data, c->body.len, &r, &e) < 0) {
		fail(c, &e);
		return;
	}
	context = find_context(c, &r);
	if (context == NULL)
		return;
	execution_init(&c->execution, &execution_calls);
	if (execution_set(&c->execution, r.code, r.env, &e) < 0 ||
	    context_run(context, &c->execution, &e) < 0) {
		buf_release(&c->execution.line);
		fail(c, &e);
		return;
	}
	buf_release(&c->body); /* stays counted until the answer is complete */
}

/* ---- contexts */

static void put_context(struct buf *b, const struct context *c)
{
	buf_printf(b, "{\"id\":\"%s\",\"language\":\"%s\",\"cwd\":", c->id, c->language->name);
	ascii_json_text(b, c->cwd);
	if (c->name[0] != '\0') {
		buf_put_text(b, ",\"name\":");
		ascii_json_text(b, c->name);
	}
	buf_put_text(b, "}");
}

static void answer_json(struct conn *c, struct buf *b)
{
	conn_answer(c, 200, "application/json", buf_text(b), b->len);
	buf_release(b);
}

static void list_contexts(struct conn *c)
{
	struct buf b = BUF_INIT(LIST_MAX);

	buf_put_text(&b, "[");
	for (const struct context *x = c->server->contexts.first; x != NULL; x = x->next) {
		put_context(&b, x);
		if (x->next != NULL)
			buf_put_text(&b, ",");
	}
	buf_put_text(&b, "]");
	answer_json(c, &b);
}

/* The kernel of a new context is ready. */
static void on_created(struct execution *x)
{
	struct buf b = BUF_INIT(LIST_MAX);
	struct conn *c = conn_of(x);

	put_context(&b, c->created);
	answer_json(c, &b);
}

/* The context is given up with it; later, as its own functions are still at work. */
static void on_create_failed(struct execution *x, const char *why)
{
	struct conn *c = conn_of(x);

	c->created->unwanted = true;
	conn_text(c, 500, why);
}

static const struct execution_calls create_calls = { .on_end = on_created,
						     .on_fail = on_create_failed };

static void create_context(struct conn *c)
{
	static struct code_request r; /* large */
	const struct language *l;
	struct err e = { 0 };

	if (code_request_context((const char *)c->body.data, c->body.len, &r, &e) < 0) {
		fail(c, &e);
		return;
	}
	l = read_language(c, r.language);
	if (l == NULL)
		return;
	c->created = context_add(&c->server->contexts, l, r.cwd, &e);
	execution_init(&c->execution, &create_calls);
	c->execution.only_start = true;
	if (c->created == NULL || context_run(c->created, &c->execution, &e) < 0)
		fail(c, &e);
}

static void on_restarted(struct execution *x)
{
	conn_answer(conn_of(x), 200, "application/json", "null", 4);
}

static const struct execution_calls restart_calls = { .on_end = on_restarted, .on_fail = on_fail };

static void restart_context(struct conn *c, struct context *context)
{
	struct err e = { 0 };

	context_restart(context);
	execution_init(&c->execution, &restart_calls);
	c->execution.only_start = true;
	if (context_run(context, &c->execution, &e) < 0)
		fail(c, &e);
}

static void remove_context(struct conn *c, struct context *context)
{
	context_remove(context);
	conn_answer(c, 200, "application/json", "null", 4);
}

static void with_context(struct conn *c, struct http1_span raw,
			 void (*work)(struct conn *, struct context *))
{
	char id[CONTEXT_ID_MAX + 40], text[128];
	struct context *context = NULL;

	if (url_decode(raw, id, sizeof(id)) >= 0)
		context = context_find(&c->server->contexts, id);
	else
		id[0] = '\0';
	(void)snprintf(text, sizeof(text), "Context %s not found", id);
	if (context == NULL)
		conn_text(c, 404, text);
	else
		work(c, context);
}

/* ---- routes */

static void health(struct conn *c)
{
	conn_answer(c, 200, "application/json", "\"OK\"", 4);
}

/* Not of E2B's: for `cordon-interpreter ready`. */
static void ready(struct conn *c)
{
	if (contexts_ready(&c->server->contexts))
		conn_text(c, 200, "ready");
	else
		conn_text(c, 503, "Python is not ready yet");
}

static void answer_options(struct conn *c)
{
	conn_text(c, 200, "OK");
}

static const struct {
	enum http1_method method;
	const char *path;
	void (*handle)(struct conn *c);
	void (*with)(struct conn *c, struct context *context);
} routes[] = {
	{ HTTP1_GET, "/health", health, NULL },
	{ HTTP1_GET, "/ready", ready, NULL },
	{ HTTP1_POST, "/execute", execute, NULL },
	{ HTTP1_GET, "/contexts", list_contexts, NULL },
	{ HTTP1_POST, "/contexts", create_context, NULL },
	{ HTTP1_POST, "/contexts/{id}/restart", NULL, restart_context },
	{ HTTP1_DELETE, "/contexts/{id}", NULL, remove_context },
};

void api_handle(struct conn *c)
{
	const struct http1_span path = { c->path, strlen(c->path) };
	bool known = false;

	contexts_sweep(&c->server->contexts);
	if (c->method == HTTP1_OPTIONS) {
		answer_options(c);
		return;
	}
	for (size_t i = 0; i < COUNT(routes); i++) {
		struct url_params params;

		if (!url_match(routes[i].path, path, &params))
			continue;
		known = true;
		if (routes[i].method != c->method)
			continue;
		if (routes[i].handle != NULL)
			routes[i].handle(c);
		else
			with_context(c, params.raw[0], routes[i].with);
		return;
	}
	conn_text(c, known ? 405 : 404, known ? "Method Not Allowed" : "Not Found");
}

void api_abandon(struct conn *c)
{
	if (c->created != NULL && c->execution.context == c->created)
		c->created->unwanted = true; /* no client has its id */
	execution_abandon(&c->execution);
}
