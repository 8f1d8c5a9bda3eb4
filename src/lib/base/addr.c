/* addr.c - addresses to listen on and to connect to. */
#include "lib/base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "lib/base/clock.h"

#define BACKLOG 1024 /* the kernel lowers it to its somaxconn */

static int addr_malformed(const char *text, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "'%.80s' is not an address such as 127.0.0.1:4983, [::1]:4983 or unix:/path",
		       text);
}

static int addr_parse_unix(const char *path, struct addr *ret, struct err *e)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&ret->at;
	size_t len = strlen(path);

	if (len < 2 || path[0] != '/')
		return err_set(e, ERR_INVALID, "'unix:%.80s' needs an absolute path", path);
	if (len >= sizeof(un->sun_path))
		return err_set(e, ERR_INVALID, "path of a socket longer than %zu bytes: %.80s",
			       sizeof(un->sun_path) - 1, path);
	*ret = (struct addr){ .len = sizeof(*un) };
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, len);
	return 0;
}

static bool addr_parse_port(const char *text, in_port_t *ret)
{
	unsigned port = 0;

	if (!*text || strlen(text) > 5)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		port = port * 10 + (unsigned)(*text - '0');
	}
	if (port > UINT16_MAX)
		return false;
	*ret = htons((uint16_t)port);
	return true;
}

int addr_parse(const char *text, struct addr *ret, struct err *e)
{
	struct addr a = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.at;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.at;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	in_port_t port;
	size_t len;

	if (strncmp(text, "unix:", 5) == 0)
		return addr_parse_unix(text + 5, ret, e);
	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host) ||
	    !addr_parse_port(colon + 1, &port))
		return addr_malformed(text, e);
	len = (size_t)(colon - text);
	memcpy(host, text, len);
	host[len] = '\0';
	if (strcmp(host, "*") == 0)
		memcpy(host, "[::]", len = sizeof("[::]") - 1);
	if (host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		a.len = sizeof(*in6);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = port;
		if (inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
			return addr_malformed(text, e);
	} else {
		a.len = sizeof(*in);
		in->sin_family = AF_INET;
		in->sin_port = port;
		if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
			      &in->sin_addr) != 1)
			return addr_malformed(text, e);
	}
	*ret = a;
	return 0;
}

void addr_format(const struct addr *a, char *ret_text, size_t cap)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->at;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->at;
	char host[INET6_ADDRSTRLEN];

	if (a->at.ss_family == AF_INET && inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host)))
		(void)snprintf(ret_text, cap, "%s:%u", host, ntohs(in->sin_port));
	else if (a->at.ss_family == AF_INET6 &&
		 inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host)))
		(void)snprintf(ret_text, cap, "[%s]:%u", host, ntohs(in6->sin6_port));
	else if (addr_is_unix(a) && a->len > sizeof(un->sun_family) && un->sun_path[0] == '/')
		(void)snprintf(ret_text, cap, "unix:%.*s", (int)sizeof(un->sun_path), un->sun_path);
	else
		(void)snprintf(ret_text, cap, "unix");
}

bool addr_is_unix(const struct addr *a)
{
	return a->at.ss_family == AF_UNIX;
}

bool addr_is_loopback(const struct addr *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->at;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->at;

	if (a->at.ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	if (a->at.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
		       (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
	return addr_is_unix(a);
}

uint16_t addr_port(const struct addr *a)
{
	if (a->at.ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)&a->at)->sin_port);
	if (a->at.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&a->at)->sin6_port);
	return 0;
}

int addr_of_socket(int fd, struct addr *ret, struct err *e)
{
	*ret = (struct addr){ .len = sizeof(ret->at) };
	if (getsockname(fd, (struct sockaddr *)&ret->at, &ret->len) < 0)
		return err_sys(e, "cannot read the address of descriptor %d", fd);
	return 0;
}

/* ---- listening */

/* Remove the socket of an exited server. A socket that accepts connections, or another kind of
 * file, is an error. */
static int addr_remove_stale(const struct addr *a, struct err *e)
{
	const char *path = ((const struct sockaddr_un *)&a->at)->sun_path;
	OWN_FD probe = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "cannot stat '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, ERR_CONFLICT, "'%s' exists and is not a socket", path);
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return err_sys(e, "cannot make a socket");
	if (connect(probe, (const struct sockaddr *)&a->at, a->len) == 0 || errno != ECONNREFUSED)
		return err_set(e, ERR_CONFLICT, "'%s' is in use: another server listens there",
			       path);
	if (unlink(path) < 0)
		return err_sys(e, "cannot replace '%s'", path);
	return 0;
}

static int addr_bind_unix(int fd, const struct addr *a, mode_t mode, struct err *e)
{
	const char *path = ((const struct sockaddr_un *)&a->at)->sun_path;
	mode_t mask;
	int bound;

	if (addr_remove_stale(a, e) < 0)
		return -1;
	/* Before bind: the new inode gets this mode, less the umask, so no other user can connect
	 * before the mode is set. Not by path after bind: the directory may belong to another user,
	 * who could put a link there. */
	if (fchmod(fd, mode) < 0)
		return err_sys(e, "cannot set the mode of a socket");
	mask = umask(0);
	bound = bind(fd, (const struct sockaddr *)&a->at, a->len);
	if (bound < 0)
		(void)err_sys(e, "cannot listen on unix:%s", path);
	(void)umask(mask);
	return bound;
}

static int addr_bind_tcp(int fd, const struct addr *a, struct err *e)
{
	char text[ADDR_TEXT_MAX];
	int on = 1, off = 0;

	addr_format(a, text, sizeof(text));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_sys(e, "cannot prepare a socket");
	/* [::] means IPv4, too, with any default of the machine. */
	if (a->at.ss_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
		return err_sys(e, "cannot prepare a socket");
	if (bind(fd, (const struct sockaddr *)&a->at, a->len) < 0)
		return err_sys(e, "cannot listen on %s", text);
	return 0;
}

int addr_listen(const struct addr *a, mode_t unix_mode, struct err *e)
{
	OWN_FD fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[ADDR_TEXT_MAX];

	if (fd < 0)
		return err_sys(e, "cannot make a socket");
	if ((addr_is_unix(a) ? addr_bind_unix(fd, a, unix_mode, e) : addr_bind_tcp(fd, a, e)) < 0)
		return -1;
	if (listen(fd, BACKLOG) < 0) {
		addr_format(a, text, sizeof(text));
		return err_sys(e, "cannot listen on %s", text);
	}
	return TAKE_FD(fd);
}

/* ---- connecting */

/* Wait for a connect(2) in progress. 0, or -1 with errno. */
static int addr_await_connect(int fd, uint64_t timeout_ms)
{
	uint64_t deadline = clock_now_ns() + timeout_ms * CLOCK_MS;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t len = sizeof(int);
	int failure = 0;

	for (;;) {
		uint64_t now = clock_now_ns();
		int n;

		if (now >= deadline) {
			errno = ETIMEDOUT;
			return -1;
		}
		n = poll(&p, 1, (int)((deadline - now) / CLOCK_MS % 1000000) + 1);
		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) < 0)
		return -1;
	errno = failure;
	return failure ? -1 : 0;
}

int addr_connect(const struct addr *a, uint64_t timeout_ms, struct err *e)
{
	OWN_FD fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[ADDR_TEXT_MAX];
	int on = 1;

	if (fd < 0)
		return err_sys(e, "cannot make a socket");
	addr_format(a, text, sizeof(text));
	if (connect(fd, (const struct sockaddr *)&a->at, a->len) < 0 &&
	    (errno != EINPROGRESS || addr_await_connect(fd, timeout_ms) < 0))
		return err_sys(e, "cannot connect to %s", text);
	if (!addr_is_unix(a) && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		return err_sys(e, "cannot prepare the connection to %s", text);
	return TAKE_FD(fd);
}
