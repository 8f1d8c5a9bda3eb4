#include "excerpt.h"

#include "fd.h"
#include "output.h"
#include "shown_text.h"

#define HALF (EXCERPT_MAX / 2)
#define READ_MAX 32768 /* bytes read at once */

void excerpt_init(struct excerpt *x, int fd, uint64_t out, uint64_t err, bool whole)
{
	*x = (struct excerpt){
		.fd = fd,
		.total = { out, err },
		.whole = whole,
		.head = { BUF_INIT(EXCERPT_MAX), BUF_INIT(EXCERPT_MAX) },
		.tail = { BUF_INIT(HALF + READ_MAX), BUF_INIT(HALF + READ_MAX) },
		.results = BUF_INIT(EXCERPT_RESULTS),
	};
}

void excerpt_release(struct excerpt *x)
{
	if (x->head[0].cap == 0)
		return;
	if (x->fd >= 0)
		fd_close(x->fd);
	x->fd = -1;
	for (unsigned i = 0; i < 2; i++) {
		buf_release(&x->head[i]);
		buf_release(&x->tail[i]);
	}
	buf_release(&x->results);
}

static bool is_short(const struct excerpt *x, unsigned stream)
{
	return x->total[stream] <= EXCERPT_MAX;
}

/* Is no byte of the chunk among those that are shown? */
static bool is_between(const struct excerpt *x, unsigned stream, const struct output_chunk *c)
{
	return x->whole && !is_short(x, stream) && c->offset >= HALF &&
	       c->offset + c->len <= x->total[stream] - HALF;
}

static void take(struct excerpt *x, unsigned stream, const uint8_t *bytes, size_t n)
{
	struct buf *head = &x->head[stream], *tail = &x->tail[stream];
	size_t most = is_short(x, stream) ? EXCERPT_MAX : HALF;
	size_t room = head->len < most ? most - head->len : 0;

	room = n < room ? n : room;
	buf_put(head, bytes, room);
	buf_put(tail, bytes + room, n - room);
	if (tail->len > HALF)
		buf_consume(tail, tail->len - HALF);
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
	static uint8_t bytes[READ_MAX];
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
		take(x, stream, bytes, chunk.len);
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

/* The first and the last bytes of a stream that is too long, or became so by escapes. Returns how
 * many bytes are shown. */
static uint64_t both_ends(const struct excerpt *x, unsigned stream, struct buf *to, struct buf *end)
{
	const struct buf *head = &x->head[stream], *tail = &x->tail[stream];
	size_t shown = shown_text_head(to, head->data, head->len, HALF);

	if (is_short(x, stream)) /* there is no tail */
		return shown + shown_text_tail(end, head->data + shown, head->len - shown, HALF);
	return shown + shown_text_tail(end, tail->data, tail->len, HALF);
}

bool excerpt_text(const struct excerpt *x, unsigned stream, struct buf *to)
{
	const struct buf *head = &x->head[stream];
	struct buf begin = BUF_INIT(EXCERPT_MAX), end = BUF_INIT(EXCERPT_MAX);
	uint64_t shown = shown_text_head(&begin, head->data, head->len, EXCERPT_MAX);
	bool cut = shown < x->total[stream];

	if (cut) {
		buf_clear(&begin);
		shown = both_ends(x, stream, &begin, &end);
	}
	buf_put(to, begin.data, begin.len);
	if (cut)
		buf_printf(to, "\n[... %llu bytes left out: read_output has them ...]\n",
			   (unsigned long long)(x->total[stream] - shown));
	buf_put(to, end.data, end.len);
	buf_release(&begin);
	buf_release(&end);
	return cut;
}
