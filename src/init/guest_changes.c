#include "guest_changes.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "capture.h"
#include "diff.h"
#include "guest_root.h"
#include "kernel.h"
#include "keeper_msg.h"

enum { ROOT_FD = 3, IMAGE_FD };

/* As keeper/diff_reader.c leaves them: the disk is the root directory, 3 the root that programs
 * see, 4 the only layer. */
static bool arrange(void)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int image = fcntl(guest_root_image(), F_DUPFD_CLOEXEC, INIT_FD_DIAG + 1);

	if (root < 0 || image < 0 || fchdir(INIT_FD_DISK) < 0 || chroot(".") < 0)
		return false;
	return dup2(root, ROOT_FD) >= 0 && dup2(image, IMAGE_FD) >= 0 &&
	       kernel_close_range(IMAGE_FD + 1, ~0U) == 0;
}

bool guest_changes_run(const char *name)
{
	char top[] = "/", *places[] = { top };
	bool diff = strcmp(name, "diff") == 0;

	if (!diff && strcmp(name, "capture") != 0)
		return false;
	if (!arrange())
		_exit(1);
	_exit(diff ? diff_main(1, places) : capture_main(1, places));
}
