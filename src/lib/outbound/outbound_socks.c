/* outbound_socks.c - the client side of SOCKS5. Messages are read in the exact sizes of the
 * protocol, so that bytes of the server behind the proxy stay in the socket. */
#include "lib/outbound/outbound_socks.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define VERSION 5
#define AUTH_VERSION 1
enum { METHOD_NONE = 0, METHOD_PASSWORD = 2, METHOD_REFUSED = 0xFF };
enum { TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4 };

/* The next message to read, and its exact size. Less is never handled, more is never read. */
static void socks_expect(struct outbound_socks *s, enum outbound_socks_step step, size_t want)
{
	s->step = step;
	s->want = want;
	s->nin = 0;
}

/* One message at a time: the proxy answers each before the next one is made. */
static void socks_queue_bytes(struct outbound_socks *s, const uint8_t *bytes, size_t n)
{
	memcpy(s->out, bytes, n);
	s->nout = n;
	s->sent = 0;
}

/* Length and text. Return the bytes used. Callers have refused texts of more than 255 bytes. */
static size_t socks_put_text(uint8_t *to, const char *text)
{
	size_t n = strnlen(text, 255);

	*to = (uint8_t)n;
	memcpy(to + 1, text, n);
	return n + 1;
}

static void socks_put_request(struct outbound_socks *s, const struct policy_target *to)
{
	uint8_t *at = s->request;

	*at++ = VERSION;
	*at++ = 1; /* CONNECT */
	*at++ = 0;
	if (to->host) {
		*at++ = TYPE_NAME;
		at += socks_put_text(at, to->host);
	} else {
		size_t skip = ip_is_v4(&to->ip) ? 12 : 0;

		*at++ = skip ? TYPE_V4 : TYPE_V6;
		memcpy(at, to->ip.b + skip, 16 - skip);
		at += 16 - skip;
	}
	*at++ = (uint8_t)(to->port >> 8);
	*at++ = (uint8_t)to->port;
	s->nrequest = (size_t)(at - s->request);
}

/* All messages are made here, so that no pointer to the policy is kept while the proxy is asked. */
int outbound_socks_init(struct outbound_socks *s, const struct policy_proxy *proxy,
			const struct policy_target *to, struct err *e)
{
	bool password = proxy->user && proxy->user[0] != '\0';
	const char *secret = proxy->password ? proxy->password : "";
	uint8_t hello[] = { VERSION, 1, METHOD_NONE, METHOD_PASSWORD };

	*s = (struct outbound_socks){ 0 };
	if ((password && strlen(proxy->user) > 255) || strlen(secret) > 255 ||
	    (to->host && strlen(to->host) > 255))
		return err_set(e, ERR_INVALID, "proxy %s: a name is too long for SOCKS5",
			       proxy->host);
	if (password) {
		s->auth[0] = AUTH_VERSION;
		s->nauth = 1 + socks_put_text(s->auth + 1, proxy->user);
		s->nauth += socks_put_text(s->auth + s->nauth, secret);
		hello[1] = 2;
	}
	socks_put_request(s, to);
	socks_queue_bytes(s, hello, 2U + hello[1]);
	socks_expect(s, OUTBOUND_SOCKS_METHOD, 2);
	return 0;
}

/* A proxy that asks for a password is only given one that the policy has. */
static int socks_take_method(struct outbound_socks *s, struct err *e)
{
	if (s->in[0] != VERSION)
		return err_set(e, ERR_SYSTEM, "the proxy does not speak SOCKS5");
	if (s->in[1] == METHOD_PASSWORD && s->nauth > 0) {
		socks_queue_bytes(s, s->auth, s->nauth);
		socks_expect(s, OUTBOUND_SOCKS_AUTH, 2);
		return 0;
	}
	if (s->in[1] == METHOD_REFUSED)
		return err_set(e, ERR_SYSTEM, "the proxy requires another authentication");
	if (s->in[1] != METHOD_NONE)
		return err_set(e, ERR_SYSTEM, "the proxy chose a method that was not offered");
	socks_queue_bytes(s, s->request, s->nrequest);
	socks_expect(s, OUTBOUND_SOCKS_HEAD, 5);
	return 0;
}

static int socks_take_auth(struct outbound_socks *s, struct err *e)
{
	if (s->in[0] != AUTH_VERSION || s->in[1] != 0)
		return err_set(e, ERR_SYSTEM, "the proxy rejected user and password");
	socks_queue_bytes(s, s->request, s->nrequest);
	socks_expect(s, OUTBOUND_SOCKS_HEAD, 5);
	return 0;
}

/* Head: version, reply, reserved, type, and the first byte of the address, which for a name is its
 * length. */
static int socks_take_head(struct outbound_socks *s, struct err *e)
{
	static const struct {
		int sys;
		const char *text;
	} replies[] = {
		[1] = { EIO, "general failure" },
		[2] = { EACCES, "not allowed by its rules" },
		[3] = { ENETUNREACH, "the network is unreachable" },
		[4] = { EHOSTUNREACH, "the host is unreachable" },
		[5] = { ECONNREFUSED, "the connection was refused" },
		[6] = { ETIMEDOUT, "timed out" },
		[7] = { EOPNOTSUPP, "command not supported" },
		[8] = { EAFNOSUPPORT, "address type not supported" },
	};
	uint8_t reply = s->in[1];
	size_t rest;

	if (s->in[0] != VERSION || s->in[2] != 0)
		return err_set(e, ERR_SYSTEM, "the proxy's reply is malformed");
	if (reply > 0) {
		bool known = reply < COUNT(replies);

		(void)err_set(e, ERR_SYSTEM, "the proxy answered: %s",
			      known ? replies[reply].text : "unknown error");
		e->sys = known ? replies[reply].sys : EIO;
		return -1;
	}
	switch (s->in[3]) {
	case TYPE_V4:
		rest = 3 + 2;
		break;
	case TYPE_V6:
		rest = 15 + 2;
		break;
	case TYPE_NAME:
		rest = s->in[4] + 2U;
		break;
	default:
		return err_set(e, ERR_SYSTEM, "the proxy's reply has an unknown address type");
	}
	socks_expect(s, OUTBOUND_SOCKS_REST, rest);
	return 0;
}

int outbound_socks_take(struct outbound_socks *s, struct err *e)
{
	switch (s->step) {
	case OUTBOUND_SOCKS_METHOD:
		return socks_take_method(s, e);
	case OUTBOUND_SOCKS_AUTH:
		return socks_take_auth(s, e);
	case OUTBOUND_SOCKS_HEAD:
		return socks_take_head(s, e);
	case OUTBOUND_SOCKS_REST: /* the proxy's source address: not used */
		socks_expect(s, OUTBOUND_SOCKS_DONE, 0);
		return 0;
	case OUTBOUND_SOCKS_DONE:
		return 0;
	}
	return -1;
}

/* 1: the message is complete. 0: more must come. */
static int socks_read_wanted(struct outbound_socks *s, int fd, struct err *e)
{
	while (s->nin < s->want) {
		ssize_t n = recv(fd, s->in + s->nin, s->want - s->nin, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return err_sys(e, "proxy");
		if (n == 0)
			return err_set(e, ERR_SYSTEM, "the proxy closed the connection");
		s->nin += (size_t)n;
	}
	return 1;
}

/* 1: all of it is sent. 0: the socket is full. */
static int socks_write_out(struct outbound_socks *s, int fd, struct err *e)
{
	while (s->sent < s->nout) {
		ssize_t n =
			send(fd, s->out + s->sent, s->nout - s->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return err_sys(e, "proxy");
		s->sent += (size_t)n;
	}
	return 1;
}

int outbound_socks_go(struct outbound_socks *s, int fd, uint32_t *ret_events, struct err *e)
{
	while (s->step != OUTBOUND_SOCKS_DONE) {
		int more = socks_write_out(s, fd, e);

		*ret_events = EPOLLOUT;
		if (more <= 0)
			return more;
		*ret_events = EPOLLIN;
		more = socks_read_wanted(s, fd, e);
		if (more <= 0)
			return more;
		if (outbound_socks_take(s, e) < 0)
			return -1;
	}
	return 1;
}

void outbound_socks_clear(struct outbound_socks *s)
{
	explicit_bzero(s, sizeof(*s));
}
