#include "cell/shim/egress_open.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "cell/shim/carrier.h"
#include "cell/shim/dns_ask.h"
#include "cell/shim/shim.h"
#include "cell/shim/streams.h"
#include "lib/base/io.h"
#include "lib/wire/owner_msg.h"

/* Answers cordon-egress's questions which program made a connection (owner_msg.h). The connections
 * of a guest are the shim's own, and the guest's agent said for which program each one is. The shim
 * does not know it of a guest in the cell's network. Called by requests.c. */

#define QUESTIONS 64 /* in a turn */

static int questions = -1;
static struct loop_fd questions_ready = { .fd = -1 };

static void egress_open_answer_owner(const struct owner_question *q)
{
	uint64_t mark = egress_open_mark(q->from_port);
	struct owner_answer a = { .id = q->id, .result = OWNER_FOUND, .mark = mark };

	if (mark == 0 || mark > OWNER_MARK_MAX) {
		a.mark = 0;
		a.result = shim_shares_network ? OWNER_UNSUPPORTED : OWNER_GONE;
	}
	IGNORED(send(questions, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL),
		"an answer may be lost");
}

static void on_question(struct loop_fd *f, uint32_t events)
{
	uint8_t bytes[sizeof(struct owner_question) + 1];
	struct owner_question q;
	struct err e;

	for (int i = 0; i < QUESTIONS; i++) {
		ssize_t n = recv(questions, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n < 0)
			return;
		if (n == 0) {
			egress_open_answer_owners(-1);
			return;
		}
		if (owner_question_read(bytes, (size_t)n, &q, &e) == 0)
			egress_open_answer_owner(&q);
	}
}

void egress_open_answer_owners(int fd)
{
	struct err e;

	loop_remove(shim_loop, &questions_ready);
	io_close_all(&questions, 1);
	questions = fd;
	questions_ready.on_ready = on_question;
	if (fd >= 0 && loop_add(shim_loop, &questions_ready, fd, EPOLLIN, &e) < 0)
		io_close_all(&questions, 1);
}

/* A connection: until it is established, and then for the mark. */
struct connection {
	bool used;
	uint16_t number;
	uint16_t local_port;
	uint64_t mark;
	bool got_eof; /* before it was established */
	int fd;	      /* until it is established, then the stream's */
	struct loop_fd ready;
	struct stream *stream;
};

static struct connection connections[EGRESS_OPEN_MAX];

/* NULL: the guest has as many connections as it may have. */
static struct connection *egress_open_find_free(void)
{
	for (size_t i = 0; i < EGRESS_OPEN_MAX; i++)
		if (!connections[i].used)
			return &connections[i];
	return NULL;
}

static socklen_t egress_open_fill_address(const struct mux_open *o, struct sockaddr_storage *ret)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(o->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(o->port) };

	if (o->family == 4) {
		memcpy(&v4.sin_addr, o->address, 4);
		memcpy(ret, &v4, sizeof(v4));
		return sizeof(v4);
	}
	memcpy(&v6.sin6_addr, o->address, 16);
	memcpy(ret, &v6, sizeof(v6));
	return sizeof(v6);
}

/* Loopback, "any address", and IPv4 addresses written as IPv6 ones. */
static bool egress_open_is_own(const struct mux_open *o)
{
	struct in6_addr v6;

	if (o->family == 4)
		return o->address[0] == 127 || o->address[0] == 0;
	memcpy(&v6, o->address, sizeof(v6));
	return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) ||
	       IN6_IS_ADDR_V4MAPPED(&v6) || IN6_IS_ADDR_V4COMPAT(&v6);
}

static void egress_open_release(struct connection *c)
{
	loop_remove(shim_loop, &c->ready);
	io_close_all(&c->fd, 1);
	c->used = false;
}

static void egress_open_refuse(struct connection *c, int sys)
{
	mux_reset(&carrier_mux, c->number, sys);
	egress_open_release(c);
	shim_wake();
}

static void on_end(struct stream *s)
{
	egress_open_release(s->arg);
}

static void on_connected(struct connection *c)
{
	int fd = TAKE_FD(c->fd);

	loop_remove(shim_loop, &c->ready);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	c->stream = stream_new(fd, MUX_BOTH, true);
	if (c->stream == NULL) {
		egress_open_refuse(c, ENOMEM);
		return;
	}
	c->stream->on_end = on_end;
	c->stream->arg = c;
	mux_answer(&carrier_mux, c->number, MUX_WINDOW);
	stream_join(c->stream, c->number);
	if (c->got_eof)
		stream_on_eof(c->stream);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct connection *c = f->arg;
	int sys = 0;
	socklen_t len = sizeof(sys);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
		sys = errno;
	if (sys != 0)
		egress_open_refuse(c, sys);
	else
		on_connected(c);
}

static void egress_open_note_port(struct connection *c)
{
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);

	if (getsockname(c->fd, (struct sockaddr *)&at, &len) == 0)
		c->local_port = ntohs(at.sin6_port); /* at the same place in both families */
}

static void egress_open_connect(struct connection *c, const struct mux_open *o)
{
	struct sockaddr_storage to;
	socklen_t len = egress_open_fill_address(o, &to);
	struct err e;

	c->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0) {
		egress_open_refuse(c, errno);
		return;
	}
	if (connect(c->fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS) {
		egress_open_refuse(c, errno);
		return;
	}
	egress_open_note_port(
		c); /* cordon-egress may ask about it before this end knows that it is there */
	if (loop_add(shim_loop, &c->ready, c->fd, EPOLLOUT, &e) < 0)
		egress_open_refuse(c, ENOMEM);
}

void egress_open_begin(uint16_t number, const struct mux_open *o)
{
	struct connection *c = egress_open_find_free();

	shim_wake();
	if (o->kind == MUX_DNS) {
		dns_ask_begin(number, o, egress_open_is_own(o));
		return;
	}
	if (c == NULL || egress_open_is_own(o)) {
		mux_reset(&carrier_mux, number, c == NULL ? EAGAIN : ECONNREFUSED);
		return;
	}
	*c = (struct connection){ .used = true, .number = number, .mark = o->mark, .fd = -1 };
	c->ready = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = c };
	egress_open_connect(c, o);
}

/* The connection in progress with this number. NULL: none. */
static struct connection *egress_open_find_pending(uint16_t number)
{
	for (size_t i = 0; i < EGRESS_OPEN_MAX; i++)
		if (connections[i].used && connections[i].fd >= 0 &&
		    connections[i].number == number)
			return &connections[i];
	return NULL;
}

void egress_open_on_early(uint16_t number, bool is_reset)
{
	struct connection *c = egress_open_find_pending(number);

	if (c == NULL)
		return;
	if (is_reset)
		egress_open_release(c);
	else
		c->got_eof = true;
}

void egress_open_drop_all(void)
{
	for (size_t i = 0; i < EGRESS_OPEN_MAX; i++)
		if (connections[i].used && connections[i].fd >= 0)
			egress_open_release(&connections[i]);
}

uint64_t egress_open_mark(uint16_t local_port)
{
	for (size_t i = 0; i < EGRESS_OPEN_MAX; i++)
		if (connections[i].used && connections[i].local_port == local_port)
			return connections[i].mark;
	return 0;
}
