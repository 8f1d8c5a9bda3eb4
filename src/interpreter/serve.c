/* serve.c - `cordon-interpreter serve`: listens, and reads the session's environment.
 *
 * It runs as root of the cell, and is as untrusted as all else there: cordond passes requests on to
 * it as to any port. Standard input has lines {"env":{...}}: the environment of the session, which
 * is not known yet when a cell of the pool starts. cordond writes it before the client learns of
 * the session, so what is there is read before each request. */
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

#include "code_request.h"
#include "http_conn.h"
#include "interpreter_options.h"
#include "io.h"
#include "local_address.h"
#include "log.h"

#define ENV_LINE_MAX (6U << 20)
#define BACKLOG 256

static struct server server; /* large, and there is one */

/* ---- the session's environment */

static void read_env_line(struct server *s, const char *line, size_t n)
{
	struct json_value v, env;
	struct err e;

	if (json_read(line, n, 8, &v, &e) < 0)
		return;
	env = json_read_member(v, "env");
	if (code_request_is_env(env))
		contexts_env(&s->contexts, env);
}

static void read_env_lines(struct server *s)
{
	const char *from = buf_text(&s->env_line), *newline;

	while ((newline = strchr(from, '\n')) != NULL) {
		read_env_line(s, from, (size_t)(newline - from));
		from = newline + 1;
	}
	buf_consume(&s->env_line, (size_t)(from - buf_text(&s->env_line)));
}

/* Reads what is there. The descriptor is the starter's, so its flags stay as they are. */
static void read_env(struct server *s)
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
	(void)events;
	read_env(f->arg);
}

/* ---- connections */

static void on_accept(struct loop_fd *f, uint32_t events)
{
	struct server *s = f->arg;
	const int one = 1;
	struct err e;
	int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
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

static void on_room(struct server *s)
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

/* All addresses of both families; of one, where the kernel has no IPv6. */
static int listen_tcp(struct server *s, unsigned port, struct err *e)
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

static int listen_local(struct server *s, const char *text, struct err *e)
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

static int start(struct server *s, const struct interpreter_options *o, struct err *e)
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
	if (start(&server, o, &e) < 0 || loop_run(server.loop, &e) < 0) {
		(void)fprintf(stderr, "cordon-interpreter: %s\n", e.msg);
		return 1;
	}
	return 0;
}
