/* guest_memory.c - see guest_memory.h. */
#include "guest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest_mapping.h"
#include "memfd_seal.h"
#include "zeros.h"

#define PAGE 4096U
#define BATCH 512U		      /* pages that are looked at together */
#define RUN (256U << 10)	      /* bytes that are copied together */
#define IN_MEMORY (UINT64_C(3) << 62) /* of a pagemap entry: present, or swapped out */
#define OF_FILE (UINT64_C(1) << 61)   /* and not private */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Where the content of a page is. */
enum source { NOWHERE, IN_PROCESS, IN_BASE };

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

/* The next entries of the pagemap; returns how many. */
static ssize_t read_pages(const struct guest_memory *m, uint64_t at, uint64_t entries[BATCH],
			  struct err *e)
{
	uint64_t left = (m->size - at) / PAGE;
	size_t n = left < BATCH ? (size_t)left : BATCH;

	if (pread(m->pages_fd, entries, n * sizeof(*entries),
		  (off_t)((m->start + at) / PAGE * sizeof(*entries))) !=
	    (ssize_t)(n * sizeof(*entries)))
		return err_sys(e, "read the engine's pages");
	return (ssize_t)n;
}

static bool is_private(uint64_t entry)
{
	return (entry & IN_MEMORY) != 0 && (entry & OF_FILE) == 0;
}

/* Are the pages that the process has of its own at most so many bytes? */
static int choose_changes(struct guest_memory *m, uint64_t max, struct err *e)
{
	uint64_t entries[BATCH], found = 0;

	if (m->base_fd < 0 || max == 0)
		return 0;
	for (uint64_t at = 0; at < m->size && found * PAGE <= max;) {
		ssize_t n = read_pages(m, at, entries, e);

		if (n < 0)
			return -1;
		for (ssize_t i = 0; i < n; i++)
			found += is_private(entries[i]);
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
	if (guest_mapping_find(engine, base, size, &m->start, e) < 0)
		return -1;
	m->mem_fd = guest_mapping_open(engine, "mem", O_RDONLY, e);
	if (m->mem_fd < 0)
		return -1;
	m->pages_fd = guest_mapping_open(engine, "pagemap", O_RDONLY, e);
	if (m->pages_fd < 0 || choose_changes(m, changes_max, e) < 0)
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

static enum source source_of(struct guest_memory *m, uint64_t at, uint64_t entry)
{
	if (is_private(entry))
		return IN_PROCESS;
	return !m->only_changes && in_base(m, at) ? IN_BASE : NOWHERE;
}

/* A hole in the copy says the same: zeros or, if it has changes only, what the base has. */
static bool may_skip(struct guest_memory *m, const uint8_t *page, uint64_t at)
{
	return zeros_only(page, PAGE) && !(m->only_changes && in_base(m, at));
}

/* Copies n bytes from `at` on; neighbours that are not skipped are written together. */
static int copy_run(struct guest_memory *m, enum source source, uint64_t at, size_t n,
		    struct err *e)
{
	static uint8_t bytes[RUN];
	int fd = source == IN_BASE ? m->base_fd : m->mem_fd;
	uint64_t from_at = source == IN_BASE ? at : m->start + at;
	size_t from = 0, to;

	if (pread(fd, bytes, n, (off_t)from_at) != (ssize_t)n)
		return err_sys(e, "read the guest's memory");
	while (from < n) {
		if (may_skip(m, bytes + from, at + from)) {
			from += PAGE;
			continue;
		}
		for (to = from + PAGE; to < n && !may_skip(m, bytes + to, at + to);)
			to += PAGE;
		if (guest_mapping_write(m->copy_fd, bytes + from, to - from, at + from, e) < 0)
			return -1;
		from = to;
	}
	return 0;
}

/* One batch of pages; returns how many bytes were copied or left out. */
static ssize_t copy_batch(struct guest_memory *m, struct err *e)
{
	uint64_t entries[BATCH];
	ssize_t n = read_pages(m, m->at, entries, e), from = 0, to;

	for (; from < n; from = to) {
		uint64_t at = m->at + (uint64_t)from * PAGE;
		enum source source = source_of(m, at, entries[from]);

		for (to = from + 1; to < n && to - from < (ssize_t)(RUN / PAGE); to++)
			if (source_of(m, m->at + (uint64_t)to * PAGE, entries[to]) != source)
				break;
		if (source != NOWHERE && copy_run(m, source, at, (size_t)(to - from) * PAGE, e) < 0)
			return -1;
	}
	return n < 0 ? -1 : n * (ssize_t)PAGE;
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
