/* server.c - listeners and the list of connections. What a connection does is in conn.c. */
#include "server.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "clock.h"
#include "conn.h"
#include "listen.h"
#include "rand.h"
#include "untrusted_fd.h"

#define LISTENERS_MAX 8
#define FDS_SPARE 64
#define ANSWER_MS 10000

struct server *server_new(struct loop *l, const struct server_options *o, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));
	struct rlimit files;

	assert(o->on_request && o->head_max >= 256);
	if (s)
		s->listeners = calloc(LISTENERS_MAX, sizeof(*s->listeners));
	if (!s || !s->listeners) {
		(void)err_set(e, ERR_LIMIT, "out of memory for a server");
		free(s);
		return NULL;
	}
	s->loop = l;
	s->options = *o;
	if (o->answer_ms == 0)
		s->options.answer_ms = ANSWER_MS;
	if (o->unkeyed_max == 0 || o->unkeyed_max > o->connections_max)
		s->options.unkeyed_max = o->connections_max;
	s->all = o->all ? o->all : &s->own;
	jobs_init(&s->own_jobs, l);
	s->jobs = o->jobs ? o->jobs : &s->own_jobs;
	peers_init(&s->peers);
	rand_bytes(&s->ids, sizeof(s->ids));
	s->fd_bound = getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX
			      ? INT_MAX
			      : (int)files.rlim_cur - FDS_SPARE;
	return s;
}

/* Over the limit of connections: answers 503 at once; what the client sends is not read. */
static void turn_away(struct server *s, int fd, bool local)
{
	static const char busy[] =
		"HTTP/1.1 503 Service Unavailable\r\n"
		"Content-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
	char unread[4096];

	if (!s->options.tls) {
		(void)send(fd, busy, sizeof(busy) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		/* Closing with unread input would reset the connection, and the answer with it. */
		(void)untrusted_recv(fd, unread, sizeof(unread));
	}
	conn_close_fd(fd, local);
}

static void on_accept(struct listen *l, int fd, const struct addr *peer)
{
	struct server *s = l->arg;
	struct peer *from = peers_enter(&s->peers, peer);
	char text[ADDR_TEXT_MAX];

	/* The kernel allocates the lowest free descriptor: a high number means that few are left,
	 * and other parts need them more. */
	if (!from || fd >= s->fd_bound || !conn_evict_for(s, from)) {
		turn_away(s, fd, addr_is_unix(peer));
		if (from)
			peers_leave(&s->peers, from);
		return;
	}
	addr_format(peer, text, sizeof(text));
	conn_open(s, fd, from, addr_is_unix(peer) ? "unix" : text);
}

int server_listen(struct server *s, int listen_fd, struct err *e)
{
	struct listen *l = &s->listeners[s->nlisteners];

	if (s->nlisteners == LISTENERS_MAX) {
		fd_close(listen_fd);
		return err_set(e, ERR_LIMIT, "more than %d listeners", LISTENERS_MAX);
	}
	l->on_accept = on_accept;
	l->arg = s;
	if (listen_start(l, s->loop, listen_fd, e) < 0)
		return -1;
	s->nlisteners++;
	return 0;
}

static void stop_listening(struct server *s)
{
	for (size_t i = 0; i < s->nlisteners; i++)
		listen_stop(&s->listeners[i]);
}

void server_drain(struct server *s)
{
	s->draining = true;
	s->drain_ns = loop_now_ns(s->loop);
	stop_listening(s);
	for (struct conn *c = s->first; c; c = c->next) {
		if (c->state == CONN_HEAD)
			conn_wake(c); /* advance() ends it: its callbacks may be on the stack */
		else if (c->x && (c->x->endless || c->x->ws || c->x->tunnel))
			conn_drop_later(c); /* it would go on for ever; its client reconnects */
	}
}

void server_hurry(struct server *s)
{
	for (struct conn *c = s->first; c; c = c->next)
		if (c->x && c->x->answer == ANSWER_NONE)
			exchange_revoke(c->x, 503, "the server is ending; ask what became of this");
}

size_t server_connections(const struct server *s)
{
	return s->nconns;
}

size_t server_unkeyed(const struct server *s)
{
	return s->unkeyed;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	stop_listening(s);
	while (s->first)
		conn_drop(s->first);
	jobs_release(&s->own_jobs);
	free(s->listeners);
	free(s);
}
