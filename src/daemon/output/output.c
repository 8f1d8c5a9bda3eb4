/* output.c - see output.h and output_record.h. */
#include "daemon/output/output.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "daemon/output/output_record.h"

static_assert(sizeof(struct output_record) == OUTPUT_RECORD_HEAD, "written as it is");

static ssize_t read_at(int fd, uint64_t at, void *ret, size_t cap)
{
	ssize_t n;

	do
		n = pread(fd, ret, cap, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool is_stream(uint32_t s)
{
	return s >= OUTPUT_STDOUT && s <= OUTPUT_INPUT;
}

bool output_record_is_open(struct output_record *r)
{
	if ((r->stream & OUTPUT_RECORD_OPEN) == 0)
		return false;
	r->stream &= ~OUTPUT_RECORD_OPEN;
	return r->len > 0 && is_stream(r->stream) && r->stream != OUTPUT_CUT;
}

int output_record_read(int fd, uint64_t at, struct output_record *ret)
{
	ssize_t n = read_at(fd, at, ret, OUTPUT_RECORD_HEAD);

	if (n < 0)
		return -1;
	if (n != OUTPUT_RECORD_HEAD)
		*ret = (struct output_record){ 0 };
	return n == OUTPUT_RECORD_HEAD && is_stream(ret->stream);
}

void output_heads_begin(struct output_heads *h, int fd)
{
	h->fd = fd;
	h->from = h->reads = 0;
	h->n = 0;
}

int output_heads_read(struct output_heads *h, uint64_t at, struct output_record *ret)
{
	ssize_t n;

	*ret = (struct output_record){ 0 };
	if (at < h->from || at + OUTPUT_RECORD_HEAD > h->from + h->n) {
		h->reads++;
		n = read_at(h->fd, at, h->bytes, sizeof(h->bytes));
		h->from = at;
		h->n = n < 0 ? 0 : (size_t)n;
		if (n < OUTPUT_RECORD_HEAD)
			return n < 0 ? -1 : 0;
	}
	memcpy(ret, h->bytes + (at - h->from), OUTPUT_RECORD_HEAD);
	return is_stream(ret->stream);
}

int output_record_write(int fd, uint64_t at, const struct output_record *r)
{
	return pwrite(fd, r, OUTPUT_RECORD_HEAD, (off_t)at) == OUTPUT_RECORD_HEAD ? 0 : -1;
}

/* The position of a reader. In the middle of a record it still names the record, so it has two
 * parts. */
struct output_cursor {
	uint64_t record; /* where its head is */
	uint32_t skip;	 /* bytes of it already read */
};

/* 40 bits of place and 24 of progress: logs up to a TiB, records up to 16 MiB. */
static struct output_cursor output_unpack(uint64_t c)
{
	return (struct output_cursor){ .record = c >> 24, .skip = (uint32_t)(c & 0xffffff) };
}

static uint64_t output_pack(struct output_cursor c)
{
	return c.record << 24 | c.skip;
}

uint64_t output_cursor_at(uint64_t log_bytes)
{
	return output_pack((struct output_cursor){ .record = log_bytes });
}

/* The record at the cursor, or behind the notes there. Return as output_read(). */
static int find_record(int fd, struct output_cursor *c, bool notes, struct output_record *r,
		       struct err *e)
{
	int got;

	if (fd < 0)
		return 0;
	for (;;) {
		got = output_record_read(fd, c->record, r);
		if (got < 0)
			return err_sys(e, "read log");
		if (got == 0 || notes || !output_is_note((enum output_stream)r->stream))
			return got > 0 && c->skip <= r->len;
		*c = (struct output_cursor){ .record = c->record + OUTPUT_RECORD_HEAD + r->len };
	}
}

int output_look(int fd, uint64_t *cursor, struct output_chunk *ret, struct err *e)
{
	struct output_cursor c = output_unpack(*cursor);
	struct output_record r;
	int got = find_record(fd, &c, false, &r, e);

	if (got <= 0)
		return got;
	*cursor = output_pack(c);
	*ret = (struct output_chunk){ .stream = (enum output_stream)r.stream,
				      .time_ms = r.time_ms,
				      .offset = r.offset + c.skip,
				      .len = r.len - c.skip };
	return 1;
}

void output_skip(uint64_t *cursor, const struct output_chunk *chunk)
{
	struct output_cursor c = output_unpack(*cursor);

	c.record += OUTPUT_RECORD_HEAD + c.skip + chunk->len;
	c.skip = 0;
	*cursor = output_pack(c);
}

static int read_chunk(int fd, uint64_t *cursor, bool notes, struct output_chunk *ret, uint8_t *buf,
		      size_t cap, struct err *e)
{
	struct output_cursor c = output_unpack(*cursor);
	struct output_record r;
	size_t want;
	ssize_t n;
	int got = find_record(fd, &c, notes, &r, e);

	if (got <= 0)
		return got;
	want = r.len - c.skip < cap ? r.len - c.skip : cap;
	do
		n = pread(fd, buf, want, (off_t)(c.record + OUTPUT_RECORD_HEAD + c.skip));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read log");
	if (n == 0 && want > 0)
		return 0; /* the head is there, the bytes follow */
	*ret = (struct output_chunk){ .stream = (enum output_stream)r.stream,
				      .time_ms = r.time_ms,
				      .offset = r.offset + c.skip,
				      .len = (size_t)n };
	c.skip += (uint32_t)n;
	if (c.skip == r.len)
		c = (struct output_cursor){ .record = c.record + OUTPUT_RECORD_HEAD + r.len };
	*cursor = output_pack(c);
	return 1;
}

int output_read(int fd, uint64_t *cursor, struct output_chunk *ret, uint8_t *buf, size_t cap,
		struct err *e)
{
	return read_chunk(fd, cursor, false, ret, buf, cap, e);
}

int output_read_all(int fd, uint64_t *cursor, struct output_chunk *ret, uint8_t *buf, size_t cap,
		    struct err *e)
{
	return read_chunk(fd, cursor, true, ret, buf, cap, e);
}
