#include "cell/init/changes/layer_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#include "lib/base/io.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

static int layer_place_open_dir(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, DIR_FLAGS | O_CLOEXEC);
}

int layer_place_open(struct layer_place *ret, unsigned number, const char *mount, int first_fd,
		     unsigned n)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "u%u", number);
	ret->nlower = 0;
	ret->merged = layer_place_open_dir(3, mount[1] == '\0' ? "." : mount + 1);
	for (unsigned i = n; i > 0; i--)
		ret->lower[ret->nlower++] = fcntl(first_fd + (int)i - 1, F_DUPFD_CLOEXEC, first_fd);
	ret->upper = open(name, DIR_FLAGS | O_CLOEXEC);
	return ret->upper < 0 ? -1 : 0;
}

void layer_place_enter(const struct layer_place *p, const char *name, struct layer_place *ret)
{
	struct stat st;

	ret->upper = layer_place_open_dir(p->upper, name);
	ret->merged = layer_place_open_dir(p->merged, name);
	ret->nlower = 0;
	for (unsigned i = 0; i < p->nlower; i++) {
		if (!layer_place_in(p->lower[i], name, &st))
			continue;
		if (!S_ISDIR(st.st_mode))
			break;
		ret->lower[ret->nlower++] = layer_place_open_dir(p->lower[i], name);
	}
}

void layer_place_close(struct layer_place *p)
{
	io_close_all(&p->upper, 1);
	io_close_all(&p->merged, 1);
	io_close_all(p->lower, p->nlower);
}

bool layer_place_in(int dir, const char *name, struct stat *ret)
{
	return dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

bool layer_place_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

int layer_place_find(const struct layer_place *p, const char *name, struct stat *ret)
{
	for (unsigned i = 0; i < p->nlower; i++)
		if (layer_place_in(p->lower[i], name, ret))
			return layer_place_is_whiteout(ret) ? -1 : (int)i;
	return -1;
}

DIR *layer_place_list(int dir)
{
	int again = openat(dir, ".", DIR_FLAGS | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (d == NULL && again >= 0)
		fd_close(again);
	return d;
}

bool layer_place_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

void layer_place_raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

int layer_place_stack(int nplaces, char **places)
{
	int n = 1;

	while (n < nplaces && n < CELL_LAYERS_MAX && strcmp(places[n], places[0]) == 0)
		n++;
	return n;
}
