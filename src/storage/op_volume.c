/* op_volume.c - makes, removes and measures volumes. See op_content.c for a volume's files on disk.
 * Files in it belong to a tenant, but here none is opened, and no link is followed.
 *
 * A volume is made under a temporary name, and renamed when it is whole. It is renamed before it is
 * removed. The remains of a killed process are removed by storage_ops_clean(), or at the next start
 * by storage_ops_setup(). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "storage/disk_tool.h"
#include "storage/storage_jail.h"
#include "storage/storage_ops.h"
#include "storage/tree_remove.h"

#define MKFS "/usr/sbin/mkfs.ext4"
#define BLOCK 512U /* of st_blocks */
#define USER 1000  /* "user" of every template owns the top directory */

static void volume_temporary(const struct storage_run *run, const char *prefix, char ret[64])
{
	(void)snprintf(ret, 64, "%s%llu", prefix, (unsigned long long)run->serial);
}

/* Every user of a cell may write in the top directory, as in E2B's volumes. */
static int volume_make_data(int volume, struct err *e)
{
	struct storage_ids ids = storage_jail_ids();
	uint32_t id = ids.single ? 0 : USER + ids.shift;

	if (mkdirat(volume, "data", 0700) < 0 || mkdirat(volume, "new", 0700) < 0)
		return storage_ops_fail(e, "make the volume");
	OWN_FD data = openat(volume, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (data < 0 || fchown(data, id, id) < 0 || fchmod(data, 0777) < 0)
		return storage_ops_fail(e, "make the volume");
	return 0;
}

/* mke2fs copies the directory tree into the new file system. One inode for 16 KiB of size. */
static int volume_format(const char *name, uint64_t bytes, struct err *e)
{
	char image[128], tree[128], inodes[24], line[160];
	const char *const argv[] = {
		MKFS,
		"-q",
		"-F",
		"-m",
		"0",
		"-b",
		"4096",
		"-N",
		inodes,
		"-d",
		tree,
		"-O",
		"^resize_inode",
		"-e",
		"remount-ro",
		"-E",
		"assume_storage_prezeroed=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
		image,
		NULL
	};
	int status;

	(void)snprintf(image, sizeof(image), STORAGE_VOLUMES "/%s/image", name);
	(void)snprintf(tree, sizeof(tree), STORAGE_VOLUMES "/%s/tree", name);
	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)(bytes / 16384 + 64));
	if (disk_tool_run(argv, &status, line, sizeof(line), e) < 0)
		return -1;
	return status == 0 ? 0 : disk_tool_not_made(status, line, e);
}

/* A sparse file system with the content of the directory tree. The tree is removed. */
static int volume_make_image(int volume, const char *name, uint64_t bytes, struct err *e)
{
	OWN_FD image = openat(volume, "image", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (image < 0 || ftruncate(image, (off_t)(bytes & ~4095ULL)) < 0 ||
	    mkdirat(volume, "tree", 0700) < 0)
		return storage_ops_fail(e, "make the volume");
	OWN_FD tree = openat(volume, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (tree < 0)
		return storage_ops_fail(e, "make the volume");
	if (volume_make_data(tree, e) < 0 || volume_format(name, bytes, e) < 0)
		return -1;
	return tree_remove(volume, "tree", e);
}

/* Make the volume under a temporary name, and bring all of it to disk. */
static int volume_make_new(int volumes, const char *name, const struct storage_volume *r,
			   struct err *e)
{
	if (mkdirat(volumes, name, 0700) < 0)
		return storage_ops_fail(e, "make the volume");
	OWN_FD volume = openat(volumes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (volume < 0)
		return storage_ops_fail(e, "make the volume");
	if ((r->image != 0 ? volume_make_image(volume, name, r->bytes, e)
			   : volume_make_data(volume, e)) < 0)
		return -1;
	return syncfs(volume) < 0 ? storage_ops_fail(e, "sync the volume") : 0;
}

/* A volume that does not exist is a success. */
static int volume_remove_named(const struct storage_run *run, int volumes, const char *name,
			       struct err *e)
{
	char gone[64];

	volume_temporary(run, STORAGE_GONE, gone);
	if (renameat(volumes, name, volumes, gone) < 0)
		return errno == ENOENT ? 0 : storage_ops_fail(e, "rename the volume");
	return tree_remove(volumes, gone, e);
}

/* A former volume with the name is removed first. */
int op_volume_make(struct storage_run *run, struct err *e)
{
	const struct storage_volume *r = &run->r->volume;
	OWN_FD volumes = storage_ops_open_volumes(e);
	char new[64];

	if (volumes < 0 || volume_remove_named(run, volumes, r->volume, e) < 0)
		return -1;
	volume_temporary(run, STORAGE_NEW, new);
	if (volume_make_new(volumes, new, r, e) == 0) {
		if (renameat(volumes, new, volumes, r->volume) == 0 && fsync(volumes) == 0)
			return 0;
		IGNORED(storage_ops_fail(e, "rename the volume"), "removed below");
	}
	IGNORED(tree_remove(volumes, new, &(struct err){ 0 }), "removed at the next start");
	return -1;
}

int op_volume_remove(struct storage_run *run, struct err *e)
{
	OWN_FD volumes = storage_ops_open_volumes(e);

	return volumes < 0 ? -1 : volume_remove_named(run, volumes, run->r->volume.volume, e);
}

/* ---- usage */

#define DEPTH_MAX 256 /* what is deeper is not counted */

/* Cells change the tree at the same time, so entries that vanish are passed over. */
static int volume_add_below(int dir, const char *name, unsigned depth, struct storage_reply *sum)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (d == NULL) {
		if (fd >= 0)
			fd_close(fd);
		return -1;
	}
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		sum->entries++;
		/* A file with several names counts once for each part of it. */
		sum->bytes += (uint64_t)st.st_blocks * BLOCK /
			      (st.st_nlink > 0 && !S_ISDIR(st.st_mode) ? st.st_nlink : 1);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			IGNORED(volume_add_below(fd, entry->d_name, depth + 1, sum),
				"removed meanwhile");
	}
	(void)closedir(d);
	return 0;
}

/* The blocks that the sparse file has. */
static int volume_image_usage(const struct storage_run *run, int volumes, struct err *e)
{
	char path[STORAGE_ID_MAX + 8];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/image", run->r->volume.volume);
	if (fstatat(volumes, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return storage_ops_fail(e, "read the volume");
	run->reply->bytes = (uint64_t)st.st_blocks * BLOCK;
	return 0;
}

int op_volume_usage(struct storage_run *run, struct err *e)
{
	OWN_FD volumes = storage_ops_open_volumes(e);
	char path[STORAGE_ID_MAX + 8];

	if (volumes < 0)
		return -1;
	if (run->r->volume.image != 0)
		return volume_image_usage(run, volumes, e);
	(void)snprintf(path, sizeof(path), "%s/data", run->r->volume.volume);
	return volume_add_below(volumes, path, 0, run->reply) < 0
		       ? storage_ops_fail(e, "read the volume")
		       : 0;
}
