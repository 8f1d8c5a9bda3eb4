/* root_check.c - see root_check.h. A process whose root directory is not the root of its mount
 * namespace can make no user namespace (user_namespaces(7)), and its mounts cannot be made private.
 */
#include "cmd/base/root_check.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int root_check(struct err *e)
{
	struct statx st = { 0 };

	if (syscall(SYS_statx, AT_FDCWD, "/", 0, STATX_BASIC_STATS, &st) < 0 ||
	    (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0 ||
	    (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       "this is a chroot: / is no mount point, and Linux makes no user namespaces "
		       "here; enter the directory with pivot_root (as systemd-nspawn -D does), or "
		       "use the machine itself");
}
