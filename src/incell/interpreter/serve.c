/* serve.c - `cordon-interpreter serve`: listens, and reads the session's environment.
 *
 * It runs as root of the cell, and is as untrusted as all else there: cordond passes requests on to
 * it as to any port. Standard input has lines {"env":{...}}: the session's environment, not known
 * yet when a cell of the pool starts. cordond writes it before the client learns of the session, so
 * input already there is read before each request. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "incell/interpreter/ascii_json.h"
#include "incell/interpreter/code_request.h"
#include "incell/interpreter/http_conn.h"
#include "incell/interpreter/interpreter_options.h"
#include "incell/interpreter/local_address.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/http/url.h"

/* ---- E2B's interface of the code interpreter: routes, contexts, executions
 *
 * X-Access-Token is not checked here: the server in the cell does not know the token. cordond
 * checks it before it passes a request on. A program of the cell needs no token if it is root's.
 * For all other programs http_conn.c refuses everything but GET /health. */

#define LIST_MAX (1U << 20)

static struct http_conn *conn_of(struct context_run *x)
{
	return (struct http_conn *)((char *)x - offsetof(struct http_conn, execution));
}

static int status_of(const struct err *e)
{
	return e->code == ERR_INVALID ? 400 : e->code == ERR_LIMIT ? 429 : 500;
}

static void serve_fail(struct http_conn *c, const struct err *e)
{
	conn_text(c, status_of(e), e->msg);
}

static const struct language *read_language(struct http_conn *c, const char *name)
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

static void on_accepted(struct context_run *x)
{
	conn_stream(conn_of(x));
}

static bool on_lines(struct context_run *x, const void *lines, size_t n)
{
	return conn_stream_add(conn_of(x), lines, n);
}

static void on_end(struct context_run *x)
{
	conn_stream_end(conn_of(x));
}

static void on_fail(struct context_run *x, const char *why)
{
	conn_text(conn_of(x), 500, why);
}

static const struct execution_calls execution_calls = { on_accepted, on_lines, on_end, on_fail };

/* The context that the request names by its id. Without an id the language and the name choose one,
 * and context_get() makes it if needed. NULL: the request has its answer. */
static struct context *find_context(struct http_conn *c, const struct code_request *r)
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
		serve_fail(c, &e);
	return found;
}

/* execution_set() copies the code and the environment, so the body is released before the code has
 * run. */
static void serve_execute(struct http_conn *c)
{
	static struct code_request r; /* large */
	struct context *context;
	struct err e = { 0 };

	if (code_request_execute((const char *)c->body.data, c->body.len, &r, &e) < 0) {
		serve_fail(c, &e);
		return;
	}
	context = find_context(c, &r);
	if (context == NULL)
		return;
	execution_init(&c->execution, &execution_calls);
	if (execution_set(&c->execution, r.code, r.env, &e) < 0 ||
	    context_run(context, &c->execution, &e) < 0) {
		buf_release(&c->execution.line);
		serve_fail(c, &e);
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

static void answer_json(struct http_conn *c, struct buf *b)
{
	conn_answer(c, 200, "application/json", buf_text(b), b->len);
	buf_release(b);
}

static void list_contexts(struct http_conn *c)
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
static void on_created(struct context_run *x)
{
	struct buf b = BUF_INIT(LIST_MAX);
	struct http_conn *c = conn_of(x);

	put_context(&b, c->created);
	answer_json(c, &b);
}

/* The context is given up with it. Later, as its own functions are still at work. */
static void on_create_failed(struct context_run *x, const char *why)
{
	struct http_conn *c = conn_of(x);

	c->created->unwanted = true;
	conn_text(c, 500, why);
}

static const struct execution_calls create_calls = { .on_end = on_created,
						     .on_fail = on_create_failed };

/* The kernel starts first. on_created() or on_create_failed() gives the answer. */
static void create_context(struct http_conn *c)
{
	static struct code_request r; /* large */
	const struct language *l;
	struct err e = { 0 };

	if (code_request_context((const char *)c->body.data, c->body.len, &r, &e) < 0) {
		serve_fail(c, &e);
		return;
	}
	l = read_language(c, r.language);
	if (l == NULL)
		return;
	c->created = context_add(&c->server->contexts, l, r.cwd, &e);
	execution_init(&c->execution, &create_calls);
	c->execution.only_start = true;
	if (c->created == NULL || context_run(c->created, &c->execution, &e) < 0)
		serve_fail(c, &e);
}

static void on_restarted(struct context_run *x)
{
	conn_answer(conn_of(x), 200, "application/json", "null", 4);
}

static const struct execution_calls restart_calls = { .on_end = on_restarted, .on_fail = on_fail };

static void restart_context(struct http_conn *c, struct context *context)
{
	struct err e = { 0 };

	context_restart(context);
	execution_init(&c->execution, &restart_calls);
	c->execution.only_start = true;
	if (context_run(context, &c->execution, &e) < 0)
		serve_fail(c, &e);
}

static void remove_context(struct http_conn *c, struct context *context)
{
	context_remove(context);
	conn_answer(c, 200, "application/json", "null", 4);
}

/* Call work with the context of the id. An id that cannot be decoded is no context's id: 404. */
static void with_context(struct http_conn *c, struct http1_span raw,
			 void (*work)(struct http_conn *, struct context *))
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

static void serve_health(struct http_conn *c)
{
	conn_answer(c, 200, "application/json", "\"OK\"", 4);
}

/* Not of E2B's: for `cordon-interpreter ready`. */
static void serve_ready(struct http_conn *c)
{
	if (contexts_ready(&c->server->contexts))
		conn_text(c, 200, "ready");
	else
		conn_text(c, 503, "Python is not ready yet");
}

static void answer_options(struct http_conn *c)
{
	conn_text(c, 200, "OK");
}

/* A row has one of two handlers: handle, or with for a path that names a context. */
static const struct {
	enum http1_method method;
	const char *path;
	void (*handle)(struct http_conn *c);
	void (*with)(struct http_conn *c, struct context *context);
} routes[] = {
	{ HTTP1_GET, "/health", serve_health, NULL },
	{ HTTP1_GET, "/ready", serve_ready, NULL },
	{ HTTP1_POST, "/execute", serve_execute, NULL },
	{ HTTP1_GET, "/contexts", list_contexts, NULL },
	{ HTTP1_POST, "/contexts", create_context, NULL },
	{ HTTP1_POST, "/contexts/{id}/restart", NULL, restart_context },
	{ HTTP1_DELETE, "/contexts/{id}", NULL, remove_context },
};

/* Each path is compared with all rows, since two methods may share it: a known path gives 405, an
 * unknown one 404. */
void api_handle(struct http_conn *c)
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

void api_abandon(struct http_conn *c)
{
	if (c->created != NULL && c->execution.context == c->created)
		c->created->unwanted = true; /* no client has its id */
	execution_abandon(&c->execution);
}

#define ENV_LINE_MAX (6U << 20)
#define BACKLOG 256

static struct http_server server; /* large, and there is one */

/* ---- the session's environment */

/* A line in another form is ignored. */
static void read_env_line(struct http_server *s, const char *line, size_t n)
{
	struct json_value v, env;
	struct err e;

	if (json_read(line, n, 8, &v, &e) < 0)
		return;
	env = json_read_member(v, "env");
	if (code_request_is_env(env))
		contexts_env(&s->contexts, env);
}

static void read_env_lines(struct http_server *s)
{
	const char *from = buf_text(&s->env_line), *newline;

	while ((newline = strchr(from, '\n')) != NULL) {
		read_env_line(s, from, (size_t)(newline - from));
		from = newline + 1;
	}
	buf_consume(&s->env_line, (size_t)(from - buf_text(&s->env_line)));
}

/* Read the bytes already there. The descriptor is the starter's, so its flags stay as they are. */
static void read_env(struct http_server *s)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	struct err e;

	while (!s->env_over && poll(&p, 1, 0) > 0) {
		uint8_t *room = buf_reserve(&s->env_line, 65536, &e);
		ssize_t n = room == NULL ? -1 : read(STDIN_FILENO, room, 65536);

		if (n <= 0) {
			s->env_over = true;
			loop_remove(s->loop, &s->env);
			break;
		}
		buf_commit(&s->env_line, (size_t)n);
		read_env_lines(s);
	}
}

static void on_env(struct loop_fd *f, uint32_t events)
{
	read_env(f->arg);
}

/* ---- connections */

/* One connection for each event. At CONN_MAX the listeners pause until on_room(). */
static void on_accept(struct loop_fd *f, uint32_t events)
{
	struct http_server *s = f->arg;
	const int one = 1;
	struct err e;
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (conn_open(s, fd, &e) < 0)
		log_warn("a connection is refused", "error=%s", e.msg);
	if (s->nconns >= CONN_MAX) {
		conn_evict(s);
		loop_modify(s->loop, &s->tcp, 0);
		loop_modify(s->loop, &s->local, 0);
	}
}

static void on_room(struct http_server *s)
{
	loop_modify(s->loop, &s->tcp, EPOLLIN);
	loop_modify(s->loop, &s->local, EPOLLIN);
}

static int listen_at(int family, const void *address, socklen_t n, int *ret_fd, struct err *e)
{
	const int one = 1, zero = 0;
	OWN_FD fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, address, n) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, "listen");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* All addresses of both families, or of one where the kernel has no IPv6. */
static int listen_tcp(struct http_server *s, unsigned port, struct err *e)
{
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)port) };
	const struct sockaddr_in four = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)port) };
	int fd = -1;

	if (listen_at(AF_INET6, &six, sizeof(six), &fd, e) < 0 &&
	    listen_at(AF_INET, &four, sizeof(four), &fd, e) < 0)
		return err_wrap(e, "port %u", port);
	return loop_add(s->loop, &s->tcp, fd, EPOLLIN, e);
}

static int listen_local(struct http_server *s, const char *text, struct err *e)
{
	struct sockaddr_un a;
	socklen_t n = local_address(text, &a);
	int fd = -1;

	if (n == 0)
		return err_set(e, ERR_INVALID, "--socket %.40s... is too long", text);
	if (text[0] != '@')
		(void)unlink(text);
	if (listen_at(AF_UNIX, &a, n, &fd, e) < 0)
		return err_wrap(e, "%s", text);
	if (text[0] != '@')
		(void)chmod(text, 0666);
	return loop_add(s->loop, &s->local, fd, EPOLLIN, e);
}

static const char *default_cwd(void)
{
	struct stat st;

	return stat("/home/user", &st) == 0 && S_ISDIR(st.st_mode) ? "/home/user" : "/";
}

static int serve_start(struct http_server *s, const struct interpreter_options *o, struct err *e)
{
	static char kernels[PATH_MAX]; /* kernels run elsewhere */

	s->loop = loop_new(e);
	if (s->loop == NULL)
		return -1;
	s->before_request = read_env;
	s->on_room = on_room;
	s->tcp = (struct loop_fd){ .fd = -1, .on_ready = on_accept, .arg = s };
	s->local = (struct loop_fd){ .fd = -1, .on_ready = on_accept, .arg = s };
	s->env = (struct loop_fd){ .fd = -1, .on_ready = on_env, .arg = s };
	buf_init(&s->env_line, ENV_LINE_MAX);
	if (listen_tcp(s, o->port, e) < 0 || listen_local(s, o->socket, e) < 0)
		return -1;
	if (realpath(o->kernels, kernels) == NULL)
		return err_sys(e, "--kernels %s", o->kernels);
	if (contexts_init(&s->contexts, s->loop, kernels,
			  o->cwd[0] == '\0' ? default_cwd() : o->cwd, o->slow_ms, e) < 0)
		return -1;
	/* A file, such as /dev/null, cannot be waited for: it is read once. */
	if (loop_add(s->loop, &s->env, STDIN_FILENO, EPOLLIN, e) < 0)
		read_env(s);
	return 0;
}

int interpreter_serve(const struct interpreter_options *o)
{
	struct err e = { 0 };

	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_DFL);
	if (serve_start(&server, o, &e) < 0 || loop_run(server.loop, &e) < 0) {
		(void)fprintf(stderr, "cordon-interpreter: %s\n", e.msg);
		return 1;
	}
	return 0;
}
