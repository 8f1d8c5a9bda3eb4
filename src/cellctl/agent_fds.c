#include "agent_fds.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* A descriptor from a cell could be anything: a terminal of another user, a file that blocks. Only
 * pipes and the master side of a PTY are accepted. */
static int check_fd(int fd, bool master, int direction, struct err *e)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) < 0 || flags < 0)
		return err_sys(e, "descriptor from PID 1");
	if (master ? !S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2) : !S_ISFIFO(st.st_mode))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a %s",
			       master ? "PTY" : "pipe");
	/* With O_PATH the flags are not equal to a direction alone. */
	if ((flags & (O_ACCMODE | O_PATH)) != direction)
		return err_set(e, ERR_INVALID, "PID 1 sent a pipe of the wrong direction");
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, "descriptor from PID 1");
	return 0;
}

static bool option_is(int fd, int name, int a, int b)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && (value == a || value == b);
}

/* Accepts only TCP or UDP over IP. F_SETFL with O_NONBLOCK alone also clears O_ASYNC. SO_LINGER
 * would make close(2) block. */
static int check_socket(int fd, bool tcp, bool listens, struct err *e)
{
	const struct linger no = { 0 };
	int type = tcp ? SOCK_STREAM : SOCK_DGRAM, protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP;

	if (!option_is(fd, SO_DOMAIN, AF_INET, AF_INET6) || !option_is(fd, SO_TYPE, type, type) ||
	    !option_is(fd, SO_PROTOCOL, protocol, protocol) ||
	    !option_is(fd, SO_ACCEPTCONN, listens, listens))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a %s",
			       !tcp	 ? "UDP socket"
			       : listens ? "listening TCP socket"
					 : "TCP connection");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof(no)) < 0)
		return err_sys(e, "socket from PID 1");
	return 0;
}

/* Only a memory file can have these seals: reading it never blocks, and no process can change it.
 */
static int check_sealed(int fd, uint64_t max, struct err *e)
{
	const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (fstat(fd, &st) < 0 || seals < 0 || (seals & all) != all || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a sealed file");
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return err_set(e, ERR_INVALID, "PID 1 sent a file of %lld bytes",
			       (long long)st.st_size);
	return 0;
}

int agent_fds_check(const struct agent *a, enum agent_type type, const struct agent_event *v,
		    struct err *e)
{
	bool master = (v->flags & (AGENT_IS_TTY | AGENT_IS_HELD)) == AGENT_IS_TTY;
	bool input = (v->flags & AGENT_HAS_STDIN) != 0;

	if (a->nfds != agent_event_fds(type, v))
		return err_set(e, ERR_INVALID, "PID 1 sent %u descriptors", a->nfds);
	if (type == AGENT_DIALED)
		return a->nfds == 0 ? 0 : check_socket(a->fds[0], true, false, e);
	if (type == AGENT_EGRESS_LISTENS && a->nfds == 2)
		return check_socket(a->fds[0], true, true, e) < 0
			       ? -1
			       : check_socket(a->fds[1], false, false, e);
	if (type == AGENT_BOOTED || type == AGENT_GUEST)
		return a->nfds == 0 ? 0 : check_sealed(a->fds[0], BOOT_TEXT_MAX, e);
	if (type == AGENT_SNAPSHOT_DONE && a->nfds == 2)
		return check_sealed(a->fds[0], BOOT_MEMORY_MAX, e) < 0
			       ? -1
			       : check_sealed(a->fds[1], BOOT_MEMORY_MAX, e);
	for (uint32_t i = 0; i < a->nfds; i++) {
		int direction = master ? O_RDWR : i == 0 && input ? O_WRONLY : O_RDONLY;

		if (check_fd(a->fds[i], master, direction, e) < 0)
			return -1;
	}
	return 0;
}
