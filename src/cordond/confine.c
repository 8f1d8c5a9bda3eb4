/* confine.c - if cordond is taken over, the attacker has what its API offers, and not the host: no
 * file outside its two folders, no program to start, no network but the connections that come in.
 */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "daemon_program.h"
#include "kernel.h"
#include "log.h"
#include "own.h"

/* As in linux/landlock.h, of which the oldest version we build with knows less. */
#define FS_ALL ((1ULL << 13) - 1)
#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REFER (1ULL << 13)	  /* 2 */
#define FS_TRUNCATE (1ULL << 14)  /* 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* 5 */
#define NET_TCP 3ULL		  /* 4: bind and connect */
#define SCOPE_ALL 3ULL		  /* 6: abstract sockets and signals of others */
#define RULE_PATH_BENEATH 1

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_rule {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

static int allow(int set_fd, int dir_fd, uint64_t rights, struct err *e)
{
	struct path_rule rule = { .allowed = rights, .parent_fd = dir_fd };

	if (syscall(SYS_landlock_add_rule, set_fd, RULE_PATH_BENEATH, &rule, 0U) < 0)
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
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1U);
	uint64_t all = FS_ALL;
	struct ruleset set;

	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP)) {
		log_warn("this kernel has no Landlock: cordond's files are not confined", "");
		return 0;
	}
	if (abi < 0)
		return err_sys(e, "landlock");
	all |= (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
	       (abi >= 5 ? FS_IOCTL_DEV : 0);
	set = (struct ruleset){ .fs = all,
				.net = abi >= 4 ? NET_TCP : 0,
				.scoped = abi >= 6 ? SCOPE_ALL : 0 };
	OWN_FD fd = (int)syscall(SYS_landlock_create_ruleset, &set,
				 abi >= 6   ? sizeof(set)
				 : abi >= 4 ? 16
					    : 8,
				 0U);
	if (fd < 0)
		return err_sys(e, "landlock rule set");
	for (int i = 0; i < CONFINE_FOLDERS; i++)
		if (allow(fd, f->folders[i], all & ~(FS_EXECUTE | FS_IOCTL_DEV), e) < 0)
			return -1;
	for (unsigned i = 0; i < f->nread; i++)
		if (f->read[i] >= 0 && allow(fd, f->read[i], FS_READ_FILE | FS_READ_DIR, e) < 0)
			return -1;
	if (allow_path(fd, "/dev/null", FS_WRITE_FILE | FS_READ_FILE, e) < 0)
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
	if (other > 0) /* a thread that could not get it */
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
