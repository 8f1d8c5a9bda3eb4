/* export_socket.c - items as messages of RFC 5424 over UDP, TCP or a Unix socket.
 *
 * Syslog has no answer. Over a stream the items count as sent when the receiver's kernel has all
 * bytes (TCP) or its program has read them (Unix). A connection that ends before that is made
 * again, and the items are sent again. */
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cmd/client/export_sink.h"
#include "cmd/client/export_syslog.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/str.h"

#define WAIT_S 30 /* for one write, and for the receiver to have it */

static void socket_release(struct export_sink *s)
{
	fd_close(s->fd);
	s->fd = -1;
}

/* Connect with a bound on each write. On failure errno has the reason, and s->fd stays -1. */
static int socket_make(struct export_sink *s, int family, int type, const struct sockaddr *to,
		       socklen_t len)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	int fd = socket(family, type | SOCK_CLOEXEC, 0), why;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, to, len) == 0) {
		s->fd = fd;
		return 0;
	}
	why = errno;
	fd_close(fd);
	errno = why;
	return -1;
}

/* Datagrams first, as syslog(3) does. A stream socket refuses them with EPROTOTYPE. */
static int connect_unix(struct export_sink *s, const char *path, struct err *e)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(to.sun_path))
		return err_set(e, ERR_INVALID, "--syslog: the path is too long");
	memcpy(to.sun_path, path, strlen(path));
	s->datagrams = true;
	if (socket_make(s, AF_UNIX, SOCK_DGRAM, (struct sockaddr *)&to, sizeof(to)) == 0)
		return 0;
	s->datagrams = false;
	if (errno == EPROTOTYPE &&
	    socket_make(s, AF_UNIX, SOCK_STREAM, (struct sockaddr *)&to, sizeof(to)) == 0)
		return 0;
	return err_sys(e, "%.150s", s->address);
}

/* "HOST:PORT", "[::1]:PORT". */
static bool export_socket_split(const char *text, char host[256], char port[16])
{
	const char *colon = strrchr(text, ':');
	size_t n = colon == NULL ? 0 : (size_t)(colon - text);

	if (n > 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (n == 0 || n > 255 || strlen(colon + 1) > 5 || strlen(colon + 1) == 0 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	(void)snprintf(host, 256, "%.*s", (int)n, text);
	str_copy_to(port, 16, colon + 1);
	return true;
}

/* The addresses in the resolver's order, until one connects. */
static int connect_host(struct export_sink *s, const char *text, struct err *e)
{
	const struct addrinfo hints = { .ai_socktype = s->datagrams ? SOCK_DGRAM : SOCK_STREAM };
	struct addrinfo *list = NULL;
	char host[256], port[16];
	int got;

	if (!export_socket_split(text, host, port))
		return err_set(e, ERR_INVALID, "--syslog: %.100s: not HOST:PORT", text);
	got = getaddrinfo(host, port, &hints, &list);
	if (got != 0)
		return err_set(e, ERR_SYSTEM, "%.100s: %s", s->address, gai_strerror(got));
	errno = ECONNREFUSED;
	for (const struct addrinfo *a = list; a != NULL && s->fd < 0; a = a->ai_next)
		(void)socket_make(s, a->ai_family, a->ai_socktype, a->ai_addr, a->ai_addrlen);
	got = errno;
	freeaddrinfo(list);
	errno = got;
	return s->fd < 0 ? err_sys(e, "%.150s", s->address) : 0;
}

/* The scheme was checked by export_socket_open(). */
static int socket_connect(struct export_sink *s, struct err *e)
{
	if (strncmp(s->address, "unix:", 5) == 0)
		return connect_unix(s, s->address + 5, e);
	s->datagrams = strncmp(s->address, "udp:", 4) == 0;
	return connect_host(s, s->address + 6, e);
}

/* A blocking write with a bound of WAIT_S. A write in part continues behind it. */
static int export_socket_put(struct export_sink *s, const void *data, size_t len, struct err *e)
{
	const uint8_t *at = data;

	while (len > 0) {
		ssize_t n = send(s->fd, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "%.150s", s->address);
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Wait until the other side has all bytes. A receiver that closes in between has perhaps not
 * read the last ones, so that is an error, and the items are sent again. Datagrams have no such
 * sign. */
static int socket_drain(struct export_sink *s, struct err *e)
{
	uint64_t end = clock_now_ns() + WAIT_S * 1000 * CLOCK_MS;
	const struct timespec pause = { .tv_nsec = 2000000 };
	char byte;
	int left = 1;

	while (!s->datagrams) {
		ssize_t n = recv(s->fd, &byte, 1, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return err_set(e, ERR_SYSTEM, "%.150s: the receiver closed the connection",
				       s->address);
		if (ioctl(s->fd, SIOCOUTQ, &left) < 0)
			return err_sys(e, "%.150s", s->address);
		if (left == 0)
			return 0;
		if (clock_now_ns() > end)
			return err_set(e, ERR_SYSTEM, "%.150s: the receiver does not read",
				       s->address);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* Over a stream each message has its length before it (RFC 6587), over datagrams it is alone. */
static int put_message(struct export_sink *s, const struct export_node *node,
		       const struct export_item *i, struct buf *b, struct err *e)
{
	char count[16];

	if (export_syslog_write(i, node->version,
				s->datagrams ? EXPORT_DATAGRAM_MAX : EXPORT_SYSLOG_MAX, b) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	(void)snprintf(count, sizeof(count), "%zu ", b->len);
	if (!s->datagrams && export_socket_put(s, count, strlen(count), e) < 0)
		return -1;
	return export_socket_put(s, buf_text(b), b->len, e);
}

/* A wrong address never becomes right, so it ends the export. Anything else is tried again with
 * a new connection. */
static int socket_send(struct export_sink *s, const struct export_node *node,
		       const struct export_item *items, size_t n, uint64_t *ret_wait_ms,
		       struct err *e)
{
	struct buf b = BUF_INIT((size_t)4 << 20);
	int done = s->fd < 0 ? socket_connect(s, e) : 0;

	for (size_t i = 0; i < n && done == 0; i++)
		done = put_message(s, node, &items[i], &b, e);
	if (done == 0)
		done = socket_drain(s, e);
	buf_release(&b);
	*ret_wait_ms = done < 0 && e->code == ERR_INVALID ? UINT64_MAX : 0;
	if (done < 0)
		socket_release(s);
	return done;
}

/* Connects at the first send. Only the form is checked here. */
int export_socket_open(struct export_sink *s, const char *address, struct err *e)
{
	*s = (struct export_sink){
		.send = socket_send, .release = socket_release, .fd = -1, .address = address
	};
	if (strncmp(address, "udp://", 6) != 0 && strncmp(address, "tcp://", 6) != 0 &&
	    strncmp(address, "unix:/", 6) != 0)
		return err_set(e, ERR_INVALID,
			       "--syslog: %.100s: must be udp://HOST:PORT, tcp://HOST:PORT or "
			       "unix:/PATH",
			       address);
	return 0;
}
