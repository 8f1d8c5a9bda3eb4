/* host_size.c - see host_size.h. One fstatat(2) for each file, about a second for 200,000 files
 * that the kernel has in its caches. */
#include "host_size.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fd.h"

#define DEPTH_MAX 64
#define FILES_MAX 4000000U /* more than an image can have */
#define BLOCK 4096U
#define ENTRY 512U /* inode, name, attributes */

struct sum {
	uint64_t bytes;
	unsigned files;
};

static void add(struct sum *s, const struct stat *st)
{
	uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;

	s->files++;
	s->bytes += ENTRY + (size + BLOCK - 1) / BLOCK * BLOCK;
}

static int add_tree(struct sum *s, int parent, const char *name, unsigned depth, struct err *e)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL) {
		fd_close(fd);
		return err_sys(e, "read %.120s", name);
	}
	for (struct dirent *d; result == 0 && (d = readdir(list)) != NULL;) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (s->files >= FILES_MAX)
			break;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* removed meanwhile */
		add(s, &st);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			result = add_tree(s, fd, d->d_name, depth + 1, e);
	}
	(void)closedir(list);
	return result;
}

int host_size(uint64_t enough, uint64_t *ret_bytes, struct err *e)
{
	struct statvfs v;
	struct sum s = { 0 };

	if (statvfs("/usr", &v) == 0 && (v.f_blocks - v.f_bfree) <= enough / v.f_frsize) {
		*ret_bytes = (v.f_blocks - v.f_bfree) * v.f_frsize;
		return 0;
	}
	if (add_tree(&s, AT_FDCWD, "/usr", 0, e) < 0)
		return err_wrap(e, "the size of /usr");
	*ret_bytes = s.bytes;
	return 0;
}

uint64_t host_size_room(const char *dir)
{
	struct statvfs v;

	return statvfs(dir, &v) == 0 ? v.f_bavail * v.f_frsize : 0;
}
