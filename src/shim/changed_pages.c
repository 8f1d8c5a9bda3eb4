/* changed_pages.c - see changed_pages.h. */
#include "changed_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_mapping.h"

#define BUFFER (256U << 10)

void changed_pages_init(struct changed_pages *c)
{
	*c = (struct changed_pages){ .from_fd = -1, .mem_fd = -1 };
}

void changed_pages_end(struct changed_pages *c)
{
	fd_close(TAKE_FD(c->from_fd));
	fd_close(TAKE_FD(c->mem_fd));
}

int changed_pages_begin(struct changed_pages *c, pid_t engine, int base, uint64_t size, int from,
			struct err *e)
{
	struct stat st;

	changed_pages_end(c);
	*c = (struct changed_pages){ .from_fd = from, .mem_fd = -1, .size = size };
	if (fstat(from, &st) < 0)
		return err_sys(e, "changes of the guest's memory");
	if ((uint64_t)st.st_size != size)
		return err_set(e, ERR_INVALID, "changes of a memory of another size");
	if (guest_mapping_find(engine, base, size, &c->start, e) < 0)
		return -1;
	c->mem_fd = guest_mapping_open(engine, "mem", O_RDWR, e);
	return c->mem_fd < 0 ? -1 : 0;
}

/* Finds the next extent when the known one is written. 0: there is none. */
static int find_extent(struct changed_pages *c, struct err *e)
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

int changed_pages_step(struct changed_pages *c, uint64_t most, struct err *e)
{
	static uint8_t bytes[BUFFER];
	uint64_t done = 0;

	while (done < most) {
		size_t n;
		int more = find_extent(c, e);

		if (more <= 0)
			return more;
		n = c->hole - c->at < BUFFER ? (size_t)(c->hole - c->at) : BUFFER;
		if (pread(c->from_fd, bytes, n, (off_t)c->at) != (ssize_t)n)
			return err_sys(e, "read changes of the guest's memory");
		if (guest_mapping_write(c->mem_fd, bytes, n, c->start + c->at, e) < 0)
			return -1;
		c->at += n;
		done += n;
	}
	return 1;
}
