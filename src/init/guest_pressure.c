#include "guest_pressure.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "err.h"
#include "io.h"
#include "kernel.h"
#include "keeper_msg.h"

/* All programs that had something to do waited for memory, for two of five seconds. */
#define TRIGGER "full 2000000 5000000"

enum { PRESSURE_FD = 3, CGROUP_FD, KILL_FD, FDS_END }; /* of the first process */

/* The same in the process that boots: above the numbers that have a meaning, of the first process
 * and of keeper_msg.h. */
static int own[FDS_END] = { -1, -1, -1, -1, -1, -1 };

static int open_above(int dir, const char *path, int flags)
{
	OWN_FD fd = openat(dir, path, flags | O_CLOEXEC);

	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, INIT_FD_GUEST + 1);
}

int guest_pressure_init(int cgroup, struct err *e)
{
	own[PRESSURE_FD] = open_above(cgroup, "memory.pressure", O_RDWR | O_NONBLOCK);
	own[CGROUP_FD] = open_above(cgroup, ".", O_RDONLY | O_DIRECTORY);
	own[KILL_FD] = open_above(AT_FDCWD, "/proc/sysrq-trigger", O_WRONLY);
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		if (own[fd] < 0)
			return err_sys(e, "open what the pressure on memory needs");
	if (write(own[PRESSURE_FD], TRIGGER, sizeof(TRIGGER)) < 0)
		return err_sys(e, "watch the pressure on memory");
	return 0;
}

void guest_pressure_leave(void)
{
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		fd_close(own[fd]);
}

static bool keep_own_fds(void)
{
	for (int fd = PRESSURE_FD; fd < FDS_END; fd++)
		if (dup3(own[fd], fd, O_CLOEXEC) < 0)
			return false;
	return kernel_close_range(FDS_END, ~0U) == 0;
}

static uint64_t read_number(const char *file)
{
	char text[32];
	struct err e;

	return io_read_file(CGROUP_FD, file, text, sizeof(text), &e) < 0 ? 0
									 : strtoull(text, NULL, 10);
}

/* The kernel tells up to half a second late: by then it may have killed, or a program ended. */
static bool is_full(void)
{
	uint64_t used = read_number("memory.current"), most = read_number("memory.max");

	return used + most / 8 >= most;
}

void guest_pressure_watch(pid_t agent)
{
	int end = keep_own_fds() ? (int)syscall(SYS_pidfd_open, agent, 0) : -1;
	struct pollfd waits[] = {
		{ .fd = end, .events = POLLIN },
		{ .fd = PRESSURE_FD, .events = POLLPRI },
	};

	while (end >= 0 && waits[0].revents == 0)
		if (poll(waits, COUNT(waits), -1) > 0 && (waits[1].revents & POLLPRI) && is_full())
			(void)!write(KILL_FD, "f", 1); /* the kernel's own choice */
}
