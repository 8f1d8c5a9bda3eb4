#include "lib/base/confine.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "lib/base/log.h"
#include "lib/base/own.h"

static int confine_allow(int set_fd, const struct confine_places *p, int abi, struct err *e)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct landlock_path_beneath_attr rule = {
			.allowed_access = p->rights & landlock_fs_all(abi), .parent_fd = p->fds[i]
		};

		if (p->fds[i] >= 0 && syscall(SYS_landlock_add_rule, set_fd,
					      LANDLOCK_RULE_PATH_BENEATH, &rule, 0U) < 0)
			return err_sys(e, "landlock rule");
	}
	return 0;
}

int confine_files(const struct confine_table *t, struct err *e)
{
	int abi = landlock_abi();

	if (abi < 0 && errno != ENOSYS && errno != EOPNOTSUPP)
		return err_sys(e, "confine: landlock");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "confine: no new privileges");
	if (abi < 0 || abi < t->abi) {
		log_warn("this kernel's Landlock cannot confine files", "version=%d needed=%d",
			 abi < 0 ? 0 : abi, t->abi > 0 ? t->abi : 1);
		return 0;
	}
	OWN_FD set = landlock_open(abi, t->net);
	if (set < 0)
		return err_sys(e, "confine: landlock");
	for (size_t i = 0; i < COUNT(t->places); i++)
		if (confine_allow(set, &t->places[i], abi, e) < 0)
			return err_wrap(e, "confine");
	if (syscall(SYS_landlock_restrict_self, set, 0U) < 0)
		return err_sys(e, "confine: landlock");
	return 0;
}

int confine_calls(const struct sock_filter *filter, size_t n, struct err *e)
{
	struct sock_fprog program = { .len = (unsigned short)n,
				      .filter = (struct sock_filter *)(uintptr_t)filter };
	long other =
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);

	if (other < 0)
		return err_sys(e, "confine: system-call filter");
	if (other > 0) /* a thread that could not install the filter */
		return err_set(e, ERR_SYSTEM, "confine: system-call filter: thread %ld has another",
			       other);
	return 0;
}
