/* guest_memory.c - see guest_memory.h. */
#include "cell/engines/qemu/guest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/base/memfd_seal.h"
#include "lib/base/zeros.h"

#define PAGE 4096U
#define BATCH 512U		      /* pages in one look at the pagemap */
#define RUN (256U << 10)	      /* bytes in one copy */
#define IN_MEMORY (UINT64_C(3) << 62) /* of a pagemap entry: present, or swapped out */
#define OF_FILE (UINT64_C(1) << 61)   /* and not private */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Where the memory of a guest is in its engine's process: one private mapping, of the sealed memory
 * file that it was cloned from (the base) or, after a cold start, of /dev/zero. Used by
 * guest_memory.c, which reads it, and guest_memory.c, which writes to it. The shim may do both
 * because the engine is its child and has the same user.
 *
 * The engine is not trusted: its mappings are taken as they are, and the files of /proc are read
 * with fixed buffers. */

#define MAPS_MAX (4U << 20) /* bytes of /proc/PID/maps, QEMU has 40 KiB */

/* Open a file of /proc/PID: "mem", "pagemap". mode: O_RDONLY, O_RDWR. */
static int guest_memory_mapping_open(pid_t engine, const char *file, int mode, struct err *e)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)engine, file);
	fd = open(path, mode | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* The wanted mapping. */
struct guest_memory_wanted {
	int base_fd;
	uint64_t size;
	struct stat base;
};

/* A number and the character that ends it. */
static bool guest_memory_mapping_take_number(const char **at, int radix, char end, uint64_t *ret)
{
	char *stop;

	*ret = strtoull(*at, &stop, radix);
	if (stop == *at || *stop != end)
		return false;
	*at = stop + 1;
	return true;
}

/* Is this line of /proc/PID/maps the guest's memory? */
static bool guest_memory_mapping_is_guest(const char *line, const struct guest_memory_wanted *w,
					  uint64_t *ret_start)
{
	static const char rights[] = "rw-p ";
	uint64_t end, offset, major, minor, inode;

	if (!guest_memory_mapping_take_number(&line, 16, '-', ret_start) ||
	    !guest_memory_mapping_take_number(&line, 16, ' ', &end) ||
	    strncmp(line, rights, sizeof(rights) - 1) != 0)
		return false;
	line += sizeof(rights) - 1;
	if (!guest_memory_mapping_take_number(&line, 16, ' ', &offset) ||
	    !guest_memory_mapping_take_number(&line, 16, ':', &major) ||
	    !guest_memory_mapping_take_number(&line, 16, ' ', &minor) ||
	    !guest_memory_mapping_take_number(&line, 10, ' ', &inode))
		return false;
	if (end < *ret_start || end - *ret_start != w->size || offset != 0)
		return false;
	if (w->base_fd >= 0)
		return inode == w->base.st_ino &&
		       makedev((unsigned)major, (unsigned)minor) == w->base.st_dev;
	return strcmp(line + strspn(line, " "), "/dev/zero") == 0;
}

/* base: -1 after a cold start. ERR_NOT_FOUND: the process has no such mapping. */
static int guest_memory_mapping_find(pid_t engine, int base, uint64_t size, uint64_t *ret_start,
				     struct err *e)
{
	struct guest_memory_wanted w = { .base_fd = base, .size = size };
	char line[512];
	size_t seen = 0;
	bool found = false;

	if (base >= 0 && fstat(base, &w.base) < 0)
		return err_sys(e, "the guest's memory");
	int fd = guest_memory_mapping_open(engine, "maps", O_RDONLY, e);
	if (fd < 0)
		return -1;
	FILE *maps = fdopen(fd, "re");
	if (maps == NULL) {
		fd_close(fd);
		return err_sys(e, "the guest's memory");
	}
	while (!found && seen < MAPS_MAX && fgets(line, sizeof(line), maps) != NULL) {
		seen += strlen(line);
		line[strcspn(line, "\n")] = '\0';
		found = guest_memory_mapping_is_guest(line, &w, ret_start);
	}
	(void)fclose(maps);
	return found ? 0 : err_set(e, ERR_NOT_FOUND, "the engine has no memory of a guest");
}

/* Write n bytes to `at` of a memory file or of /proc/PID/mem, or fail. */
static int guest_memory_mapping_write(int fd, const uint8_t *bytes, size_t n, uint64_t at,
				      struct err *e)
{
	while (n > 0) {
		ssize_t done = pwrite(fd, bytes, n, (off_t)at);

		if (done <= 0)
			return err_sys(e, "write the guest's memory");
		bytes += done;
		n -= (size_t)done;
		at += (uint64_t)done;
	}
	return 0;
}

/* Give an unstarted clone the memory of another guest: write the changed pages into the engine's
 * process. Used by engine_qemu.c.
 *
 * The pages become private ones of the engine: they are charged to its cell, and the image that it
 * maps stays as it is. The engine must not have loaded the state of its devices, because it checks
 * that against the memory. The file is sealed and as large as the guest's memory. Its holes are
 * left alone. The work is done in steps, as that of guest_memory.h. */

#define BUFFER (256U << 10)

void guest_memory_changes_init(struct guest_memory_changes *c)
{
	*c = (struct guest_memory_changes){ .from_fd = -1, .mem_fd = -1 };
}

void guest_memory_changes_end(struct guest_memory_changes *c)
{
	fd_close(TAKE_FD(c->from_fd));
	fd_close(TAKE_FD(c->mem_fd));
}

int guest_memory_changes_begin(struct guest_memory_changes *c, pid_t engine, int base,
			       uint64_t size, int from, struct err *e)
{
	struct stat st;

	guest_memory_changes_end(c);
	*c = (struct guest_memory_changes){ .from_fd = from, .mem_fd = -1, .size = size };
	if (fstat(from, &st) < 0)
		return err_sys(e, "changes of the guest's memory");
	if ((uint64_t)st.st_size != size)
		return err_set(e, ERR_INVALID, "changes of a memory of another size");
	if (guest_memory_mapping_find(engine, base, size, &c->start, e) < 0)
		return -1;
	c->mem_fd = guest_memory_mapping_open(engine, "mem", O_RDWR, e);
	return c->mem_fd < 0 ? -1 : 0;
}

/* Find the next extent when the known one is written. 0: there is none. */
static int guest_memory_changes_find_extent(struct guest_memory_changes *c, struct err *e)
{
	off_t data, hole;

	if (c->at < c->hole)
		return 1;
	data = lseek(c->from_fd, (off_t)c->at, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		return 0;
	hole = data < 0 ? -1 : lseek(c->from_fd, data, SEEK_HOLE);
	if (hole <= data)
		return err_sys(e, "changes of the guest's memory");
	c->at = (uint64_t)data;
	c->hole = (uint64_t)hole;
	return 1;
}

int guest_memory_changes_step(struct guest_memory_changes *c, uint64_t most, struct err *e)
{
	static uint8_t bytes[BUFFER];
	uint64_t done = 0;

	while (done < most) {
		size_t n;
		int more = guest_memory_changes_find_extent(c, e);

		if (more <= 0)
			return more;
		n = c->hole - c->at < BUFFER ? (size_t)(c->hole - c->at) : BUFFER;
		if (pread(c->from_fd, bytes, n, (off_t)c->at) != (ssize_t)n)
			return err_sys(e, "read changes of the guest's memory");
		if (guest_memory_mapping_write(c->mem_fd, bytes, n, c->start + c->at, e) < 0)
			return -1;
		c->at += n;
		done += n;
	}
	return 1;
}

/* The memory file that QEMU writes the state of its devices into, for a snapshot, and reads it
 * from, as a clone. Used by engine_qemu.c. QEMU's output is not trusted: it is bounded, and sealed
 * before any other program reads it. */

#define DEVICES_MAX (16ULL << 20) /* 12 KiB are usual */

/* QEMU takes a file of a set by its access mode: it asks for a file open for writing only. */
int guest_memory_devices_make(int *ret, int *ret_writer, struct err *e)
{
	char path[32];
	OWN_FD fd = memfd_create("guest-devices", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, "make a memory file");
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret_writer = open(path, O_WRONLY | O_CLOEXEC);
	if (*ret_writer < 0)
		return err_sys(e, "open a memory file");
	*ret = TAKE_FD(fd);
	return 0;
}

int guest_memory_devices_seal(int fd, struct err *e)
{
	struct stat st;

	if (guest_memory_seal(fd, e) < 0)
		return -1;
	if (fstat(fd, &st) < 0 || st.st_size == 0 || (uint64_t)st.st_size > DEVICES_MAX)
		return err_set(e, ERR_INVALID, "QEMU wrote no proper state of its devices");
	return 0;
}

int guest_memory_devices_reopen(int fd, int *ret, struct err *e)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "open the state of the guest's devices") : 0;
}

/* Where the content of a page is. */
enum guest_memory_source { NOWHERE, IN_PROCESS, IN_BASE };

void guest_memory_init(struct guest_memory *m)
{
	*m = (struct guest_memory){ .base_fd = -1, .mem_fd = -1, .pages_fd = -1, .copy_fd = -1 };
}

void guest_memory_end(struct guest_memory *m)
{
	fd_close(TAKE_FD(m->mem_fd));
	fd_close(TAKE_FD(m->pages_fd));
	fd_close(TAKE_FD(m->copy_fd));
}

/* The next entries of the pagemap. Return how many. */
static ssize_t guest_memory_read_pages(const struct guest_memory *m, uint64_t at,
				       uint64_t entries[BATCH], struct err *e)
{
	uint64_t left = (m->size - at) / PAGE;
	size_t n = left < BATCH ? (size_t)left : BATCH;

	if (pread(m->pages_fd, entries, n * sizeof(*entries),
		  (off_t)((m->start + at) / PAGE * sizeof(*entries))) !=
	    (ssize_t)(n * sizeof(*entries)))
		return err_sys(e, "read the engine's pages");
	return (ssize_t)n;
}

static bool guest_memory_is_private(uint64_t entry)
{
	return (entry & IN_MEMORY) != 0 && (entry & OF_FILE) == 0;
}

/* Are the pages that the process has of its own at most so many bytes? */
static int guest_memory_choose_changes(struct guest_memory *m, uint64_t max, struct err *e)
{
	uint64_t entries[BATCH], found = 0;

	if (m->base_fd < 0 || max == 0)
		return 0;
	for (uint64_t at = 0; at < m->size && found * PAGE <= max;) {
		ssize_t n = guest_memory_read_pages(m, at, entries, e);

		if (n < 0)
			return -1;
		for (ssize_t i = 0; i < n; i++)
			found += guest_memory_is_private(entries[i]);
		at += (uint64_t)n * PAGE;
	}
	m->only_changes = found * PAGE <= max;
	return 0;
}

int guest_memory_begin(struct guest_memory *m, pid_t engine, int base, uint64_t size,
		       uint64_t changes_max, struct err *e)
{
	guest_memory_end(m);
	guest_memory_init(m);
	m->base_fd = base;
	m->size = size;
	if (guest_memory_mapping_find(engine, base, size, &m->start, e) < 0)
		return -1;
	m->mem_fd = guest_memory_mapping_open(engine, "mem", O_RDONLY, e);
	if (m->mem_fd < 0)
		return -1;
	m->pages_fd = guest_memory_mapping_open(engine, "pagemap", O_RDONLY, e);
	if (m->pages_fd < 0 || guest_memory_choose_changes(m, changes_max, e) < 0)
		return -1;
	m->copy_fd = memfd_create("guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->copy_fd < 0 || ftruncate(m->copy_fd, (off_t)size) < 0)
		return err_sys(e, "make a memory file");
	return 0;
}

/* Is that page part of the base? Find the next extent when the known one is passed. */
static bool guest_memory_in_base(struct guest_memory *m, uint64_t at)
{
	off_t data, hole;

	if (m->base_fd < 0)
		return false;
	if (at >= m->hole) {
		data = lseek(m->base_fd, (off_t)at, SEEK_DATA);
		hole = data < 0 ? -1 : lseek(m->base_fd, data, SEEK_HOLE);
		/* No data up to the end. After any other error all is read: slower but right. */
		m->data = data >= 0 ? (uint64_t)data : errno == ENXIO ? m->size : at;
		m->hole = hole >= 0 ? (uint64_t)hole : m->size;
	}
	return at >= m->data && at < m->hole;
}

static enum guest_memory_source guest_memory_source_of(struct guest_memory *m, uint64_t at,
						       uint64_t entry)
{
	if (guest_memory_is_private(entry))
		return IN_PROCESS;
	return !m->only_changes && guest_memory_in_base(m, at) ? IN_BASE : NOWHERE;
}

/* A hole in the copy says the same: zeros or, if the copy has changes only, the page of the base.
 */
static bool guest_memory_may_skip(struct guest_memory *m, const uint8_t *page, uint64_t at)
{
	return zeros_only(page, PAGE) && !(m->only_changes && guest_memory_in_base(m, at));
}

/* Copy n bytes from `at` on. Neighbours are written together. */
static int guest_memory_copy_run(struct guest_memory *m, enum guest_memory_source source,
				 uint64_t at, size_t n, struct err *e)
{
	static uint8_t bytes[RUN];
	int fd = source == IN_BASE ? m->base_fd : m->mem_fd;
	uint64_t from_at = source == IN_BASE ? at : m->start + at;
	size_t from = 0, to;

	if (pread(fd, bytes, n, (off_t)from_at) != (ssize_t)n)
		return err_sys(e, "read the guest's memory");
	while (from < n) {
		if (guest_memory_may_skip(m, bytes + from, at + from)) {
			from += PAGE;
			continue;
		}
		for (to = from + PAGE; to < n && !guest_memory_may_skip(m, bytes + to, at + to);)
			to += PAGE;
		if (guest_memory_mapping_write(m->copy_fd, bytes + from, to - from, at + from, e) <
		    0)
			return -1;
		from = to;
	}
	return 0;
}

/* One batch of pages. Return how many bytes were copied or left out. */
static ssize_t guest_memory_copy_batch(struct guest_memory *m, struct err *e)
{
	uint64_t entries[BATCH];
	ssize_t n = guest_memory_read_pages(m, m->at, entries, e), from = 0, to;

	for (; from < n; from = to) {
		uint64_t at = m->at + (uint64_t)from * PAGE;
		enum guest_memory_source source = guest_memory_source_of(m, at, entries[from]);

		for (to = from + 1; to < n && to - from < (ssize_t)(RUN / PAGE); to++)
			if (guest_memory_source_of(m, m->at + (uint64_t)to * PAGE, entries[to]) !=
			    source)
				break;
		if (source != NOWHERE &&
		    guest_memory_copy_run(m, source, at, (size_t)(to - from) * PAGE, e) < 0)
			return -1;
	}
	return n < 0 ? -1 : n * (ssize_t)PAGE;
}

int guest_memory_step(struct guest_memory *m, uint64_t most, struct err *e)
{
	uint64_t end = m->size - m->at < most ? m->size : m->at + most;

	while (m->at < end) {
		ssize_t n = guest_memory_copy_batch(m, e);
		if (n < 0)
			return -1;
		m->at += (uint64_t)n;
	}
	return m->at < m->size;
}

int guest_memory_seal(int fd, struct err *e)
{
	return memfd_seal(fd, SEALS) < 0 ? err_sys(e, "seal a memory file") : 0;
}

int guest_memory_take(struct guest_memory *m, int *ret_fd, struct err *e)
{
	if (guest_memory_seal(m->copy_fd, e) < 0)
		return -1;
	*ret_fd = TAKE_FD(m->copy_fd);
	guest_memory_end(m);
	return 0;
}
