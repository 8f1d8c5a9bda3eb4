#include "confine_net.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "landlock.h"
#include "log.h"
#include "own.h"

/* A rule set without a rule: no file, no port to listen at. */
static int deny_files(struct err *e)
{
	int abi = landlock_abi();

	if (abi < 0 && (errno == ENOSYS || errno == EOPNOTSUPP)) {
		log_warn("this kernel has no Landlock: files are refused by the filter alone", "");
		return 0;
	}
	if (abi < 0)
		return err_sys(e, "landlock");
	OWN_FD fd = landlock_open(abi, LANDLOCK_NET_BIND);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0U) < 0)
		return err_sys(e, "landlock");
	return 0;
}

static int filter_calls(const struct sock_filter *filter, size_t n, struct err *e)
{
	struct sock_fprog program = { .len = (unsigned short)n,
				      .filter = (struct sock_filter *)(uintptr_t)filter };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return err_sys(e, "system-call filter");
	return 0;
}

int confine_net(const struct sock_filter *filter, size_t n, struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no new privileges");
	if (deny_files(e) < 0 || filter_calls(filter, n, e) < 0)
		return err_wrap(e, "confine");
	return 0;
}
