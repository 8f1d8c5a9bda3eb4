#include "cell/init/guest/guest_boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "cell/init/guest/guest_changes.h"
#include "cell/init/guest/guest_limits.h"
#include "cell/init/guest/guest_root.h"
#include "cell/init/pid1/spawn.h"
#include "cell/keeper/restrict.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/guest_msg.h"
#include "lib/wire/keeper_msg.h"

#define PORTS "/sys/class/virtio-ports"
#define PORT_WAIT_MS 5000
#define MODULES_MAX 64
#define NAME_LEN 96
#define TIMER_WAIT_NS (2000 * CLOCK_MS)
#define TIMER_LOOKS 1000

bool guest_boot_is_ours(const char *argv0)
{
	return getpid() == 1 && argv0 != NULL && strcmp(argv0, "/init") == 0;
}

/* ---- modules */

static int guest_boot_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Their names begin with numbers: the order of loading. */
static int guest_boot_list_modules(char names[][NAME_LEN], size_t *ret_n, struct err *e)
{
	DIR *d = opendir("/modules");

	*ret_n = 0;
	if (d == NULL)
		return err_sys(e, "open /modules");
	for (struct dirent *entry; *ret_n < MODULES_MAX && (entry = readdir(d)) != NULL;)
		if (entry->d_name[0] != '.')
			(void)snprintf(names[(*ret_n)++], NAME_LEN, "/modules/%.80s",
				       entry->d_name);
	(void)closedir(d);
	qsort(names, *ret_n, NAME_LEN, guest_boot_compare);
	return 0;
}

/* The file is removed: it is memory of the machine. */
static int guest_boot_load_module(const char *path, struct err *e)
{
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		return err_sys(e, "load %s", path);
	return unlink(path) < 0 ? err_sys(e, "remove %s", path) : 0;
}

static int guest_boot_load_modules(struct err *e)
{
	static char names[MODULES_MAX][NAME_LEN];
	size_t n;

	if (guest_boot_list_modules(names, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (guest_boot_load_module(names[i], e) < 0)
			return -1;
	return rmdir("/modules") < 0 ? err_sys(e, "remove /modules") : 0;
}

/* ---- the port */

static int guest_boot_open_port(const char *device)
{
	char path[64], name[64];
	struct err e;

	(void)snprintf(path, sizeof(path), PORTS "/%.30s/name", device);
	if (io_read_file(AT_FDCWD, path, name, sizeof(name), &e) < 0 ||
	    strcmp(name, GUEST_PORT "\n") != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/dev/%.30s", device);
	return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static int guest_boot_find_port(void)
{
	DIR *d = opendir(PORTS);
	int fd = -1;

	if (d == NULL)
		return -1;
	for (struct dirent *entry; fd < 0 && (entry = readdir(d)) != NULL;)
		if (entry->d_name[0] != '.')
			fd = guest_boot_open_port(entry->d_name);
	(void)closedir(d);
	return fd;
}

/* The host tells the guest about its ports in messages, a moment after the driver was loaded. */
static int guest_boot_wait_for_port(int *ret_port, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned i = 0; i < PORT_WAIT_MS; i++) {
		*ret_port = guest_boot_find_port();
		if (*ret_port >= 0)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_set(e, ERR_NOT_FOUND, "the machine has no port " GUEST_PORT);
}

/* ---- the network: as in a cell, because the machine has no other device than lo */

/* Where INIT_FD_DISK and the others are, nothing else may be opened first. */
static int guest_boot_reserve_fds(struct err *e)
{
	OWN_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = INIT_FD_ID_SLOT; fd <= INIT_FD_DIAG; fd++)
		if (null < 0 || dup3(null, fd, O_CLOEXEC) < 0)
			return err_sys(e, "reserve descriptors");
	return 0;
}

static int guest_boot_take_fd(int fd, int number, struct err *e)
{
	OWN_FD held = fd;

	if (held < 0 || dup3(held, number, O_CLOEXEC) < 0)
		return err_sys(e, "network: descriptor %d", number);
	return 0;
}

static int guest_boot_set_up_network(struct err *e)
{
	OWN_FD proc_sys = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc_sys < 0)
		return err_sys(e, "open /proc/sys");
	if (netns_setup(proc_sys, e) < 0 ||
	    guest_boot_take_fd(netns_egress_socket(), INIT_FD_EGRESS, e) < 0)
		return -1;
	return guest_boot_take_fd(netns_diag_socket(), INIT_FD_DIAG, e);
}

/* A kernel that stood still while it verified its timer, as an emulated one does on a loaded
 * machine, takes the timer for broken and has no other: waiting programs would never continue, here
 * and in every clone. So such a boot fails, and the shim begins another one. Nothing may wait in
 * here, either. */
static int guest_boot_check_timer(struct err *e)
{
	const struct itimerspec soon = { .it_value.tv_nsec = CLOCK_MS };
	OWN_FD fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	uint64_t end = clock_now_ns() + TIMER_WAIT_NS, times;

	if (fd < 0 || timerfd_settime(fd, 0, &soon, NULL) < 0)
		return err_sys(e, "timer");
	for (unsigned looks = 0; looks < TIMER_LOOKS || clock_now_ns() < end; looks++) {
		if (read(fd, &times, sizeof(times)) == sizeof(times))
			return 0;
		(void)sched_yield();
	}
	return err_set(e, ERR_SYSTEM, GUEST_NO_TIMER);
}

/* An oops leaves a kernel that cannot be relied on: it ends the machine, and the shim tells. In a
 * user namespace root of the guest could mount the cgroups, and raise the limits of its programs.
 * The filter of a cell refuses them, too. A request for more memory than the machine has is not
 * refused: the limit acts on used memory, as in a cell, and an end by it is reported as that limit.
 */
static int guest_boot_set_kernel(struct err *e)
{
	if (io_write_file(AT_FDCWD, "/proc/sys/kernel/panic_on_oops", "1", e) < 0 ||
	    io_write_file(AT_FDCWD, "/proc/sys/vm/overcommit_memory", "1", e) < 0)
		return -1;
	return io_write_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0", e);
}

/* The machine's first process only watches the memory: the agent is PID 1 of a pid namespace of its
 * own, as in a cell, where the kernel's threads are not seen, counted or signalled. */
static int guest_boot_enter_pid_namespace(struct err *e)
{
	pid_t pid = unshare(CLONE_NEWPID) < 0 ? -1 : fork();

	if (pid < 0)
		return err_sys(e, "pid namespace");
	if (pid == 0) {
		guest_limits_pressure_leave();
		return 0;
	}
	guest_limits_pressure_watch(pid);
	_exit(1); /* the kernel panics, which the shim tells */
}

int guest_boot(int *ret_port, struct err *e)
{
	/* clang-format off */
	if (guest_boot_check_timer(e) < 0
	    || guest_root_prepare(e) < 0
	    || guest_boot_reserve_fds(e) < 0
	    || guest_boot_load_modules(e) < 0
	    || guest_boot_set_kernel(e) < 0
	    || guest_boot_set_up_network(e) < 0
	    || guest_limits_init(e) < 0
	    || guest_boot_enter_pid_namespace(e) < 0
	    || guest_boot_wait_for_port(ret_port, e) < 0
	    || guest_root_enter(e) < 0)
		return -1;
	/* clang-format on */
	spawn_guest = &guest_changes;
	fd_close(INIT_FD_ID_SLOT); /* no id range in a machine of its own */
	return 0;
}

void guest_boot_fail(const struct err *e)
{
	(void)dprintf(STDERR_FILENO, "cordon-init: boot: %s\n", e->msg);
	_exit(1);
}
