/* outbound.c - theory of operation
 *
 * A call: the name is looked up (or there is one address), then addresses are tried in order, the
 * next one when the last has failed or after STAGGER_NS, until one is connected; the others are
 * closed. With a proxy this happens with the proxy's name, and then the proxy is asked to connect.
 *
 * Each address is judged right before its connect(2) (outbound_judge.h), by the policy of that
 * moment. What the name resolved to before does not matter, so DNS rebinding has no effect.
 *
 * Every step begins in the loop, never inside outbound_start(). */
#include "outbound.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "host.h"
#include "outbound_judge.h"
#include "outbound_socks.h"

#define STAGGER_NS (250 * CLOCK_MS)
#define LIFE_MS 10000

struct attempt {
	struct outbound_call *call;
	int fd; /* owned; -1: none */
	struct ip ip;
	struct loop_fd watch;
};

struct outbound_call {
	struct outbound_from from;
	struct outbound *out;
	char host[HOST_MAX]; /* the name that is looked up; "": an address was given */
	uint16_t port;
	bool proxied;
	enum policy_layer below;     /* see outbound_judge.h */
	struct outbound_socks socks; /* if proxied */
	struct lookup lookup;
	struct ip ips[RESOLVER_ADDRESSES_MAX];
	size_t nips, next, trying;
	struct attempt attempts[RESOLVER_ADDRESSES_MAX];
	struct attempt *winner;	   /* connected, and talking to the proxy */
	struct err denied, failed; /* the last of each kind; code ERR_NONE: none */
	struct loop_timer stagger;
	struct loop_task begin;
};

static struct loop *loop_of(const struct outbound_call *c)
{
	return c->from.loop;
}

/* ---- the end */

static void drop(struct attempt *a)
{
	if (a->fd < 0)
		return;
	loop_remove(loop_of(a->call), &a->watch);
	fd_close(a->fd);
	a->fd = -1;
	a->call->trying--;
}

static void free_call(struct outbound_call *c)
{
	struct loop *l = loop_of(c);

	resolver_cancel(&c->lookup);
	loop_timer_cancel(l, &c->stagger);
	loop_task_cancel(l, &c->begin);
	for (size_t i = 0; i < c->next; i++)
		drop(&c->attempts[i]);
	outbound_socks_clear(&c->socks);
	c->out->call = NULL;
	free(c);
}

/* The end of a call: failed, connected, or timed out. */
static void on_end(struct completion *k, const struct err *e)
{
	struct outbound *o = k->arg;
	struct ip at = o->at;
	int fd = o->connected ? o->fd : -1;

	if (o->call)
		free_call(o->call);
	o->connected = false;
	o->on_done(o, fd, fd >= 0 ? &at : NULL, e);
}

static void fail(struct outbound_call *c, const struct err *why)
{
	struct outbound *o = c->out;
	struct err e = *why;

	free_call(c);
	completion_end(&o->end, &e);
}

/* Ends a call without addresses left to try. A failed connect is reported rather than an address
 * that was denied: it says more about the host. */
static void give_up(struct outbound_call *c)
{
	struct err e;

	if (c->failed.code != ERR_NONE) {
		fail(c, &c->failed);
	} else if (c->denied.code != ERR_NONE) {
		fail(c, &c->denied);
	} else {
		(void)err_set(&e, ERR_NOT_FOUND, "%s has no address", c->host);
		fail(c, &e);
	}
}

static void succeed(struct outbound_call *c, struct attempt *a)
{
	struct outbound *o = c->out;

	loop_remove(loop_of(c), &a->watch);
	o->at = a->ip;
	o->fd = a->fd;
	o->connected = true;
	a->fd = -1;
	c->trying--;
	free_call(c);
	completion_end(&o->end, NULL);
}

static struct outbound_judge judge_of(const struct outbound_call *c)
{
	return (struct outbound_judge){
		.policy = *c->from.policy, .host = c->host, .port = c->port, .below = c->below
	};
}

/* ---- attempts */

static void try_next(struct outbound_call *c);

static void note_failure(struct outbound_call *c, const struct ip *ip, int sys)
{
	char text[IP_TEXT_MAX];

	ip_format(ip, text);
	errno = sys;
	(void)err_sys(&c->failed, "cannot connect to %s port %u", text, c->port);
}

static void on_attempt(struct loop_fd *f, uint32_t events);

/* 0: under way; -1: failed, with errno. */
static int begin_attempt(struct outbound_call *c, struct attempt *a)
{
	struct sockaddr_storage to;
	socklen_t n = ip_to_sockaddr(&a->ip, c->port, &to);
	OWN_FD fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct err e;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	if (connect(fd, (const struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS)
		return -1;
	if (loop_add(loop_of(c), &a->watch, fd, EPOLLOUT, &e) < 0)
		return -1;
	a->fd = TAKE_FD(fd);
	c->trying++;
	return 0;
}

static void try_next(struct outbound_call *c)
{
	const struct outbound_judge judge = judge_of(c);

	while (c->next < c->nips) {
		struct attempt *a = &c->attempts[c->next];

		*a = (struct attempt){ .call = c,
				       .fd = -1,
				       .ip = c->ips[c->next++],
				       .watch = { .fd = -1, .on_ready = on_attempt, .arg = a } };
		if (!outbound_judge(&judge, &a->ip, &c->denied))
			continue;
		if (begin_attempt(c, a) < 0) {
			note_failure(c, &a->ip, errno);
			continue;
		}
		if (c->next < c->nips)
			loop_timer_set(loop_of(c), &c->stagger, clock_now_ns() + STAGGER_NS);
		return;
	}
	if (c->trying == 0)
		give_up(c);
}

static void on_stagger(struct loop_timer *t)
{
	try_next(t->arg);
}

static void advance_socks(struct outbound_call *c)
{
	uint32_t events;
	char text[IP_TEXT_MAX];
	struct err e;
	int made = outbound_socks_go(&c->socks, c->winner->fd, &events, &e);

	if (made < 0) {
		ip_format(&c->winner->ip, text);
		(void)err_wrap(&e, "proxy %s", c->host[0] != '\0' ? c->host : text);
		fail(c, &e);
	} else if (made > 0) {
		succeed(c, c->winner);
	} else {
		loop_modify(loop_of(c), &c->winner->watch, events);
	}
}

static void win(struct outbound_call *c, struct attempt *a)
{
	loop_timer_cancel(loop_of(c), &c->stagger);
	for (size_t i = 0; i < c->next; i++) {
		if (&c->attempts[i] != a)
			drop(&c->attempts[i]);
	}
	if (!c->proxied) {
		succeed(c, a);
		return;
	}
	c->winner = a;
	advance_socks(c);
}

static void on_attempt(struct loop_fd *f, uint32_t events)
{
	struct attempt *a = f->arg;
	struct outbound_call *c = a->call;
	const struct outbound_judge judge = judge_of(c);
	socklen_t n = sizeof(int);
	int sys = 0;

	(void)events;
	if (c->winner) {
		advance_socks(c);
		return;
	}
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
		sys = errno;
	if (sys == 0 && outbound_judge_made(&judge, a->fd, &a->ip, &c->denied)) {
		win(c, a);
		return;
	}
	if (sys != 0)
		note_failure(c, &a->ip, sys);
	drop(a);
	try_next(c);
}

/* ---- beginning */

static void on_lookup(struct lookup *l, const struct ip *ips, size_t n, const struct err *e)
{
	struct outbound_call *c = l->arg;
	struct outbound_judge judge;

	if (n == 0) {
		fail(c, e);
		return;
	}
	memcpy(c->ips, ips, n * sizeof(*ips));
	c->nips = n;
	judge = judge_of(c);
	if (outbound_judge_all(&judge, c->ips, n, &c->denied))
		try_next(c);
	else
		give_up(c);
}

static void on_begin(struct loop_task *t)
{
	struct outbound_call *c = t->arg;

	if (c->failed.code != ERR_NONE || c->denied.code != ERR_NONE)
		give_up(c);
	else if (c->host[0] != '\0')
		resolver_lookup(c->from.resolver, c->host, &c->lookup);
	else
		try_next(c);
}

/* host: a name, or an address in text form; NULL: ip is used. */
static void set_endpoint(struct outbound_call *c, const char *host, const struct ip *ip,
			 uint16_t port, enum policy_layer below)
{
	c->port = port;
	c->below = below;
	if (host && ip_read(host, strlen(host), &c->ips[0]) == 0)
		c->nips = 1;
	else if (host)
		(void)snprintf(c->host, sizeof(c->host), "%s", host);
	else
		c->ips[c->nips++] = *ip;
}

/* The proxy connects from wherever it is: it must not be asked for an address that egress itself
 * may not reach. */
static void set_proxy_endpoint(struct outbound_call *c, const struct policy_proxy *proxy,
			       const struct policy_target *to)
{
	/* the rules for addresses were asked already */
	const struct outbound_judge judge = judge_of(c);

	if (!to->host && !outbound_judge(&judge, &to->ip, &c->denied))
		return;
	c->proxied = true;
	if (outbound_socks_init(&c->socks, proxy, to, &c->failed) == 0)
		set_endpoint(c, proxy->host, NULL, proxy->port, proxy->layer);
}

void outbound_start(const struct outbound_from *from, const struct policy_target *to,
		    struct outbound *o)
{
	const struct policy_proxy *proxy = policy_proxy(*from->policy);
	struct outbound_call *c = calloc(1, sizeof(*c));

	if (!c)
		abort(); /* as the loop does: without it the caller would wait for ever */
	c->from = *from;
	c->out = o;
	for (size_t i = 0; i < COUNT(c->attempts); i++)
		c->attempts[i].fd = c->attempts[i].watch.fd = -1;
	c->lookup = (struct lookup){ .on_done = on_lookup, .arg = c, .owner = from->lookups };
	c->stagger = (struct loop_timer){ .on_expire = on_stagger, .arg = c };
	c->begin = (struct loop_task){ .on_run = on_begin, .arg = c };
	o->call = c;
	if (proxy && proxy->host)
		set_proxy_endpoint(c, proxy, to);
	else
		set_endpoint(c, to->host, &to->ip, to->port,
			     to->host ? POLICY_LAYERS : POLICY_NODE);
	o->connected = false;
	o->end.on_done = on_end;
	o->end.arg = o;
	completion_begin(&o->end, loop_of(c), NULL);
	completion_set_deadline(&o->end, LIFE_MS, "connection to the server");
	loop_defer(loop_of(c), &c->begin);
}

void outbound_cancel(struct outbound *o)
{
	completion_cancel(&o->end);
	if (o->call)
		free_call(o->call);
	if (o->connected)
		fd_close(o->fd);
	o->connected = false;
}

bool outbound_complies(const struct policy *policy, const struct policy_target *to,
		       const struct ip *at, struct err *ret_why)
{
	const struct policy_proxy *proxy = policy_proxy(policy);
	struct outbound_judge judge = { .policy = policy,
					.host = to->host ? to->host : "",
					.port = to->port,
					.below = to->host ? POLICY_LAYERS : POLICY_NODE };

	if (proxy && proxy->host) {
		judge.host = proxy->host;
		judge.port = proxy->port;
		judge.below = proxy->layer;
	}
	return outbound_judge(&judge, at, ret_why);
}
