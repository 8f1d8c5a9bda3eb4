/* resolver_query.c - theory of operation
 *
 * A reply is believed because of: a new, connected socket for every attempt, so that the kernel
 * chooses a random port and drops datagrams of other senders. A random id, and a question in random
 * case ("0x20") that must come back byte for byte. Other datagrams are ignored. Only a reply that
 * matches but for the case is treated otherwise: some servers do not keep the case, so the same is
 * asked over TCP, where a reply cannot be guessed.
 *
 * EDNS is not offered: a reply of more than 512 bytes is rare, and comes over TCP then, so that
 * nothing is ever assembled from IP fragments.
 *
 * Every step of a query begins in its timer, never inside resolver_query_new(). */
#include "lib/outbound/resolver_query.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/rand.h"
#include "lib/policy/host.h"

#define PORT 53
#define SILENT_NS (30000 * CLOCK_MS)
#define DATAGRAMS 16	/* read in one turn of the loop */
#define REPLY_MAX 16384 /* over TCP */

struct resolver_query {
	struct loop *loop;
	struct resolver_servers *servers;
	struct resolver_conf conf; /* copied when the query began */
	size_t order[RESOLVER_CONF_SERVERS];
	char host[HOST_MAX]; /* the name, or the one it is an alias of */
	uint16_t type;
	unsigned hops;
	uint32_t ttl; /* the lowest of the aliases so far */
	resolver_query_fn *on_done;
	void *arg;

	unsigned tries; /* attempts so far */
	bool tcp;	/* the present attempt, or the next, uses TCP */
	bool again;	/* the next attempt is at the same server */
	int sys;	/* errno of the last failure */
	int fd;		/* owned. -1: none */
	struct loop_fd watch;
	struct loop_timer timer; /* of the attempt, or until the next one */
	uint8_t out[2 + DNS_MSG_QUERY_MAX];
	size_t nout, sent; /* includes the two bytes of length of TCP */
	uint8_t *in;	   /* owned. TCP only */
	size_t nin;
};

/* Close the socket of the attempt. The timer stays. */
static void query_end_try(struct resolver_query *q)
{
	loop_remove(q->loop, &q->watch);
	if (q->fd >= 0)
		fd_close(q->fd);
	q->fd = -1;
	free(q->in);
	q->in = NULL;
	q->nin = 0;
}

/* The next attempt begins in the timer, never here. */
static void query_try_later(struct resolver_query *q, int sys)
{
	query_end_try(q);
	q->sys = sys;
	loop_timer_set(q->loop, &q->timer, clock_now_ns());
}

static void query_try_tcp(struct resolver_query *q)
{
	q->tcp = q->again = true;
	query_try_later(q, EPROTO);
}

static const struct ip *query_server(const struct resolver_query *q)
{
	return &q->conf.servers[q->order[(q->tries - 1) % q->conf.nservers]];
}

/* The order of later queries has this server last for a while. */
static void query_note_silence(struct resolver_query *q)
{
	struct resolver_servers *s = q->servers;

	for (size_t i = 0; i < s->conf.nservers; i++) {
		if (ip_same(&s->conf.servers[i], query_server(q)))
			s->silent_until_ns[i] = clock_now_ns() + SILENT_NS;
	}
}

/* ---- replies
 *
 * A reply either ends the query, or begins another attempt: over TCP, at the next server, or for
 * the name that an alias led to. */

/* The callback may free the query, so nothing follows it. */
static void query_finish(struct resolver_query *q, const struct dns_msg_reply *reply, int sys)
{
	query_end_try(q);
	loop_timer_cancel(q->loop, &q->timer);
	q->on_done(q->arg, reply, sys);
}

/* The name is an alias of one that the server did not resolve: asks for that. */
static int query_follow_alias(struct resolver_query *q, const struct dns_msg_reply *r)
{
	char host[HOST_MAX];

	if (q->hops > DNS_MSG_HOPS || host_normal(r->alias, strlen(r->alias), host) < 0)
		return -1;
	memcpy(q->host, host, sizeof(host));
	q->tries = 0;
	q->tcp = q->conf.use_vc;
	query_try_later(q, 0);
	return 0;
}

static void query_take_reply(struct resolver_query *q, struct dns_msg_reply *r)
{
	if (r->truncated) {
		if (q->tcp)
			query_try_later(q, EPROTO);
		else
			query_try_tcp(q);
		return;
	}
	if (r->rcode != DNS_MSG_OK && r->rcode != DNS_MSG_NXDOMAIN) {
		query_try_later(q, EREMOTEIO);
		return;
	}
	q->hops += r->hops;
	if (r->ttl > q->ttl)
		r->ttl = q->ttl;
	q->ttl = r->ttl;
	if (r->rcode == DNS_MSG_OK && r->n == 0 && r->alias[0] != '\0' && !r->negative &&
	    query_follow_alias(q, r) == 0)
		return;
	query_finish(q, r, 0);
}

/* ---- UDP */

/* 0: keep waiting. 1: the query has moved on, and may be freed. */
static int query_read_datagram(struct resolver_query *q)
{
	uint8_t msg[4096];
	struct dns_msg_reply reply;
	ssize_t n = recv(q->fd, msg, sizeof(msg), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0) {
		query_try_later(q, errno); /* no server at that port */
		return 1;
	}
	switch (dns_msg_read_reply(msg, (size_t)n, q->out + 2, q->nout - 2, &reply)) {
	case DNS_MSG_OTHER:
		return 0;
	case DNS_MSG_RESPELT:
		query_try_tcp(q);
		return 1;
	case DNS_MSG_ANSWER:
		break;
	}
	query_take_reply(q, &reply);
	return 1;
}

static void on_datagram(struct loop_fd *f, uint32_t events)
{
	for (int i = 0; i < DATAGRAMS; i++) {
		if (query_read_datagram(f->arg) > 0)
			return;
	}
}

/* ---- TCP */

/* 0: sent, or waits for room. -1: failed. */
static int query_send_query(struct resolver_query *q)
{
	while (q->sent < q->nout) {
		ssize_t n = send(q->fd, q->out + q->sent, q->nout - q->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return -1;
		q->sent += (size_t)n;
	}
	loop_modify(q->loop, &q->watch, EPOLLIN);
	return 0;
}

/* 1: the reply is complete. */
static int query_receive_reply(struct resolver_query *q)
{
	for (;;) {
		size_t want = q->nin < 2 ? 2 : 2 + ((size_t)q->in[0] << 8 | q->in[1]);
		ssize_t n;

		if (q->nin >= 2 && q->nin == want)
			return 1;
		if (want > REPLY_MAX) {
			errno = EMSGSIZE;
			return -1;
		}
		n = recv(q->fd, q->in + q->nin, want - q->nin, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return -1;
		q->nin += (size_t)n;
	}
}

/* Over TCP the reply comes from the server itself, so its case is not checked. */
static enum dns_msg_match query_read_stream(struct resolver_query *q, struct dns_msg_reply *ret)
{
	const uint8_t *query = q->out + 2;
	size_t n = q->nout - 2;
	enum dns_msg_match match = dns_msg_read_reply(q->in + 2, q->nin - 2, query, n, ret);

	if (match != DNS_MSG_RESPELT)
		return match;
	memcpy(q->in + 2 + DNS_MSG_HEAD, query + DNS_MSG_HEAD, n - DNS_MSG_HEAD);
	return dns_msg_read_reply(q->in + 2, q->nin - 2, query, n, ret);
}

static void on_stream(struct loop_fd *f, uint32_t events)
{
	struct resolver_query *q = f->arg;
	struct dns_msg_reply reply;
	int got = q->sent < q->nout ? query_send_query(q) : query_receive_reply(q);

	if (got < 0)
		query_try_later(q, errno);
	else if (got == 0)
		return;
	else if (query_read_stream(q, &reply) == DNS_MSG_ANSWER)
		query_take_reply(q, &reply);
	else
		query_try_later(q, EPROTO);
}

/* ---- attempts
 *
 * tries counts the attempts of a name. It tells the server, and after conf.attempts at each server
 * the query fails with the last error. */

static void query_compose(struct resolver_query *q)
{
	uint8_t mix[32];
	uint16_t id;
	size_t n;

	rand_bytes(mix, sizeof(mix));
	rand_bytes(&id, sizeof(id));
	n = dns_msg_ask(q->out + 2, id, q->host, q->type, mix);
	q->out[0] = (uint8_t)(n >> 8);
	q->out[1] = (uint8_t)n;
	q->nout = n > 0 ? n + 2 : 0;
	q->sent = 0;
}

static int query_open_socket(struct resolver_query *q)
{
	struct sockaddr_storage to;
	socklen_t n = ip_to_sockaddr(query_server(q), PORT, &to);
	int type = (q->tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
	struct err e;

	q->fd = socket(to.ss_family, type, 0);
	if (q->fd < 0)
		return -1;
	if (connect(q->fd, (const struct sockaddr *)&to, n) < 0 && errno != EINPROGRESS)
		return -1;
	q->watch.on_ready = q->tcp ? on_stream : on_datagram;
	if (loop_add(q->loop, &q->watch, q->fd, q->tcp ? EPOLLOUT : EPOLLIN, &e) < 0)
		return -1;
	if (q->tcp) {
		q->in = malloc(REPLY_MAX);
		return q->in ? 0 : -1;
	}
	q->sent = q->nout;
	return send(q->fd, q->out + 2, q->nout - 2, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Each server is asked once in turn, until each had its attempts. TCP after UDP at one server is
 * part of the same attempt. */
static void query_begin_try(struct resolver_query *q)
{
	if (q->again) {
		q->again = false;
	} else {
		if (q->tries == q->conf.attempts * q->conf.nservers) {
			query_finish(q, NULL, q->sys);
			return;
		}
		q->tries++;
		q->tcp = q->conf.use_vc;
	}
	query_compose(q);
	if (query_open_socket(q) < 0) {
		query_try_later(q, errno);
		return;
	}
	loop_timer_set(q->loop, &q->timer, clock_now_ns() + q->conf.timeout_ms * CLOCK_MS);
}

static void on_timer(struct loop_timer *t)
{
	struct resolver_query *q = t->arg;

	if (q->fd >= 0) {
		query_note_silence(q);
		query_end_try(q);
		q->sys = ETIMEDOUT;
	}
	query_begin_try(q);
}

/* Servers in order, those that did not answer lately last. */
static void query_choose_order(struct resolver_query *q)
{
	struct resolver_servers *s = q->servers;
	size_t count = q->conf.nservers, first = q->conf.rotate ? s->turn++ % count : 0, n = 0;
	uint64_t now = clock_now_ns();

	for (int silent = 0; silent < 2; silent++) {
		for (size_t i = 0; i < count; i++) {
			size_t at = (first + i) % count;

			if ((s->silent_until_ns[at] > now) == silent)
				q->order[n++] = at;
		}
	}
}

struct resolver_query *resolver_query_new(struct loop *l, struct resolver_servers *servers,
					  const char *host, uint16_t type,
					  resolver_query_fn *on_done, void *arg)
{
	size_t n = strlen(host);
	struct resolver_query *q;

	if (n == 0 || n >= HOST_MAX)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->loop = l;
	q->servers = servers;
	q->conf = servers->conf;
	memcpy(q->host, host, n + 1);
	q->type = type;
	q->ttl = INT32_MAX;
	q->on_done = on_done;
	q->arg = arg;
	q->fd = -1;
	q->watch = (struct loop_fd){ .fd = -1, .arg = q };
	q->timer = (struct loop_timer){ .on_expire = on_timer, .arg = q };
	query_choose_order(q);
	query_compose(q);
	if (q->nout == 0) {
		free(q);
		return NULL;
	}
	query_try_later(q, ETIMEDOUT);
	return q;
}

void resolver_query_free(struct resolver_query *q)
{
	if (!q)
		return;
	query_end_try(q);
	loop_timer_cancel(q->loop, &q->timer);
	free(q);
}
