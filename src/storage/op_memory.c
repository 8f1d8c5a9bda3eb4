/* op_memory.c - memory images: the memory and device state of a stopped virtual machine. An image
 * is a layer like others, whose directory has the files `ram` and `devices`. Pages of zeros are
 * holes. Its bytes are not looked at, but they can have everything that a program in the machine
 * had, so no other user of this machine may read them: the storage folder is closed to them, and
 * the files are, too.
 *
 * A copy is made for forked sessions: pages written by a cell are charged to that cell as long as
 * anyone maps them, and pages written here are not.
 *
 * Incoming memory was sealed by its sender, so it does not change while it is read. Outgoing memory
 * is sealed here, so that no virtual machine can change what others are started from. */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/memfd_seal.h"
#include "storage/layer_make.h"
#include "storage/sparse_copy.h"
#include "storage/storage_room.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static const char *const parts[] = { "ram", "devices" };

/* ---- to disk */

/* The size is set at the end, because a hole may be the last part. */
static int memory_save_part(struct sparse_copy *c, int top, const char *name, int from,
			    struct err *e)
{
	OWN_FD fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
	struct stat st;

	if (fd < 0)
		return storage_ops_fail(e, "make a memory image");
	if (fstat(from, &st) < 0)
		return err_sys(e, "memory");
	c->to = fd;
	if (sparse_copy(c, from, (uint64_t)st.st_size, 0, e) < 0)
		return -1;
	if (ftruncate(fd, st.st_size) < 0 || fsync(fd) < 0)
		return storage_ops_fail(e, "write a memory image to disk");
	return 0;
}

static int memory_save(void *arg, int top, const int *lower, struct storage_reply *reply,
		       struct err *e)
{
	const struct storage_run *run = arg;
	const struct storage_memory *r = &run->r->memory;
	struct sparse_copy c = { .skip_zeros = true, .bytes_max = r->bytes_max };

	storage_room_keep(r->reserve_percent);
	for (unsigned i = 0; i < COUNT(parts); i++)
		if (memory_save_part(&c, top, parts[i], run->fds[i], e) < 0)
			return -1;
	reply->bytes = c.written;
	reply->entries = COUNT(parts);
	return 0;
}

/* Only memfds have seals, so other files are refused, too. */
static int memory_check_sealed(int fd, struct err *e)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(e, ERR_INVALID, "memory that is not sealed");
	return 0;
}

int op_memory_save(struct storage_run *run, struct err *e)
{
	const struct layer_make make = {
		.id = run->r->memory.layer, .synced = true, .work = memory_save, .arg = run
	};

	for (unsigned i = 0; i < COUNT(parts); i++)
		if (memory_check_sealed(run->fds[i], e) < 0)
			return -1;
	return layer_make(run, &make, e);
}

/* ---- in memory */

/* to: a memfd that the caller made. No process can write to it afterwards. */
static int memory_fill_part(struct sparse_copy *c, int from, int to, struct err *e)
{
	struct stat st;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return err_sys(e, "memory");
	c->to = to;
	if (sparse_copy(c, from, (uint64_t)st.st_size, 0, e) < 0)
		return -1;
	return memfd_seal(to, SEALS | F_SEAL_SEAL) < 0 ? err_sys(e, "seal memory") : 0;
}

int op_memory_copy(struct storage_run *run, struct err *e)
{
	struct sparse_copy c = { .skip_zeros = true, .bytes_max = run->r->memory.bytes_max };

	for (unsigned i = 0; i < COUNT(parts); i++)
		if (memory_check_sealed(run->fds[i], e) < 0 ||
		    memory_fill_part(&c, run->fds[i], run->fds[COUNT(parts) + i], e) < 0)
			return -1;
	run->reply->bytes = c.written;
	run->reply->entries = COUNT(parts);
	return 0;
}

/* ---- from disk */

static int memory_load_part(int layers, const char *layer, const char *name, int to,
			    uint64_t *ret_bytes, struct err *e)
{
	struct sparse_copy c = { .bytes_max = UINT64_MAX };
	char path[STORAGE_ID_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", layer, name);
	OWN_FD fd = openat(layers, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_NOT_FOUND, "there is no memory image %.60s", layer);
	if (memory_fill_part(&c, fd, to, e) < 0)
		return -1;
	*ret_bytes += c.written;
	return 0;
}

/* Holes of the file stay holes of the memory. */
int op_memory_load(struct storage_run *run, struct err *e)
{
	OWN_FD layers = storage_ops_open_layers(e);

	for (unsigned i = 0; i < COUNT(parts); i++)
		if (layers < 0 || memory_load_part(layers, run->r->memory.layer, parts[i],
						   run->fds[i], &run->reply->bytes, e) < 0)
			return -1;
	run->reply->entries = COUNT(parts);
	return 0;
}
