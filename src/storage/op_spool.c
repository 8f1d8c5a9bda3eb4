/* op_spool.c - writes what a client uploads to a file without a name, and sends its descriptor with
 * the answer. The bytes are not looked at, so this needs no worker.
 *
 * The file has the name of its job until it is open: what a kill leaves is removed as for every
 * other job. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "chunk_in.h"
#include "io.h"
#include "storage_ops.h"

#define BUFFER 262144
#define ROOM_STEP (64U << 20) /* the room on the disk is looked at once in so many bytes */

static int open_file(uint64_t serial, struct err *e)
{
	OWN_FD folder = open(STORAGE_UPLOADS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN_FD fd = -1;
	char name[64];

	(void)snprintf(name, sizeof(name), STORAGE_NEW "%llu", (unsigned long long)serial);
	if (folder >= 0)
		fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || unlinkat(folder, name, 0) < 0)
		return storage_ops_fail(e, "make a file for an upload");
	return TAKE_FD(fd);
}

static int check_room(int fd, uint32_t percent, struct err *e)
{
	struct statvfs fs;
	uint64_t size, left;

	if (fstatvfs(fd, &fs) < 0)
		return err_sys(e, "upload");
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left < ROOM_STEP || left - ROOM_STEP < size / 100 * percent)
		return err_set_reason(e, REASON_STORAGE_FULL,
				      "the disk of the storage folder is full up to its reserve "
				      "(storage_reserve)");
	return 0;
}

static int put(int fd, const void *bytes, size_t len, struct err *e)
{
	if (io_write_all(fd, bytes, len, e) == 0)
		return 0;
	errno = e->sys;
	return storage_ops_fail(e, "write an upload");
}

static int fill(const struct storage_spool *r, int in, int fd, uint64_t *ret_total, struct err *e)
{
	static char buffer[BUFFER];
	uint64_t checked = 0;
	ssize_t n;

	while ((n = chunk_in_read(in, buffer, BUFFER, e)) > 0) {
		*ret_total += (uint64_t)n;
		if (*ret_total > r->bytes_max)
			return err_set_reason(e, REASON_TOO_LARGE, "more than %llu bytes",
					      (unsigned long long)r->bytes_max);
		if (*ret_total > checked) {
			if (check_room(fd, r->reserve_percent, e) < 0)
				return -1;
			checked = *ret_total + ROOM_STEP;
		}
		if (put(fd, buffer, (size_t)n, e) < 0)
			return -1;
	}
	return n < 0 ? -1 : 0;
}

int op_spool(struct storage_run *run, struct err *e)
{
	int opened = open_file(run->serial, e);

	if (opened < 0)
		return -1;
	OWN_FD fd = opened;
	if (fill(&run->r->spool, run->fds[0], fd, &run->reply->bytes, e) < 0)
		return -1;
	run->fd = TAKE_FD(fd);
	return 0;
}
