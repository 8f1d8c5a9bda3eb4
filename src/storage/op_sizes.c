/* op_sizes.c - the bytes that the images of disks and volumes really take. They are sparse: what
 * programs in cells write shows here and nowhere else, and no program in a cell is asked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "storage/storage_ops.h"

#define BLOCK 512U /* of st_blocks */
#define END ".img" /* of a disk's name, see op_disk.c */
#define BUFFER 256

/* Rows are sent in batches, so any number of images takes the same memory. */
struct op_sizes {
	int out; /* borrowed */
	unsigned n;
	struct storage_size rows[BUFFER];
};

static int sizes_flush(struct op_sizes *s, struct err *e)
{
	unsigned n = s->n;

	s->n = 0;
	return n == 0 ? 0 : io_write_all(s->out, s->rows, n * sizeof(s->rows[0]), e);
}

static int sizes_put(struct op_sizes *s, const char *id, const struct stat *st, struct err *e)
{
	struct storage_size *row = &s->rows[s->n++];

	*row = (struct storage_size){ .bytes = (uint64_t)st->st_blocks * BLOCK };
	(void)snprintf(row->id, sizeof(row->id), "%s", id);
	return s->n == BUFFER ? sizes_flush(s, e) : 0;
}

/* An entry of the disks' or the volumes' folder. Others are passed over. */
static int sizes_add(struct op_sizes *s, int folder, char *name, bool is_disk, struct err *e)
{
	size_t n = strlen(name), end = strlen(END);
	char path[NAME_MAX + 8];
	struct stat st;

	(void)snprintf(path, sizeof(path), is_disk ? "%s" : "%s/image", name);
	if (is_disk && (n <= end || strcmp(name + n - end, END) != 0))
		return 0;
	if (is_disk)
		name[n - end] = '\0';
	if (name[0] == '.' || strlen(name) >= STORAGE_ID_MAX ||
	    fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return sizes_put(s, name, &st, e);
}

static int sizes_of(struct op_sizes *s, const char *path, bool is_disk, struct err *e)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), result = 0;
	DIR *d = folder < 0 ? NULL : fdopendir(folder);

	if (d == NULL)
		return err_sys(e, "list %s", path);
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		result = sizes_add(s, folder, entry->d_name, is_disk, e);
	(void)closedir(d);
	return result;
}

int op_sizes(struct storage_run *run, struct err *e)
{
	static struct op_sizes s; /* large */

	s.out = run->fds[0];
	if (sizes_of(&s, STORAGE_DISKS, true, e) < 0 || sizes_of(&s, STORAGE_VOLUMES, false, e) < 0)
		return -1;
	return sizes_flush(&s, e);
}
