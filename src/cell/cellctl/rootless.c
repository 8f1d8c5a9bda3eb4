/* rootless.c - theory of operation
 *
 * Without help, a user may map only the own id into a user namespace. newuidmap(1) and
 * newgidmap(1), set-user-id programs of the distribution, also map the ranges of /etc/subuid and
 * /etc/subgid. They must run outside of the new namespace. Without these programs, or without a
 * range of at least 65,536 ids, the namespace has the single id. The child writes "u" when it is in
 * its namespace, the parent writes "g" when the maps are written. */
#include "cell/cellctl/rootless.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/wire/keeper_msg.h"

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

bool rootless_needed(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	char map[256], *rest = map;
	unsigned long inside, outside, count;
	struct err e;

	if (geteuid() != 0 || syscall(SYS_capget, &head, data) < 0 ||
	    (data[0].effective & 1U << CAP_SYS_ADMIN) == 0)
		return true;
	/* "0 0 4294967295": the initial user namespace, or one with all ids of the machine. */
	if (io_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map), &e) < 0)
		return true;
	inside = strtoul(rest, &rest, 10);
	outside = strtoul(rest, &rest, 10);
	count = strtoul(rest, &rest, 10);
	return inside != 0 || outside != 0 || count != UINT32_MAX;
}

/* Read "first:count" with enough ids. */
static bool rootless_read_range(const char *text, uint32_t *ret_first)
{
	char *end;
	unsigned long first = strtoul(text, &end, 10), count;

	if (end == text || *end != ':')
		return false;
	count = strtoul(end + 1, &end, 10);
	if (count < CELL_IDS || first > UINT32_MAX - CELL_IDS)
		return false;
	*ret_first = (uint32_t)first;
	return true;
}

/* Find "name:first:count" or "number:first:count" with enough ids. */
static bool rootless_find_range(const char *file, const char *name, uid_t uid, uint32_t *ret_first)
{
	FILE *f = fopen(file, "re");
	char line[256], number[16];
	bool found = false;

	if (f == NULL)
		return false;
	(void)snprintf(number, sizeof(number), "%u", uid);
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		char *colon = strchr(line, ':');

		if (colon == NULL)
			continue;
		*colon = '\0';
		if (strcmp(line, name) == 0 || strcmp(line, number) == 0)
			found = rootless_read_range(colon + 1, ret_first);
	}
	(void)fclose(f);
	return found;
}

static pid_t rootless_run_mapper(const char *program, pid_t target, uint32_t own, uint32_t first)
{
	char a[16], b[16], c[16], d[16];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)snprintf(a, sizeof(a), "%d", (int)target);
	(void)snprintf(b, sizeof(b), "%u", own);
	(void)snprintf(c, sizeof(c), "%u", first);
	(void)snprintf(d, sizeof(d), "%u", CELL_IDS);
	(void)execl(program, program, a, "0", b, "1", "1", c, d, (char *)NULL);
	_exit(127);
}

static bool rootless_succeeded(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

bool rootless_find_ranges(struct rootless_ranges *ret)
{
	struct passwd *pw;
	struct stat st;

	/* The cheap checks first: most users have no ranges. */
	if (stat("/etc/subuid", &st) < 0 || st.st_size == 0 || access(NEWUIDMAP, X_OK) < 0 ||
	    access(NEWGIDMAP, X_OK) < 0)
		return false;
	pw = getpwuid(geteuid());
	return pw != NULL &&
	       rootless_find_range("/etc/subuid", pw->pw_name, geteuid(), &ret->first_uid) &&
	       rootless_find_range("/etc/subgid", pw->pw_name, geteuid(), &ret->first_gid);
}

/* 0 in the namespace is the user outside. By system call: libc's functions also synchronize
 * threads, which a child of vfork(2) must not. */
static int rootless_become_root(struct err *e)
{
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
		return err_sys(e, "become root of the user namespace");
	return 0;
}

static int rootless_enter_namespace(struct err *e)
{
	if (unshare(CLONE_NEWUSER) == 0)
		return 0;
	(void)err_sys(e, "user namespace");
	return err_wrap(e, "this machine does not let ordinary users make cells");
}

int rootless_open(pid_t pid, bool above, int *ret_fd, struct err *e)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	OWN_FD own = open(path, O_RDONLY | O_CLOEXEC);
	*ret_fd = above && own >= 0 ? ioctl(own, NS_GET_PARENT) : TAKE_FD(own);
	if (*ret_fd < 0)
		return err_sys(e, "user namespace of process %d", (int)pid);
	return 0;
}

int rootless_join(int userns_fd, struct err *e)
{
	if (syscall(SYS_setns, userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter the user namespace of the cells");
	return rootless_become_root(e);
}

int rootless_enter_single(struct err *e)
{
	char users[32], groups[32];

	(void)snprintf(users, sizeof(users), "0 %u 1", geteuid());
	(void)snprintf(groups, sizeof(groups), "0 %u 1", getegid());
	if (rootless_enter_namespace(e) < 0)
		return -1;
	/* user_namespaces(7): without CAP_SETGID outside, setgroups must be given up first. */
	if (io_write_file(AT_FDCWD, "/proc/self/setgroups", "deny", e) < 0 ||
	    io_write_file(AT_FDCWD, "/proc/self/uid_map", users, e) < 0 ||
	    io_write_file(AT_FDCWD, "/proc/self/gid_map", groups, e) < 0)
		return err_wrap(e, "user namespace");
	return rootless_become_root(e);
}

int rootless_enter_mapped(int sync_fd, struct err *e)
{
	char word;

	if (rootless_enter_namespace(e) < 0)
		return -1;
	if (write(sync_fd, "u", 1) != 1 || read(sync_fd, &word, 1) != 1)
		return err_set(e, ERR_SYSTEM, "the parent process has exited");
	return rootless_become_root(e);
}

int rootless_map(pid_t child, int sync_fd, const struct rootless_ranges *r, struct err *e)
{
	pid_t users, groups;
	bool done;
	char word;

	if (read(sync_fd, &word, 1) != 1)
		return err_set(e, ERR_UNSUPPORTED, "the user namespace was refused");
	users = rootless_run_mapper(NEWUIDMAP, child, geteuid(), r->first_uid);
	groups = rootless_run_mapper(NEWGIDMAP, child, getegid(), r->first_gid);
	done = rootless_succeeded(users);
	if (!rootless_succeeded(groups) || !done)
		return err_set(e, ERR_SYSTEM, "newuidmap or newgidmap failed");
	if (write(sync_fd, "g", 1) != 1)
		return err_sys(e, "user namespace");
	return 0;
}
