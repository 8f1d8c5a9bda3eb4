#include "member_dir.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel.h"
#include "member_make.h"

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

void member_dir_init(struct member_dir *d, int top)
{
	d->top = top;
	d->fd = -1;
	d->path[0] = '\0';
}

/* The length of the directory's part of a path, and its last part. */
static int split(const char *path, size_t *ret_len, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');

	*ret_len = slash == NULL ? 0 : (size_t)(slash - path);
	*ret_name = slash == NULL ? path : slash + 1;
	if (**ret_name == '\0' || strlen(*ret_name) > NAME_MAX)
		return err_set(e, ERR_INVALID, "a name that is empty or of over 255 bytes");
	return 0;
}

static int open_part(int top, const char *path, size_t n, int *ret_fd, struct err *e)
{
	char dirs[TAR_HEAD_PATH_MAX];

	memcpy(dirs, path, n);
	dirs[n] = '\0';
	*ret_fd = kernel_openat2(top, n == 0 ? "." : dirs, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				 BENEATH);
	return *ret_fd < 0 ? member_fail(e, "open", dirs) : 0;
}

int member_dir_open(const struct member_dir *d, const char *path, const char **ret_name,
		    int *ret_fd, struct err *e)
{
	size_t n;

	return split(path, &n, ret_name, e) < 0 ? -1 : open_part(d->top, path, n, ret_fd, e);
}

int member_dir_leave(struct member_dir *d, struct err *e)
{
	const struct timespec times[2] = { { 0, UTIME_OMIT }, d->time };
	int done = d->fd < 0 ? 0 : futimens(d->fd, times);

	if (done < 0)
		return member_fail(e, "set the time of", d->path);
	if (d->fd >= 0)
		fd_close(d->fd);
	d->fd = -1;
	return 0;
}

int member_dir_enter(struct member_dir *d, const char *path, const char **ret_name, struct err *e)
{
	struct stat st;
	size_t n;

	if (split(path, &n, ret_name, e) < 0)
		return -1;
	if (d->fd >= 0 && strncmp(d->path, path, n) == 0 && d->path[n] == '\0')
		return 0;
	if (member_dir_leave(d, e) < 0 || open_part(d->top, path, n, &d->fd, e) < 0)
		return -1;
	memcpy(d->path, path, n);
	d->path[n] = '\0';
	if (fstat(d->fd, &st) < 0)
		return member_fail(e, "open", d->path);
	d->time = st.st_mtim;
	return 0;
}
