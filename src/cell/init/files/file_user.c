/* file_user.c - theory of operation
 *
 * Files of a session belong to its user, but clients may work on all files of it. So such built-ins
 * run as root of the cell, and set the owner of new files. A cell with a single id has no other
 * owner, and nothing is to be set. */
#include "cell/init/files/file_user.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/init/base/users.h"
#include "cell/init/files/file_names.h"
#include "cell/init/files/file_path.h"
#include "lib/base/kernel.h"
#include "lib/wire/file_msg.h"

static struct users_entry user;
static bool is_set;

int file_user_set(const char *who, struct err *e)
{
	size_t len;
	const char *text = file_names_passwd(&len);

	if (*who == '\0')
		return 0;
	if (!users_find(text, len, who, &user)) {
		(void)err_set(e, ERR_NOT_FOUND, "invalid username: '%s'", who);
		e->sys = FILE_MSG_NO_USER;
		return -1;
	}
	is_set = true;
	return 0;
}

bool file_user_is_set(void)
{
	return is_set;
}

int file_user_path(const char *path, char *ret, struct err *e)
{
	if (path[0] == '~' && path[1] != '/' && path[1] != '\0')
		return err_set(e, ERR_INVALID,
			       "paths in the home of another user are not supported: %s", path);
	if (path[0] == '~')
		path += 1 + strspn(path + 1, "/");
	if (!file_path_join(user.home, path, ret, FILE_MSG_PATH_MAX))
		return err_set(e, ERR_LIMIT, "a path of 4096 bytes or more");
	return 0;
}

bool file_user_owner(uint32_t *ret_uid, uint32_t *ret_gid)
{
	if (!is_set || (geteuid() != 0 && geteuid() == user.uid))
		return false;
	*ret_uid = user.uid;
	*ret_gid = user.gid;
	return true;
}

int file_user_give(int fd)
{
	uint32_t uid, gid;
	struct stat st;

	if (!file_user_owner(&uid, &gid))
		return 0;
	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_uid == uid && st.st_gid == gid)
		return 0;
	return fchownat(fd, "", uid, gid, KERNEL_FD_EMPTY_PATH);
}
