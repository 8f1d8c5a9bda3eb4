/* outbound.c - theory of operation
 *
 * A call: the name is looked up (or there is one address), then addresses are tried in order, the
 * next one when the last has failed or after STAGGER_NS, until one is connected. The others are
 * closed. With a proxy this happens with the proxy's name, and then the proxy is asked to connect.
 *
 * Each address is judged right before its connect(2) (outbound.h), by the policy of that
 * moment. Earlier addresses of the name do not matter, so DNS rebinding has no effect.
 *
 * Every step begins in the loop, never inside outbound_start(). */
#include "lib/outbound/outbound.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/outbound/outbound_socks.h"
#include "lib/policy/host.h"
#include "lib/policy/policy.h"

struct outbound_judge {
	const struct policy *policy; /* the current one */
	const char *host;	     /* the name that resolved to the address. "": none */
	uint16_t port;
	/* Rules for addresses of layers above this one are asked. POLICY_NODE: none, they were
	 * asked already. POLICY_LAYERS: all, as a name led there. For a proxy: the layer that set
	 * it, whose own rules are about the traffic through the proxy. */
	enum policy_layer below;
};

/* ---- addresses are judged right before each connect
 *
 * Private addresses and the like are refused whatever rules say. Then the rules for addresses are
 * asked, unless they were asked before. An address of this machine itself is refused, too, even if
 * it is public, or in a block that the operator opened: services of the machine would take the
 * connection for a local one. Only loopback can be opened as a block. Any other address of the
 * machine must be named by itself.
 *
 * Whether an address is one of this machine the kernel knows: for such a destination it chooses the
 * same address as source. A connected UDP socket shows it without sending a packet. */

static bool outbound_judge_deny(const struct outbound_judge *j, const struct ip *ip,
				const char *what, struct err *ret_why)
{
	char text[IP_TEXT_MAX];

	ip_format(ip, text);
	if (j->host[0] != '\0')
		(void)err_set(ret_why, ERR_DENIED, "%s resolves to %s, %s", j->host, text, what);
	else
		(void)err_set(ret_why, ERR_DENIED, "%s is %s", text, what);
	return false;
}

/* Is the socket's own address the destination? */
static bool outbound_judge_is_own(int fd, const struct ip *ip)
{
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	uint16_t port;
	struct ip own;

	return getsockname(fd, (struct sockaddr *)&at, &n) == 0 &&
	       ip_of_sockaddr((const struct sockaddr *)&at, &own, &port) == 0 && ip_same(&own, ip);
}

static bool outbound_judge_is_this_machine(const struct ip *ip)
{
	struct sockaddr_storage to;
	socklen_t n = ip_to_sockaddr(ip, 53, &to);
	OWN_FD fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)&to, n) == 0 &&
	       outbound_judge_is_own(fd, ip);
}

static bool outbound_judge_may_be_own(const struct outbound_judge *j, const struct ip *ip)
{
	return ip_kind(ip) == IP_LOOPBACK || policy_names(j->policy, ip);
}

/* Do the rules for addresses allow it? */
static bool outbound_judge_fits_rules(const struct outbound_judge *j, const struct ip *ip,
				      struct err *ret_why)
{
	const struct policy_target to = { .host = j->host[0] != '\0' ? j->host : NULL,
					  .port = j->port };
	const struct policy_rule *rule = NULL;
	char what[64];

	if (j->below == POLICY_NODE || policy_resolved(j->policy, &to, ip, &rule) ||
	    rule->layer >= j->below)
		return true;
	(void)snprintf(what, sizeof(what), "which %.40s denies", rule->name);
	return outbound_judge_deny(j, ip, what, ret_why);
}

/* All addresses of a name: false if the rules for addresses deny one of them. A rule that denies an
 * address means the host there, which may have others. */
static bool outbound_judge_all(const struct outbound_judge *j, const struct ip *ips, size_t n,
			       struct err *ret_why)
{
	for (size_t i = 0; i < n; i++)
		if (!outbound_judge_fits_rules(j, &ips[i], ret_why))
			return false;
	return true;
}

/* False: *ret_why (ERR_DENIED) names the address and the reason. */
static bool outbound_judge(const struct outbound_judge *j, const struct ip *ip, struct err *ret_why)
{
	enum ip_kind kind = ip_kind(ip);
	const char *name = ip_kind_name(kind);
	char what[160];

	if (!policy_reachable(j->policy, ip)) {
		(void)snprintf(what, sizeof(what), "%s %s address%s",
			       strchr("aeiou", name[0]) ? "an" : "a", name,
			       kind == IP_PRIVATE || kind == IP_RESERVED
				       ? "; the operator can allow it: \"private\" in "
					 "egress_policy, then a reload "
					 "(doc/policy.md#networks-of-your-own)"
				       : "");
		return outbound_judge_deny(j, ip, what, ret_why);
	}
	if (!outbound_judge_fits_rules(j, ip, ret_why))
		return false;
	return outbound_judge_may_be_own(j, ip) || !outbound_judge_is_this_machine(ip) ||
	       outbound_judge_deny(j, ip, "an address of this node itself", ret_why);
}

/* For an established connection: by now the address may belong to this node. */
static bool outbound_judge_made(const struct outbound_judge *j, int fd, const struct ip *ip,
				struct err *ret_why)
{
	return outbound_judge_may_be_own(j, ip) || !outbound_judge_is_own(fd, ip) ||
	       outbound_judge_deny(j, ip, "an address of this node itself", ret_why);
}

#define STAGGER_NS (250 * CLOCK_MS)
#define LIFE_MS 10000

struct attempt {
	struct outbound_call *call;
	int fd; /* owned. -1: none */
	struct ip ip;
	struct loop_fd watch;
};

struct outbound_call {
	struct outbound_from from;
	struct outbound *out;
	char host[HOST_MAX]; /* the name looked up. "": an address was given */
	uint16_t port;
	bool proxied;
	enum policy_layer below;     /* see outbound.h */
	struct outbound_socks socks; /* if proxied */
	struct lookup lookup;
	struct ip ips[RESOLVER_ADDRESSES_MAX];
	size_t nips, next, trying;
	struct attempt attempts[RESOLVER_ADDRESSES_MAX];
	struct attempt *winner;	   /* connected, and talking to the proxy */
	struct err denied, failed; /* the last of each kind. Code ERR_NONE: none */
	struct loop_timer stagger;
	struct loop_task begin;
};

static struct loop *outbound_loop_of(const struct outbound_call *c)
{
	return c->from.loop;
}

/* ---- the end
 *
 * A call that failed or connected is freed first, then the completion tells the owner from the
 * loop. After the deadline on_end() frees it. */

/* Close the attempt. Without effect on one that is closed. */
static void outbound_drop(struct attempt *a)
{
	if (a->fd < 0)
		return;
	loop_remove(outbound_loop_of(a->call), &a->watch);
	fd_close(a->fd);
	a->fd = -1;
	a->call->trying--;
}

static void outbound_free_call(struct outbound_call *c)
{
	struct loop *l = outbound_loop_of(c);

	resolver_cancel(&c->lookup);
	loop_timer_cancel(l, &c->stagger);
	loop_task_cancel(l, &c->begin);
	for (size_t i = 0; i < c->next; i++)
		outbound_drop(&c->attempts[i]);
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
		outbound_free_call(o->call);
	o->connected = false;
	o->on_done(o, fd, fd >= 0 ? &at : NULL, e);
}

/* on_end() is called by the loop, after the call is freed. */
static void outbound_fail(struct outbound_call *c, const struct err *why)
{
	struct outbound *o = c->out;
	struct err e = *why;

	outbound_free_call(c);
	completion_end(&o->end, &e);
}

/* End a call without addresses left to try. A failed connect is reported rather than a denied
 * address: it says more about the host. */
static void outbound_give_up(struct outbound_call *c)
{
	struct err e;

	if (c->failed.code != ERR_NONE) {
		outbound_fail(c, &c->failed);
	} else if (c->denied.code != ERR_NONE) {
		outbound_fail(c, &c->denied);
	} else {
		(void)err_set(&e, ERR_NOT_FOUND, "%s has no address", c->host);
		outbound_fail(c, &e);
	}
}

static void outbound_succeed(struct outbound_call *c, struct attempt *a)
{
	struct outbound *o = c->out;

	loop_remove(outbound_loop_of(c), &a->watch);
	o->at = a->ip;
	o->fd = a->fd;
	o->connected = true;
	a->fd = -1;
	c->trying--;
	outbound_free_call(c);
	completion_end(&o->end, NULL);
}

static struct outbound_judge outbound_judge_of(const struct outbound_call *c)
{
	return (struct outbound_judge){
		.policy = *c->from.policy, .host = c->host, .port = c->port, .below = c->below
	};
}

/* ---- attempts
 *
 * c->next counts the addresses looked at, c->trying the attempts still open. The call gives up when
 * no address is left and no attempt is open. */

static void outbound_try_next(struct outbound_call *c);

static void outbound_note_failure(struct outbound_call *c, const struct ip *ip, int sys)
{
	char text[IP_TEXT_MAX];

	ip_format(ip, text);
	errno = sys;
	(void)err_sys(&c->failed, "cannot connect to %s port %u", text, c->port);
}

static void on_attempt(struct loop_fd *f, uint32_t events);

/* 0: in progress. -1: failed, with errno. */
static int outbound_begin_attempt(struct outbound_call *c, struct attempt *a)
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
	if (loop_add(outbound_loop_of(c), &a->watch, fd, EPOLLOUT, &e) < 0)
		return -1;
	a->fd = TAKE_FD(fd);
	c->trying++;
	return 0;
}

static void outbound_try_next(struct outbound_call *c)
{
	const struct outbound_judge judge = outbound_judge_of(c);

	while (c->next < c->nips) {
		struct attempt *a = &c->attempts[c->next];

		*a = (struct attempt){ .call = c,
				       .fd = -1,
				       .ip = c->ips[c->next++],
				       .watch = { .fd = -1, .on_ready = on_attempt, .arg = a } };
		if (!outbound_judge(&judge, &a->ip, &c->denied))
			continue;
		if (outbound_begin_attempt(c, a) < 0) {
			outbound_note_failure(c, &a->ip, errno);
			continue;
		}
		if (c->next < c->nips)
			loop_timer_set(outbound_loop_of(c), &c->stagger,
				       clock_now_ns() + STAGGER_NS);
		return;
	}
	if (c->trying == 0)
		outbound_give_up(c);
}

static void on_stagger(struct loop_timer *t)
{
	outbound_try_next(t->arg);
}

/* Continue with the proxy, as far as the socket allows now. */
static void outbound_advance_socks(struct outbound_call *c)
{
	uint32_t events;
	char text[IP_TEXT_MAX];
	struct err e;
	int made = outbound_socks_go(&c->socks, c->winner->fd, &events, &e);

	if (made < 0) {
		ip_format(&c->winner->ip, text);
		(void)err_wrap(&e, "proxy %s", c->host[0] != '\0' ? c->host : text);
		outbound_fail(c, &e);
	} else if (made > 0) {
		outbound_succeed(c, c->winner);
	} else {
		loop_modify(outbound_loop_of(c), &c->winner->watch, events);
	}
}

static void outbound_win(struct outbound_call *c, struct attempt *a)
{
	loop_timer_cancel(outbound_loop_of(c), &c->stagger);
	for (size_t i = 0; i < c->next; i++) {
		if (&c->attempts[i] != a)
			outbound_drop(&c->attempts[i]);
	}
	if (!c->proxied) {
		outbound_succeed(c, a);
		return;
	}
	c->winner = a;
	outbound_advance_socks(c);
}

static void on_attempt(struct loop_fd *f, uint32_t events)
{
	struct attempt *a = f->arg;
	struct outbound_call *c = a->call;
	const struct outbound_judge judge = outbound_judge_of(c);
	socklen_t n = sizeof(int);
	int sys = 0;

	if (c->winner) {
		outbound_advance_socks(c);
		return;
	}
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
		sys = errno;
	if (sys == 0 && outbound_judge_made(&judge, a->fd, &a->ip, &c->denied)) {
		outbound_win(c, a);
		return;
	}
	if (sys != 0)
		outbound_note_failure(c, &a->ip, sys);
	outbound_drop(a);
	outbound_try_next(c);
}

/* ---- beginning */

static void on_lookup(struct lookup *l, const struct ip *ips, size_t n, const struct err *e)
{
	struct outbound_call *c = l->arg;
	struct outbound_judge judge;

	if (n == 0) {
		outbound_fail(c, e);
		return;
	}
	memcpy(c->ips, ips, n * sizeof(*ips));
	c->nips = n;
	judge = outbound_judge_of(c);
	if (outbound_judge_all(&judge, c->ips, n, &c->denied))
		outbound_try_next(c);
	else
		outbound_give_up(c);
}

static void on_begin(struct loop_task *t)
{
	struct outbound_call *c = t->arg;

	if (c->failed.code != ERR_NONE || c->denied.code != ERR_NONE)
		outbound_give_up(c);
	else if (c->host[0] != '\0')
		resolver_lookup(c->from.resolver, c->host, &c->lookup);
	else
		outbound_try_next(c);
}

/* host: a name, or an address in text form. NULL: ip is used. */
static void outbound_set_endpoint(struct outbound_call *c, const char *host, const struct ip *ip,
				  uint16_t port, enum policy_layer below)
{
	c->port = port;
	c->below = below;
	if (host && ip_read(host, strlen(host), &c->ips[0]) == 0)
		c->nips = 1;
	else if (host)
		str_copy(c->host, host);
	else
		c->ips[c->nips++] = *ip;
}

/* The proxy connects from wherever it is: it must not be asked for an address that egress itself
 * may not reach. */
static void outbound_set_proxy_endpoint(struct outbound_call *c, const struct policy_proxy *proxy,
					const struct policy_target *to)
{
	/* the rules for addresses were asked already */
	const struct outbound_judge judge = outbound_judge_of(c);

	if (!to->host && !outbound_judge(&judge, &to->ip, &c->denied))
		return;
	c->proxied = true;
	if (outbound_socks_init(&c->socks, proxy, to, &c->failed) == 0)
		outbound_set_endpoint(c, proxy->host, NULL, proxy->port, proxy->layer);
}

void outbound_start(const struct outbound_from *from, const struct policy_target *to,
		    struct outbound *o)
{
	const struct policy_proxy *proxy = policy_proxy(*from->policy);
	struct outbound_call *c = calloc(1, sizeof(*c));

	if (!c)
		abort(); /* as the loop does: without it the caller would wait forever */
	c->from = *from;
	c->out = o;
	for (size_t i = 0; i < COUNT(c->attempts); i++)
		c->attempts[i].fd = c->attempts[i].watch.fd = -1;
	c->lookup = (struct lookup){ .on_done = on_lookup, .arg = c, .owner = from->lookups };
	c->stagger = (struct loop_timer){ .on_expire = on_stagger, .arg = c };
	c->begin = (struct loop_task){ .on_run = on_begin, .arg = c };
	o->call = c;
	if (proxy && proxy->host)
		outbound_set_proxy_endpoint(c, proxy, to);
	else
		outbound_set_endpoint(c, to->host, &to->ip, to->port,
				      to->host ? POLICY_LAYERS : POLICY_NODE);
	o->connected = false;
	o->end.on_done = on_end;
	o->end.arg = o;
	completion_begin(&o->end, outbound_loop_of(c), NULL);
	completion_set_deadline(&o->end, LIFE_MS, "connection to the server");
	loop_defer(outbound_loop_of(c), &c->begin);
}

void outbound_cancel(struct outbound *o)
{
	completion_cancel(&o->end);
	if (o->call)
		outbound_free_call(o->call);
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
