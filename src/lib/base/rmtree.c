#include "lib/base/rmtree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "lib/base/own.h"

#define DEPTH_MAX 256

static void rmtree_remove_below(int dir_fd, const char *name, unsigned depth)
{
	DIR *d;
	int fd;

	if (unlinkat(dir_fd, name, 0) == 0)
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 || depth == 0 ? NULL : fdopendir(fd);
	if (d == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			rmtree_remove_below(fd, entry->d_name, depth - 1);
	(void)closedir(d);
	(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void rmtree(int dir_fd, const char *name)
{
	rmtree_remove_below(dir_fd, name, DEPTH_MAX);
}
