#include "cell/template/cache_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/own.h"

/* The owner and mode are checked on the open directory, so a replaced path changes nothing. HOME
 * counts only if the program has no more rights than its user. */
int cache_dir_open(int *ret_fd, struct err *e)
{
	const char *home = secure_getenv("HOME");
	char path[PATH_MAX];
	struct stat st;

	if (geteuid() == 0) {
		(void)mkdir("/var", 0755); /* minimal systems have no /var/cache */
		(void)mkdir("/var/cache", 0755);
		(void)snprintf(path, sizeof(path), "/var/cache/cordon");
	} else {
		if (home == NULL || home[0] != '/') {
			struct passwd *pw = getpwuid(geteuid());

			home = pw == NULL ? NULL : pw->pw_dir;
		}
		if (home != NULL && access(home, W_OK) == 0) {
			(void)snprintf(path, sizeof(path), "%s/.cache", home);
			(void)mkdir(path, 0700);
			(void)snprintf(path, sizeof(path), "%s/.cache/cordon", home);
		} else {
			(void)snprintf(path, sizeof(path), "/tmp/cordon-%u", geteuid());
		}
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "mkdir %s", path);
	OWN_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(e, ERR_DENIED,
			       "%s: belongs to another user, or others may write to it", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
