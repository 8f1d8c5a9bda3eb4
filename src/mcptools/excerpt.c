#include "excerpt.h"

#include "fd.h"
#include "output.h"

void excerpt_init(struct excerpt *x, int fd, uint64_t out, uint64_t err, bool whole)
{
	*x = (struct excerpt){ .fd = fd, .whole = whole, .results = BUF_INIT(EXCERPT_RESULTS) };
	for (unsigned i = 0; i < 2; i++) {
		text_ends_init(&x->streams[i]);
		x->streams[i].total = i == 0 ? out : err;
	}
}

void excerpt_release(struct excerpt *x)
{
	if (x->results.cap == 0)
		return;
	if (x->fd >= 0)
		fd_close(x->fd);
	x->fd = -1;
	for (unsigned i = 0; i < 2; i++)
		text_ends_release(&x->streams[i]);
	buf_release(&x->results);
}

/* Is no byte of the chunk among those that are shown? */
static bool is_between(const struct excerpt *x, unsigned stream, const struct output_chunk *c)
{
	uint64_t total = x->streams[stream].total;

	return x->whole && total > TEXT_ENDS_MAX + TEXT_ENDS_HALF && c->offset >= TEXT_ENDS_MAX &&
	       c->offset + c->len <= total - TEXT_ENDS_HALF;
}

static void take_results(struct excerpt *x, const uint8_t *bytes, size_t n)
{
	size_t room = EXCERPT_RESULTS - x->results.len;

	x->more_results |= n > room;
	buf_put(&x->results, bytes, n < room ? n : room);
}

/* 1, or 0 at the end of the log, or -1. */
static int next_chunk(struct excerpt *x, struct err *e)
{
	static uint8_t bytes[TEXT_ENDS_PIECE];
	struct output_chunk chunk;
	int got = output_look(x->fd, x->cursor, &chunk, e);
	unsigned stream;

	if (got <= 0)
		return got;
	stream = chunk.stream == OUTPUT_STDERR;
	if (chunk.stream == OUTPUT_CUT || (chunk.stream == OUTPUT_RESULT && x->more_results) ||
	    (chunk.stream != OUTPUT_RESULT && is_between(x, stream, &chunk))) {
		output_skip(&x->cursor, &chunk);
		return 1;
	}
	got = output_read(x->fd, &x->cursor, &chunk, bytes, sizeof(bytes), e);
	if (got > 0 && chunk.stream == OUTPUT_RESULT)
		take_results(x, bytes, chunk.len);
	else if (got > 0)
		text_ends_add(&x->streams[stream], bytes, chunk.len);
	return got;
}

int excerpt_piece(struct excerpt *x, struct err *e)
{
	for (unsigned i = 0; i < EXCERPT_PIECE; i++) {
		int got = next_chunk(x, e);

		if (got <= 0)
			return got;
	}
	return 1;
}

bool excerpt_text(const struct excerpt *x, unsigned stream, struct buf *to)
{
	return text_ends_show(&x->streams[stream], "read_output has them", to);
}
