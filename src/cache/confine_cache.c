#include "confine_cache.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache_program.h"
#include "landlock.h"
#include "log.h"
#include "own.h"

#define REFER (1ULL << 13) /* a rename between folders; from version 2 */
#define TRUNCATE (1ULL << 14)

/* No file is executed, no socket, device or link made. */
static const uint64_t rights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
			       LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
			       LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
			       LANDLOCK_ACCESS_FS_MAKE_DIR | REFER | TRUNCATE;

int confine_cache_files(int dir, struct err *e)
{
	int abi = landlock_abi();

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no new privileges");
	if (abi < 2 && (abi >= 0 || errno == ENOSYS || errno == EOPNOTSUPP)) {
		log_warn("this kernel has no Landlock that allows renames: files are restricted by "
			 "the user alone",
			 "");
		return 0;
	}
	if (abi < 0)
		return err_sys(e, "landlock");
	OWN_FD set = landlock_open(abi, LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT);
	struct landlock_path_beneath_attr below = { .allowed_access = rights & landlock_fs_all(abi),
						    .parent_fd = dir };

	if (set < 0 ||
	    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &below, 0U) < 0 ||
	    syscall(SYS_landlock_restrict_self, set, 0U) < 0)
		return err_sys(e, "landlock");
	return 0;
}

int confine_cache_calls(struct err *e)
{
	struct sock_fprog program = {
		.len = COUNT(seccomp_cache),
		.filter = (struct sock_filter *)(uintptr_t)seccomp_cache,
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		return err_sys(e, "system-call filter");
	return 0;
}
