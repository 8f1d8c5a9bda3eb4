/* op_disk.c - the disks of sessions: ext4 images, STORAGE_DISKS/<session id>.img. The keeper mounts
 * them (cell/keeper/disk_image.h). Here they are made, checked and removed. No byte of an image is
 * written by a tenant: cells have its files only, through the kernel's ext4.
 *
 * A new image is sparse: it takes a few hundred kilobytes whatever its size. mkfs is told that it
 * reads zeros everywhere, so it writes no inode tables and the kernel does not either. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "storage/disk_tool.h"
#include "storage/storage_ops.h"

#define MKFS "/usr/sbin/mkfs.ext4"
#define FSCK "/usr/sbin/e2fsck"
#define END ".img"
#define FSCK_ERRORS_LEFT 4 /* e2fsck(8): 0 clean, 1 and 2 corrected, 4 and up not */

static int disk_open_disks(struct err *e)
{
	int fd = open(STORAGE_DISKS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open the folder of disks") : fd;
}

/* "ID.img". Ids are checked, so no other file of the folder is named. */
static void disk_name_of(const char *id, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%s" END, id);
}

/* The program opens the image by its path, in the runner's jail. */
static int disk_format(const char *path, const struct storage_disk *r, struct err *e)
{
	char inodes[16], line[160];
	const char *const argv[] = {
		MKFS, "-q", "-F", "-m", "0", "-b", "4096", "-N", inodes,
		/* The size never changes. */
		"-O", "^resize_inode", "-e", "remount-ro", "-E",
		"assume_storage_prezeroed=1,lazy_journal_init=1,nodiscard,root_owner=0:0", path,
		NULL
	};
	int status;

	(void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)r->inodes);
	if (disk_tool_run(argv, &status, line, sizeof(line), e) < 0)
		return -1;
	return status == 0 ? 0 : disk_tool_not_made(status, line, e);
}

/* Make the image under a temporary name. */
static int disk_make_new(int disks, const char *temporary, const struct storage_disk *r,
			 struct err *e)
{
	OWN_FD fd = openat(disks, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char path[128];

	if (fd < 0 || ftruncate(fd, (off_t)r->bytes) < 0)
		return storage_ops_fail(e, "make the disk");
	(void)snprintf(path, sizeof(path), STORAGE_DISKS "/%s", temporary);
	if (disk_format(path, r, e) < 0)
		return -1;
	if ((r->flags & STORAGE_DISK_SYNC) != 0 && fsync(fd) < 0)
		return storage_ops_fail(e, "sync the disk");
	return 0;
}

/* A former disk of the session is replaced by the rename. */
int op_disk_make(struct storage_run *run, struct err *e)
{
	const struct storage_disk *r = &run->r->disk;
	OWN_FD disks = disk_open_disks(e);
	char temporary[64], name[STORAGE_ID_MAX + 8];

	if (disks < 0)
		return -1;
	(void)snprintf(temporary, sizeof(temporary), STORAGE_NEW "%llu",
		       (unsigned long long)run->serial);
	disk_name_of(r->id, name, sizeof(name));
	if (disk_make_new(disks, temporary, r, e) == 0) {
		if (renameat(disks, temporary, disks, name) == 0 &&
		    ((r->flags & STORAGE_DISK_SYNC) == 0 || fsync(disks) == 0))
			return 0;
		IGNORED(storage_ops_fail(e, "rename the disk"), "removed below");
	}
	(void)unlinkat(disks, temporary, 0);
	return -1;
}

/* The lock is the keeper's, too: a mounted disk is refused. */
int op_disk_check(struct storage_run *run, struct err *e)
{
	OWN_FD disks = disk_open_disks(e);
	char name[STORAGE_ID_MAX + 8], path[128], line[160];
	const char *const argv[] = { FSCK, "-p", path, NULL };
	int status;

	if (disks < 0)
		return -1;
	disk_name_of(run->r->disk.id, name, sizeof(name));
	OWN_FD fd = openat(disks, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "the session has no disk");
	if (fd < 0)
		return storage_ops_fail(e, "open the disk");
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, ERR_CONFLICT, "the disk is in use");
	(void)snprintf(path, sizeof(path), STORAGE_DISKS "/%s", name);
	if (disk_tool_run(argv, &status, line, sizeof(line), e) < 0)
		return -1;
	if (status >= FSCK_ERRORS_LEFT)
		return err_set(e, ERR_SYSTEM, "e2fsck -p cannot repair the disk (status %d): %s",
			       status, line);
	return 0;
}

/* A disk that does not exist is a success, so cordond may ask again. */
int op_disk_remove(struct storage_run *run, struct err *e)
{
	OWN_FD disks = disk_open_disks(e);
	char name[STORAGE_ID_MAX + 8];

	if (disks < 0)
		return -1;
	disk_name_of(run->r->disk.id, name, sizeof(name));
	if (unlinkat(disks, name, 0) < 0 && errno != ENOENT)
		return storage_ops_fail(e, "remove the disk");
	return 0;
}

/* Ids go to the descriptor of the request, each with its NUL. */
int op_disk_list(struct storage_run *run, struct err *e)
{
	int disks = disk_open_disks(e), result = 0;
	DIR *d = disks < 0 ? NULL : fdopendir(disks);

	if (d == NULL)
		return disks < 0 ? -1 : err_sys(e, "list the disks");
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;) {
		size_t n = strlen(entry->d_name);

		if (n <= strlen(END) || strcmp(entry->d_name + n - strlen(END), END) != 0)
			continue;
		entry->d_name[n - strlen(END)] = '\0';
		if (storage_msg_is_id(entry->d_name, STORAGE_ID_MAX))
			result = io_write_all(run->fds[0], entry->d_name, strlen(entry->d_name) + 1,
					      e);
	}
	(void)closedir(d);
	return result;
}
