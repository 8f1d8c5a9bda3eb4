/* sparse_copy.c - see sparse_copy.h. */
#include "storage/sparse_copy.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/zeros.h"
#include "storage/storage_ops.h"
#include "storage/storage_room.h"

#define BUFFER (1U << 20)
#define PAGE 4096U

/* Count and write one run. Both bounds are checked before the write. */
static int sparse_write_at(struct sparse_copy *c, const uint8_t *bytes, size_t len, uint64_t at,
			   struct err *e)
{
	if (len > c->bytes_max - c->written)
		return err_set_reason(e, REASON_TOO_LARGE, "more than %llu bytes",
				      (unsigned long long)c->bytes_max);
	if (storage_room_take(c->to, len, e) < 0)
		return -1;
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(c->to, bytes + done, len - done, (off_t)(at + done));

		if (n <= 0)
			return storage_ops_fail(e, "write an image");
		done += (size_t)n;
	}
	c->written += len;
	return 0;
}

static size_t sparse_page_at(size_t at, size_t len)
{
	return len - at < PAGE ? len - at : PAGE;
}

/* Runs of nonzero pages. */
static int sparse_write_pages(struct sparse_copy *c, const uint8_t *bytes, size_t len, uint64_t at,
			      struct err *e)
{
	for (size_t from = 0, end; from < len; from = end) {
		bool zero = zeros_only(bytes + from, sparse_page_at(from, len));

		for (end = from;
		     end < len && zeros_only(bytes + end, sparse_page_at(end, len)) == zero;)
			end += sparse_page_at(end, len);
		if (!zero && sparse_write_at(c, bytes + from, end - from, at + from, e) < 0)
			return -1;
	}
	return 0;
}

/* Copy the range from part to end. It may contain no hole, but pages of zeros. */
static int sparse_copy_part(struct sparse_copy *c, int from, uint64_t part, uint64_t end,
			    uint64_t at, struct err *e)
{
	static uint8_t buffer[BUFFER];

	while (part < end) {
		size_t want = end - part < BUFFER ? (size_t)(end - part) : BUFFER;
		ssize_t n = pread(from, buffer, want, (off_t)part);
		int result;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read");
		if (n == 0)
			return err_set(e, ERR_CONFLICT, "it became shorter while it was read");
		result = c->skip_zeros ? sparse_write_pages(c, buffer, (size_t)n, at + part, e)
				       : sparse_write_at(c, buffer, (size_t)n, at + part, e);
		if (result < 0)
			return -1;
		part += (uint64_t)n;
	}
	return 0;
}

int sparse_copy(struct sparse_copy *c, int from, uint64_t size, uint64_t at, struct err *e)
{
	for (uint64_t part = 0; part < size;) {
		off_t data = lseek(from, (off_t)part, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		if (data < 0)
			return sparse_copy_part(c, from, part, size, at, e); /* it cannot tell */
		if ((uint64_t)data >= size)
			break;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size)
			hole = (off_t)size;
		if (sparse_copy_part(c, from, (uint64_t)data, (uint64_t)hole, at, e) < 0)
			return -1;
		part = (uint64_t)hole;
	}
	return 0;
}
