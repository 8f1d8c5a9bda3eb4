#include "confine_egress.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress_program.h"
#include "log.h"
#include "own.h"

/* As in linux/landlock.h, of which the oldest version we build with knows less. */
#define FS_ALL ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)	  /* 2 */
#define FS_TRUNCATE (1ULL << 14)  /* 3 */
#define FS_IOCTL_DEV (1ULL << 15) /* 5 */
#define NET_BIND 1ULL		  /* 4 */
#define SCOPE_ALL 3ULL		  /* 6: abstract sockets and signals of others */

struct ruleset {
	uint64_t fs, net, scoped;
};

/* A rule set without a rule: nothing of what it names is allowed. */
static int nothing_here(struct err *e)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1U);
	struct ruleset set;

	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP)) {
		log_warn("this kernel has no Landlock: files are refused by the filter alone", "");
		return 0;
	}
	if (abi < 0)
		return err_sys(e, "landlock");
	set.fs = FS_ALL | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
		 (abi >= 5 ? FS_IOCTL_DEV : 0);
	set.net = abi >= 4 ? NET_BIND : 0;
	set.scoped = abi >= 6 ? SCOPE_ALL : 0;
	OWN_FD fd = (int)syscall(SYS_landlock_create_ruleset, &set,
				 abi >= 6   ? sizeof(set)
				 : abi >= 4 ? 16
					    : 8,
				 0U);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0U) < 0)
		return err_sys(e, "landlock");
	return 0;
}

static int calls(struct err *e)
{
	struct sock_fprog program = { .len = (unsigned short)COUNT(seccomp_egress),
				      .filter = (struct sock_filter *)(uintptr_t)seccomp_egress };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return err_sys(e, "system-call filter");
	return 0;
}

int confine_egress(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no new privileges");
	if (nothing_here(e) < 0 || calls(e) < 0)
		return err_wrap(e, "confine");
	return 0;
}
