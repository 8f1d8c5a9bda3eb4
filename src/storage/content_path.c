/* content_path.c - paths in a volume to descriptors. See content.h. Paths are clean: they begin
 * with '/', and have no empty, "." or ".." component (storage_msg_check()). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "content.h"
#include "kernel.h"

#define RESOLVE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define TRIES 32 /* the kernel says EAGAIN when something is renamed meanwhile */

#define ID_DEFAULT 1000 /* "user" of every template */

int content_fail(struct err *e, const char *path)
{
	int sys = errno;

	(void)err_sys(e, "%.100s", path);
	e->sys = sys;
	return -1;
}

int content_open(const struct content *c, const char *path, uint64_t flags)
{
	int fd = -1;

	for (int i = 0; i < TRIES; i++) {
		fd = kernel_openat2(c->data, path, flags | O_CLOEXEC, RESOLVE);
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}

void content_place_release(struct content_place *p)
{
	if (p->dir >= 0)
		fd_close(p->dir);
	p->dir = -1;
}

int content_chown(const struct content *c, int fd, uint32_t uid, uint32_t gid)
{
	if (c->single)
		return 0;
	return fchown(fd, uid == STORAGE_CONTENT_UNSET ? uid : uid + c->shift,
		      gid == STORAGE_CONTENT_UNSET ? gid : gid + c->shift);
}

int content_give(const struct content *c, int fd, mode_t mode)
{
	uint32_t uid = c->r->uid == STORAGE_CONTENT_UNSET ? ID_DEFAULT : c->r->uid;
	uint32_t gid = c->r->gid == STORAGE_CONTENT_UNSET ? ID_DEFAULT : c->r->gid;

	return content_chown(c, fd, uid, gid) < 0 || fchmod(fd, mode) < 0 ? -1 : 0;
}

/* Makes a parent directory, if it is not there. */
static int make_parent(const struct content *c, int dir, const char *name)
{
	OWN_FD fd = -1;

	if (mkdirat(dir, name, 0700) < 0)
		return errno == EEXIST ? 0 : -1;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -1 : content_give(c, fd, 0755);
}

/* The directory at the first len bytes of path, and all directories above it. */
static int make_parents(const struct content *c, const char *path, size_t len)
{
	char part[CONTENT_PATH_MAX], name[NAME_MAX + 1];
	int dir = content_open(c, "/", O_PATH | O_DIRECTORY);

	for (size_t at = 1; dir >= 0 && at < len;) {
		size_t end = at + strcspn(path + at, "/");
		OWN_FD above = dir;

		if (end - at > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		(void)snprintf(part, sizeof(part), "%.*s", (int)end, path);
		(void)snprintf(name, sizeof(name), "%.*s", (int)(end - at), path + at);
		dir = content_open(c, part, O_PATH | O_DIRECTORY);
		if (dir < 0 && errno == ENOENT) {
			if (make_parent(c, above, name) < 0)
				return -1;
			dir = content_open(c, part, O_PATH | O_DIRECTORY);
		}
		at = end + 1;
	}
	return dir;
}

int content_find(const struct content *c, const char *path, bool parents, struct content_place *ret,
		 struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t len = (size_t)(slash - path);
	char parent[CONTENT_PATH_MAX];

	errno = EINVAL;
	if (slash[1] == '\0')
		return content_fail(e, path);
	errno = ENAMETOOLONG;
	if (strlen(slash + 1) > NAME_MAX)
		return content_fail(e, path);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", slash + 1);
	(void)snprintf(parent, sizeof(parent), "%.*s", len == 0 ? 1 : (int)len, path);
	ret->dir = parents && len > 0 ? make_parents(c, path, len)
				      : content_open(c, parent, O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? content_fail(e, path) : 0;
}
