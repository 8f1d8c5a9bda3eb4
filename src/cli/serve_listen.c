/* serve_listen.c - the server's sockets: passed by the parent process (systemd's protocol:
 * LISTEN_FDS and LISTEN_PID, descriptors from 3 on), or made here. An upgrade uses the same
 * protocol. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "addr.h"
#include "serve.h"

#define IN_USE_TRIES 300
#define IN_USE_MS 10

static const char *variable(const char *name)
{
	size_t n = strlen(name);

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

static int add(struct serve *s, int fd, struct err *e)
{
	if (s->setup.nlisteners == SERVE_LISTENERS_MAX)
		return err_set(e, ERR_LIMIT, "listen: at most %d sockets", SERVE_LISTENERS_MAX);
	s->listeners[s->setup.nlisteners++] = fd;
	return 0;
}

/* Takes one passed descriptor, moved away from the low numbers, which descriptors of cordond will
 * have. */
static int take_one(const struct serve *s, int fd, bool *ret_unix, int *ret_fd, struct err *e)
{
	struct addr a;

	if (addr_of_socket(fd, &a, e) < 0)
		return err_wrap(e, "passed descriptor %d", fd);
	*ret_unix = addr_is_unix(&a);
	if (!*ret_unix && !addr_is_loopback(&a) && !config_has_tls(&s->config) &&
	    !s->config.allow_remote_plain)
		return err_set(e, ERR_DENIED,
			       "passed descriptor %d listens beyond this machine and there is no "
			       "TLS",
			       fd);
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (*ret_fd < 0 || fcntl(*ret_fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return err_sys(e, "passed descriptor %d", fd);
	fd_close(fd);
	return 0;
}

/* TCP sockets first, then Unix ones: only the first kind may have TLS. */
static int take_given(struct serve *s, unsigned long n, struct err *e)
{
	int fds[SERVE_LISTENERS_MAX] = { 0 };
	bool is_unix[SERVE_LISTENERS_MAX] = { 0 };

	if (n > SERVE_LISTENERS_MAX)
		return err_set(e, ERR_LIMIT, "listen: at most %d sockets", SERVE_LISTENERS_MAX);
	for (unsigned long i = 0; i < n; i++)
		if (take_one(s, 3 + (int)i, &is_unix[i], &fds[i], e) < 0)
			return -1;
	for (int kind = 0; kind < 2; kind++)
		for (unsigned long i = 0; i < n; i++) {
			if (is_unix[i] != (kind == 1))
				continue;
			if (add(s, fds[i], e) < 0)
				return -1;
			s->setup.tls_from += kind == 0;
		}
	return 0;
}

static int listen_at(struct serve *s, const char *text, mode_t mode, struct err *e)
{
	struct addr a;

	if (addr_parse(text, &a, e) < 0)
		return err_wrap(e, "listen");
	OWN_FD fd = addr_listen(&a, mode, e);
	/* This process holds the lock on the run folder, so the address may be used by a cordond
	 * whose supervisor was killed and that is about to end. */
	for (int tries = 0; fd < 0 && e->sys == EADDRINUSE && tries < IN_USE_TRIES; tries++) {
		(void)poll(NULL, 0, IN_USE_MS);
		fd = addr_listen(&a, mode, e);
	}
	if (fd < 0)
		return -1;
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (high < 0)
		return err_sys(e, "descriptors");
	return add(s, high, e);
}

/* Below localhost all names are this machine (RFC 6761), and a port that the kernel chose is known
 * now. Certificates have no *.localhost, see config_check.c. A domain of the operator's gets the
 * port only where clients connect to this server itself: one without TLS has a proxy before it,
 * which has the usual port. */
static int name_domain(struct serve *s, struct err *e)
{
	bool given = s->config.domain[0] != '\0';
	bool tls = s->config.tls_local || s->config.tls_cert[0] != '\0';
	char name[CONFIG_DOMAIN_MAX];
	struct addr a;

	(void)snprintf(name, sizeof(name), "%s",
		       given		     ? s->config.domain
		       : s->config.tls_local ? "cordon.localhost"
					     : "localhost");
	(void)snprintf(s->config.domain, sizeof(s->config.domain), "%s", name);
	if (s->setup.tls_from == 0 || strchr(name, ':') != NULL || (given && !tls))
		return 0;
	if (addr_of_socket(s->listeners[0], &a, e) < 0)
		return -1;
	if (given && addr_port(&a) == 443)
		return 0;
	if ((size_t)snprintf(s->config.domain, sizeof(s->config.domain), "%s:%u", name,
			     (unsigned)addr_port(&a)) >= sizeof(s->config.domain))
		return err_set(e, ERR_INVALID, "domain: too long with the port appended");
	return 0;
}

static int open_listeners(struct serve *s, struct err *e)
{
	const char *pid = variable("LISTEN_PID"), *fds = variable("LISTEN_FDS");
	char path[CONFIG_PATH_MAX + 8];

	if (pid != NULL && fds != NULL && strtol(pid, NULL, 10) == (long)getpid() &&
	    strtoul(fds, NULL, 10) > 0)
		return take_given(s, strtoul(fds, NULL, 10), e);
	if (s->config.listen[0] != '\0') {
		if (listen_at(s, s->config.listen, 0, e) < 0)
			return -1;
		s->setup.tls_from = s->setup.nlisteners;
	}
	if (s->config.unix_socket[0] == '\0')
		return 0;
	(void)snprintf(path, sizeof(path), "unix:%s", s->config.unix_socket);
	/* Every user of the machine may connect, as to the port: access is by key. */
	return listen_at(s, path, 0666, e);
}

int serve_listen(struct serve *s, struct err *e)
{
	return open_listeners(s, e) < 0 ? -1 : name_domain(s, e);
}
