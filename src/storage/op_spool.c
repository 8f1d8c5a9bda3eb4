/* op_spool.c - writes a client's upload to a file: one that came with the request, or one without a
 * name, whose descriptor is sent with the answer. The bytes are not looked at, so this needs no
 * worker.
 *
 * A file without a name has that of its job until it is open: the remains of a kill are removed as
 * for every other job. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/sha256.h"
#include "storage/chunk_in.h"
#include "storage/storage_ops.h"
#include "storage/storage_room.h"

#define BUFFER 262144

/* The file loses its name at once, and exists as long as its descriptor is open. */
static int spool_open_file(uint64_t serial, struct err *e)
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

static int spool_put(int fd, const void *bytes, size_t len, struct err *e)
{
	if (io_write_all(fd, bytes, len, e) == 0)
		return 0;
	errno = e->sys;
	return storage_ops_fail(e, "write an upload");
}

/* The upload while it is written. */
struct spool_sink {
	const struct storage_spool *r;
	int fd; /* borrowed */
	uint64_t total;
	struct sha256 hash;
};

static int spool_take(struct spool_sink *k, const char *bytes, size_t n, struct err *e)
{
	k->total += n;
	if (k->total > k->r->bytes_max)
		return err_set_reason(e, REASON_TOO_LARGE, "more than %llu bytes",
				      (unsigned long long)k->r->bytes_max);
	if (storage_room_take(k->fd, n, e) < 0)
		return -1;
	if ((k->r->flags & STORAGE_SPOOL_SHA256) != 0)
		sha256_add(&k->hash, bytes, n);
	return spool_put(k->fd, bytes, n, e);
}

static int spool_fill(struct spool_sink *k, int in, struct err *e)
{
	static char buffer[BUFFER];
	ssize_t n;

	sha256_init(&k->hash);
	storage_room_keep(k->r->reserve_percent);
	while ((n = chunk_in_read(in, buffer, BUFFER, e)) > 0)
		if (spool_take(k, buffer, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? -1 : 0;
}

int op_spool(struct storage_run *run, struct err *e)
{
	const struct storage_spool *r = &run->r->spool;
	bool given = (r->flags & STORAGE_SPOOL_FILE) != 0;
	int opened =
		given ? fcntl(run->fds[1], F_DUPFD_CLOEXEC, 3) : spool_open_file(run->serial, e);

	if (opened < 0)
		return given ? err_sys(e, "the file of an upload") : -1;
	OWN_FD fd = opened;
	struct spool_sink k = { .r = r, .fd = fd };
	if (spool_fill(&k, run->fds[0], e) < 0)
		return -1;
	if (given && fdatasync(fd) < 0)
		return storage_ops_fail(e, "write an upload");
	run->reply->bytes = k.total;
	sha256_end(&k.hash, run->reply->sha256);
	if (!given)
		run->fd = TAKE_FD(fd);
	return 0;
}
