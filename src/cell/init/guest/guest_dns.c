#include "cell/init/guest/guest_dns.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "cell/init/guest/guest_stream.h"
#include "lib/base/list.h"

#define QUERY_MAX 4096
#define ANSWER_MAX 65535
#define DATAGRAMS_MAX 16 /* in one turn */
#define COPIES_MAX 16	 /* of refused datagrams that wait. More are not told */

/* Room for either kind of pktinfo. */
union guest_dns_control {
	uint64_t align; /* as struct cmsghdr */
	uint8_t bytes[256];
};

struct query {
	struct guest_stream stream; /* the first member */
	struct query *next, **link; /* list.h: the oldest first */
	int fd;			    /* borrowed, never -1: of egress_listener.h */
	uint16_t number;
	struct sockaddr_storage client;
	socklen_t client_len;
	union guest_dns_control from; /* the asked address, as control data of the answer */
	size_t from_len;
	bool answering; /* the bytes are those of the answer, not of the query */
	bool is_copy;	/* of a refused datagram: no answer comes */
	size_t at, len; /* at: how much of the query was sent */
	uint8_t *bytes; /* owned: behind their length */
};

static struct query *oldest, **newest = &oldest;
static unsigned nqueries, ncopies; /* in the list: of both kinds, and copies */

static void guest_dns_free_query(struct query *q)
{
	LIST_REMOVE_FROM(&newest, q);
	nqueries--;
	ncopies -= q->is_copy;
	free(q->bytes);
	free(q);
}

void guest_dns_drop(void)
{
	while (oldest != NULL)
		guest_dns_free_query(oldest);
}

bool guest_dns_set_address(struct mux_open *open, const struct sockaddr *at)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at;

	memset(open->address, 0, sizeof(open->address));
	if (at->sa_family == AF_INET) {
		open->family = 4;
		open->port = ntohs(v4->sin_port);
		memcpy(open->address, &v4->sin_addr, 4);
	} else if (at->sa_family == AF_INET6) {
		bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);

		open->family = mapped ? 4 : 6;
		open->port = ntohs(v6->sin6_port);
		memcpy(open->address, v6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
	}
	return open->family != 0 && open->port != 0;
}

static ssize_t guest_dns_fill(struct guest_stream *s, uint8_t *to, size_t max)
{
	struct query *q = (struct query *)s;
	size_t left = q->answering ? 0 : q->len - q->at, n = left < max ? left : max;

	memcpy(to, q->bytes + q->at, n);
	q->at += n;
	return (ssize_t)n;
}

static void guest_dns_answer(const struct query *q)
{
	struct iovec bytes = { q->bytes + 2, q->len - 2 };
	union guest_dns_control from = q->from;
	struct sockaddr_storage client = q->client;
	struct msghdr m = { .msg_name = &client,
			    .msg_namelen = q->client_len,
			    .msg_iov = &bytes,
			    .msg_iovlen = 1,
			    .msg_control = q->from_len > 0 ? &from : NULL,
			    .msg_controllen = (socklen_t)q->from_len };

	/* If it cannot be sent it is lost: the program asks again. */
	(void)sendmsg(q->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Add a piece of the answer. True when it is complete or of no use. */
static bool on_answer(struct query *q, const struct mux_event *v)
{
	if (!q->answering) { /* the first piece */
		uint8_t *more = q->at < q->len ? NULL : realloc(q->bytes, ANSWER_MAX + 2);

		if (more == NULL) /* or the query was not sent yet */
			return true;
		q->bytes = more;
		q->answering = true;
		q->at = q->len = 0;
	}
	if (v->len > ANSWER_MAX + 2 - q->len)
		return true;
	memcpy(q->bytes + q->len, v->bytes, v->len);
	q->len += v->len;
	if (q->len < 2 || q->len < 2 + (size_t)(q->bytes[0] << 8 | q->bytes[1]))
		return false;
	guest_dns_answer(q);
	return true;
}

static void on_event(struct guest_stream *s, struct mux *m, const struct mux_event *v)
{
	struct query *q = (struct query *)s;

	if (v->kind == MUX_ON_OPENED) {
		mux_want(m, v->number);
		return;
	}
	if (v->kind == MUX_ON_DATA && !q->is_copy && !on_answer(q, v))
		return;
	if (v->kind == MUX_ON_NOTHING)
		return;
	if (v->kind != MUX_ON_RESET)
		mux_reset(m, v->number, 0);
	guest_dns_free_query(q);
}

/* CMSG_NXTHDR() of musl converts signs. */
static struct cmsghdr *guest_dns_next_control(const struct msghdr *m, struct cmsghdr *c)
{
	uint8_t *at = (uint8_t *)c + CMSG_SPACE(c->cmsg_len - CMSG_LEN(0));
	uint8_t *end = (uint8_t *)m->msg_control + m->msg_controllen;

	return at + sizeof(*c) <= end ? (void *)at : NULL;
}

/* The asked address. It is also kept as control data for the answer, without the interface: there
 * is only one. */
static bool guest_dns_take_pktinfo(struct query *q, struct msghdr *got, in_port_t port,
				   struct mux_open *open)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = port };
	struct in6_pktinfo info;
	struct msghdr out = { .msg_control = &q->from, .msg_controllen = sizeof(q->from) };
	struct cmsghdr *c = CMSG_FIRSTHDR(got), *w = CMSG_FIRSTHDR(&out);

	while (c != NULL && (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_PKTINFO))
		c = guest_dns_next_control(got, c);
	if (c == NULL || c->cmsg_len != CMSG_LEN(sizeof(info)))
		return false;
	memcpy(&info, CMSG_DATA(c), sizeof(info));
	info.ipi6_ifindex = 0;
	*w = (struct cmsghdr){ .cmsg_level = IPPROTO_IPV6,
			       .cmsg_type = IPV6_PKTINFO,
			       .cmsg_len = CMSG_LEN(sizeof(info)) };
	memcpy(CMSG_DATA(w), &info, sizeof(info));
	q->from_len = CMSG_SPACE(sizeof(info));
	at.sin6_addr = info.ipi6_addr;
	return guest_dns_set_address(open, (const struct sockaddr *)&at);
}

static struct query *guest_dns_find_oldest(void)
{
	struct query *q = oldest;

	while (q->is_copy)
		q = q->next;
	return q;
}

/* bytes NULL: the length alone. */
static struct query *guest_dns_new_query(int fd, const uint8_t *bytes, size_t n)
{
	struct query *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->stream = (struct guest_stream){ guest_dns_fill, NULL, on_event };
	q->fd = fd;
	q->bytes = malloc(bytes == NULL ? 2 : n + 2);
	if (q->bytes == NULL) {
		free(q);
		return NULL;
	}
	q->bytes[0] = (uint8_t)(n >> 8);
	q->bytes[1] = (uint8_t)n;
	if (bytes != NULL)
		memcpy(q->bytes + 2, bytes, n);
	q->len = 2 + (bytes == NULL ? 0 : n);
	LIST_APPEND(&newest, q);
	nqueries++;
	return q;
}

static void guest_dns_ask(struct mux *m, struct query *q, struct msghdr *got, in_port_t port)
{
	struct mux_open open = { .kind = MUX_DNS, .credit = ANSWER_MAX + 2 };

	memcpy(&q->client, got->msg_name, sizeof(q->client));
	q->client_len = got->msg_namelen;
	if (guest_dns_take_pktinfo(q, got, port, &open))
		q->number = mux_open(m, &open, q);
	if (q->number == 0)
		guest_dns_free_query(q);
}

/* A copy that packet rules made of a refused datagram (tools/gen-cell-network): it has no source
 * address. Its source port is the port that the program wanted. */
static bool guest_dns_is_copy(const struct sockaddr_storage *from, in_port_t *ret_port)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)from;
	static const uint8_t no_v4[16] = { [10] = 0xff, [11] = 0xff };

	*ret_port = v6->sin6_port;
	return from->ss_family == AF_INET6 && (IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ||
					       memcmp(&v6->sin6_addr, &no_v4, sizeof(no_v4)) == 0);
}

/* The shim learns the length of a refused datagram, not its bytes. It sends one of this length in
 * the cell, whose kernel refuses and copies it again: cordon-egress records it. */
static void guest_dns_tell_copy(struct mux *m, int fd, struct msghdr *got, size_t n, in_port_t port)
{
	struct query *q;

	if (ncopies >= COPIES_MAX || n > UINT16_MAX || port == htons(53))
		return;
	q = guest_dns_new_query(fd, NULL, n);
	if (q == NULL)
		return;
	q->is_copy = true;
	ncopies++;
	guest_dns_ask(m, q, got, port);
}

/* False: no datagram is queued. */
static bool guest_dns_take_one(struct mux *m, int fd)
{
	uint8_t bytes[QUERY_MAX];
	struct sockaddr_storage client = { 0 };
	union guest_dns_control control = { 0 };
	struct iovec io = { bytes, sizeof(bytes) };
	struct msghdr got = { .msg_name = &client,
			      .msg_namelen = sizeof(client),
			      .msg_iov = &io,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	/* MSG_TRUNC: the length of the datagram, also if it is longer than its place. */
	ssize_t n = recvmsg(fd, &got, MSG_DONTWAIT | MSG_TRUNC);
	struct query *q;
	in_port_t port;

	if (n < 0)
		return false;
	if (guest_dns_is_copy(&client, &port)) {
		guest_dns_tell_copy(m, fd, &got, (size_t)n, port);
		return true;
	}
	if (n == 0 || (got.msg_flags & MSG_TRUNC) != 0 || got.msg_namelen == 0)
		return true;
	if (nqueries - ncopies >= GUEST_DNS_MAX) {
		q = guest_dns_find_oldest();
		mux_reset(m, q->number, 0);
		guest_dns_free_query(q);
	}
	q = guest_dns_new_query(fd, bytes, (size_t)n);
	if (q != NULL)
		guest_dns_ask(m, q, &got, htons(53));
	return true;
}

void guest_dns_on_queries(struct mux *m, int fd)
{
	for (unsigned i = 0; i < DATAGRAMS_MAX && guest_dns_take_one(m, fd); i++)
		;
}
