/* peer_user.c - theory of operation
 *
 * A Unix socket has SO_PEERCRED. For TCP, the other end is a socket of the same network namespace:
 * cordond's connections are made by PID 1 of the cell. The kernel lists it in /proc/self/net/tcp or
 * tcp6, with the two addresses of the connection the other way round. (sock_diag(7) would be
 * faster, but the filter of a cell refuses it.) The kernel walks a hash table of the whole machine
 * for it, which takes a millisecond or two. It stops when the requested structure is filled, so the
 * list is read line by line.
 *
 * The kernel says that a socket which no process has open any more is root's, with inode 0. A line
 * whose two numbers were read while the socket was being closed may have root and an inode. So the
 * list is read a second time: if the inode is still there, the first line was true. */
#include "incell/interpreter/peer_user.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/fd.h"
#include "lib/base/io.h"

#define TRIES 4 /* a list that changes while it is read may lack a line */
#define LIST_MAX (32U << 20)
#define LINE_LEN 150 /* in the list of IPv4 */
#define PIECE 1024
#define WORDS_MAX 128

struct sought {
	char ends[WORDS_MAX]; /* as the list has them */
	const char *list;
};

struct peer_user_found {
	unsigned uid;
	unsigned long inode; /* 0: not found */
};

/* ---- the search key */

static bool is_mapped(const struct sockaddr_in6 *a)
{
	return IN6_IS_ADDR_V4MAPPED(&a->sin6_addr);
}

static int get_end(int fd, int (*get)(int, struct sockaddr *, socklen_t *),
		   struct sockaddr_in6 *ret, struct err *e)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} a;
	socklen_t n = sizeof(a);

	memset(ret, 0, sizeof(*ret));
	if (get(fd, &a.any, &n) < 0)
		return err_sys(e, "the address of a connection");
	if (a.any.sa_family == AF_INET6) {
		*ret = a.six;
		return 0;
	}
	ret->sin6_port = a.four.sin_port;
	memset(ret->sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(ret->sin6_addr.s6_addr + 12, &a.four.sin_addr, 4);
	return 0;
}

/* Each 32 bits of the address are printed as a number of this machine. */
static int put_end(char *to, size_t cap, const struct sockaddr_in6 *a, bool four)
{
	uint32_t w[4];

	memcpy(w, &a->sin6_addr, sizeof(w));
	if (four)
		return snprintf(to, cap, "%08X:%04X ", w[3], ntohs(a->sin6_port));
	return snprintf(to, cap, "%08X%08X%08X%08X:%04X ", w[0], w[1], w[2], w[3],
			ntohs(a->sin6_port));
}

static struct sought sought_in(const struct sockaddr_in6 *peer, const struct sockaddr_in6 *own,
			       bool four)
{
	struct sought s = { .list = four ? "/proc/self/net/tcp" : "/proc/self/net/tcp6" };
	int n = put_end(s.ends, sizeof(s.ends), peer, four);

	(void)put_end(s.ends + n, sizeof(s.ends) - (size_t)n, own, four);
	return s;
}

/* ---- the list */

/* "  12: ENDS STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE ..." */
static bool read_line(const char *line, const char *ends, struct peer_user_found *ret)
{
	const char *at = strchr(line, ':');

	if (at == NULL || strncmp(at + 1, " ", 1) != 0 || strncmp(at + 2, ends, strlen(ends)) != 0)
		return false;
	/* NOLINTNEXTLINE(cert-err34-c): the kernel writes what fits */
	return sscanf(at + 2 + strlen(ends), "%*x %*x:%*x %*x:%*x %*x %u %*d %lu", &ret->uid,
		      &ret->inode) == 2;
}

/* Whole lines of text. The rest is moved to its start. Return whether the line was there. */
static bool read_lines(char *text, size_t *n, const char *ends, struct peer_user_found *ret)
{
	char *line = text, *newline;

	text[*n] = '\0';
	while ((newline = strchr(line, '\n')) != NULL) {
		*newline = '\0';
		if (read_line(line, ends, ret))
			return true;
		line = newline + 1;
	}
	*n -= (size_t)(line - text);
	memmove(text, line, *n);
	return false;
}

static struct peer_user_found find_once(const struct sought *s)
{
	static char text[PIECE + 1];
	OWN_FD fd = open(s->list, O_RDONLY | O_CLOEXEC);
	size_t have = 0, total = 0;
	struct peer_user_found f = { 0 };

	while (fd >= 0 && have < PIECE && total < LIST_MAX) {
		size_t room = PIECE - have;
		ssize_t n = read(fd, text + have, room < LINE_LEN ? room : LINE_LEN);

		if (n <= 0)
			break;
		have += (size_t)n;
		total += (size_t)n;
		if (read_lines(text, &have, s->ends, &f))
			return f;
	}
	return (struct peer_user_found){ 0 };
}

static struct peer_user_found peer_user_find(const struct sought *s, size_t n)
{
	for (size_t i = 0; i < n * TRIES; i++) {
		struct peer_user_found f = find_once(&s[i % n]);

		if (f.inode != 0)
			return f;
	}
	return (struct peer_user_found){ 0 };
}

/* The user who made the socket at the other end of a TCP connection. */
static int peer_user_of_tcp(int fd, uid_t *ret, struct err *e)
{
	struct sockaddr_in6 peer, own;
	struct sought s[2];
	struct peer_user_found first, second;
	size_t n = 0;

	if (get_end(fd, getpeername, &peer, e) < 0 || get_end(fd, getsockname, &own, e) < 0)
		return -1;
	/* A socket of IPv6 can be connected to an address of IPv4, too. */
	if (is_mapped(&peer) && is_mapped(&own))
		s[n++] = sought_in(&peer, &own, true);
	s[n++] = sought_in(&peer, &own, false);
	first = peer_user_find(s, n);
	second = first.inode == 0 ? first : peer_user_find(s, n);
	if (first.inode == 0 || second.inode != first.inode)
		return err_set(e, ERR_SYSTEM, "the other end of a connection is not in this cell");
	*ret = first.uid;
	return 0;
}

/* ---- both */

bool peer_user_is_ours(int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t n = sizeof(peer), m = sizeof(int);
	int family = -1;
	struct err e;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &m) < 0)
		return false;
	if (family != AF_UNIX && peer_user_of_tcp(fd, &peer.uid, &e) < 0)
		return false;
	if (family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}
