/* confine.c - limits what a cordond that was taken over can do: it can open no file outside of two
 * folders, execute no program and make no connection. */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "daemon_program.h"
#include "kernel.h"
#include "landlock.h"
#include "log.h"
#include "own.h"

static int allow(int set_fd, int dir_fd, uint64_t rights, struct err *e)
{
	const struct landlock_path_beneath_attr rule = { rights, dir_fd };

	if (syscall(SYS_landlock_add_rule, set_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) < 0)
		return err_sys(e, "landlock rule");
	return 0;
}

static int allow_path(int set_fd, const char *path, uint64_t rights, struct err *e)
{
	OWN_FD fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open %s", path);
	return allow(set_fd, fd, rights, e);
}

static int files(const struct confine_folders *f, struct err *e)
{
	int abi = landlock_abi();

	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP)) {
		log_warn("this kernel has no Landlock: cordond's files are not confined", "");
		return 0;
	}
	if (abi < 0)
		return err_sys(e, "landlock");
	OWN_FD fd = landlock_open(abi, LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT);
	if (fd < 0)
		return err_sys(e, "landlock rule set");
	for (int i = 0; i < CONFINE_FOLDERS; i++)
		if (allow(fd, f->folders[i],
			  landlock_fs_all(abi) &
				  ~(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_FS_IOCTL_DEV),
			  e) < 0)
			return -1;
	for (unsigned i = 0; i < f->nread; i++)
		if (f->read[i] >= 0 &&
		    allow(fd, f->read[i],
			  LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR, e) < 0)
			return -1;
	if (allow_path(fd, "/dev/null",
		       LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE, e) < 0)
		return -1;
	if (syscall(SYS_landlock_restrict_self, fd, 0U) < 0)
		return err_sys(e, "landlock");
	return 0;
}

static int calls(struct err *e)
{
	struct sock_fprog program = { .len = (unsigned short)COUNT(seccomp_daemon),
				      .filter = (struct sock_filter *)(uintptr_t)seccomp_daemon };

	long other =
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);

	if (other < 0)
		return err_sys(e, "system-call filter");
	if (other > 0) /* a thread that could not install the filter */
		return err_set(e, ERR_SYSTEM, "system-call filter: thread %ld has another", other);
	return 0;
}

int confine_files(const struct confine_folders *f, struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no new privileges");
	return files(f, e) < 0 ? err_wrap(e, "confine") : 0;
}

int confine_calls(struct err *e)
{
	return calls(e) < 0 ? err_wrap(e, "confine") : 0;
}
