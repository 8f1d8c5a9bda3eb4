/* guest_memory.c - see guest_memory.h. */
#include "guest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "memfd_seal.h"

#define PAGE 4096U
#define BATCH 64U		      /* pages that are looked at together */
#define MAPS_MAX (4U << 20)	      /* bytes of /proc/PID/maps; QEMU has 40 KiB */
#define IN_MEMORY (UINT64_C(3) << 62) /* of a pagemap entry: present, or swapped out */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

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

static int open_of(pid_t pid, const char *file, struct err *e)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* Is this line of /proc/PID/maps the guest's memory? */
static bool is_guest(const char *line, const struct guest_memory *m, const struct stat *base,
		     uint64_t *ret_start)
{
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char rights[8];
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n", &start,
		   &end, rights, &offset, &major, &minor, &inode, &name) < 7)
		return false;
	if (end < start || end - start != m->size || offset != 0 || strcmp(rights, "rw-p") != 0)
		return false;
	*ret_start = start;
	if (m->base_fd >= 0)
		return inode == base->st_ino && makedev(major, minor) == base->st_dev;
	return strcmp(line + name, "/dev/zero") == 0;
}

static int find_mapping(struct guest_memory *m, pid_t pid, struct err *e)
{
	struct stat base = { 0 };
	char line[512];
	size_t seen = 0;
	bool found = false;

	if (m->base_fd >= 0 && fstat(m->base_fd, &base) < 0)
		return err_sys(e, "the guest's memory");
	int fd = open_of(pid, "maps", e);
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
		found = is_guest(line, m, &base, &m->start);
	}
	(void)fclose(maps);
	return found ? 0 : err_set(e, ERR_NOT_FOUND, "the engine has no memory of a guest");
}

int guest_memory_begin(struct guest_memory *m, pid_t engine, int base, uint64_t size, struct err *e)
{
	guest_memory_end(m);
	guest_memory_init(m);
	m->base_fd = base;
	m->size = size;
	if (find_mapping(m, engine, e) < 0)
		return -1;
	m->mem_fd = open_of(engine, "mem", e);
	if (m->mem_fd < 0)
		return -1;
	m->pages_fd = open_of(engine, "pagemap", e);
	if (m->pages_fd < 0)
		return -1;
	m->copy_fd = memfd_create("guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->copy_fd < 0 || ftruncate(m->copy_fd, (off_t)size) < 0)
		return err_sys(e, "make a memory file");
	return 0;
}

/* Is that page part of the base? Finds the next extent when the known one is passed. */
static bool in_base(struct guest_memory *m, uint64_t at)
{
	off_t data, hole;

	if (m->base_fd < 0)
		return false;
	if (at >= m->hole) {
		data = lseek(m->base_fd, (off_t)at, SEEK_DATA);
		hole = data < 0 ? -1 : lseek(m->base_fd, data, SEEK_HOLE);
		/* No data up to the end; after any other error all is read: that is slower, and
		 * right. */
		m->data = data >= 0 ? (uint64_t)data : errno == ENXIO ? m->size : at;
		m->hole = hole >= 0 ? (uint64_t)hole : m->size;
	}
	return at >= m->data && at < m->hole;
}

static bool has_content(struct guest_memory *m, uint64_t at, uint64_t entry)
{
	return (entry & IN_MEMORY) != 0 || in_base(m, at);
}

static bool is_zero(const uint8_t *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

static int write_run(int fd, const uint8_t *bytes, size_t n, uint64_t at, struct err *e)
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

/* Copies n bytes from `at` on; neighbours that are not zero are written together. */
static int copy_run(struct guest_memory *m, uint64_t at, size_t n, struct err *e)
{
	static uint8_t bytes[BATCH * PAGE];
	size_t from = 0, to;

	if (pread(m->mem_fd, bytes, n, (off_t)(m->start + at)) != (ssize_t)n)
		return err_sys(e, "read the guest's memory");
	while (from < n) {
		if (is_zero(bytes + from)) {
			from += PAGE;
			continue;
		}
		for (to = from + PAGE; to < n && !is_zero(bytes + to);)
			to += PAGE;
		if (write_run(m->copy_fd, bytes + from, to - from, at + from, e) < 0)
			return -1;
		from = to;
	}
	return 0;
}

/* One batch of pages; returns how many bytes were copied or left out. */
static ssize_t copy_batch(struct guest_memory *m, struct err *e)
{
	uint64_t entries[BATCH], left = (m->size - m->at) / PAGE;
	size_t n = left < BATCH ? (size_t)left : BATCH, from = 0, to;

	if (pread(m->pages_fd, entries, n * sizeof(*entries),
		  (off_t)((m->start + m->at) / PAGE * sizeof(*entries))) !=
	    (ssize_t)(n * sizeof(*entries)))
		return err_sys(e, "read the engine's pages");
	while (from < n) {
		uint64_t at = m->at + from * PAGE;

		to = from + 1;
		if (!has_content(m, at, entries[from])) {
			from = to;
			continue;
		}
		while (to < n && has_content(m, m->at + to * PAGE, entries[to]))
			to++;
		if (copy_run(m, at, (to - from) * PAGE, e) < 0)
			return -1;
		from = to;
	}
	return (ssize_t)(n * PAGE);
}

int guest_memory_step(struct guest_memory *m, uint64_t most, struct err *e)
{
	uint64_t end = m->size - m->at < most ? m->size : m->at + most;

	while (m->at < end) {
		ssize_t n = copy_batch(m, e);
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
