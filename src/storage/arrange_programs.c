#include "arrange_programs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define TOP "opt/cordon"
#define DEPTH_MAX 5U
#define PATH_CAP 512

static int add_dir(struct arranging *a, int from, const char *path, unsigned depth, struct err *e);

static int add_file(struct arranging *a, int dir, const char *name, const char *path,
		    const struct stat *st, struct err *e)
{
	const struct arranged f = { .mode = st->st_mode & 0755 };
	struct buf b = BUF_INIT(ARRANGE_FILE_MAX);
	OWN_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int result = fd < 0 ? err_sys(e, "open %s", path) : 0;
	ssize_t n = 1;

	while (result == 0 && n > 0) {
		uint8_t *room = buf_reserve(&b, 65536, e);

		n = room == NULL ? -1 : read(fd, room, 65536);
		if (room == NULL)
			result = -1;
		else if (n < 0)
			result = err_sys(e, "read %s", path);
		else
			buf_commit(&b, (size_t)n);
	}
	if (result == 0)
		result = arrange_write(a, path, &f, buf_text(&b), b.len, e);
	buf_release(&b);
	return result;
}

static int add_entry(struct arranging *a, int dir, const char *name, const char *path,
		     unsigned depth, struct err *e)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "stat %s", path);
	if (S_ISREG(st.st_mode))
		return add_file(a, dir, name, path, &st, e);
	if (!S_ISDIR(st.st_mode) || depth == 0)
		return 0; /* a link to a program of the machine */
	OWN_FD below = openat(dir, name, DIR_FLAGS | O_CLOEXEC);
	return below < 0 ? err_sys(e, "open %s", path) : add_dir(a, below, path, depth - 1, e);
}

static int add_dir(struct arranging *a, int from, const char *path, unsigned depth, struct err *e)
{
	OWN_FD again = openat(from, ".", DIR_FLAGS | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	int result = 0;

	if (d == NULL)
		return err_sys(e, "list %s", path);
	(void)TAKE_FD(again);
	if (arrange_dir(a, path, 0755, 0, e) < 0)
		result = -1;
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;) {
		char below[PATH_CAP];

		(void)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		result = add_entry(a, from, entry->d_name, below, depth, e);
	}
	(void)closedir(d);
	return result;
}

int arrange_programs(struct arranging *a, int from, struct err *e)
{
	if (add_dir(a, from, TOP, DEPTH_MAX, e) == 0 || e->code == ERR_INVALID)
		return 0;
	return err_wrap(e, "programs for cells");
}
