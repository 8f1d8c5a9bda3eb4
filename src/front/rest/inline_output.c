#include "front/rest/inline_output.h"

#include "daemon/output/output.h"
#include "lib/base/base64.h"
#include "lib/base/fd.h"
#include "lib/base/utf8.h"

/* Without a log there is nothing to read, and both members are empty. */
void inline_output_init(struct inline_output *o, int fd, bool base64)
{
	*o = (struct inline_output){
		.fd = fd,
		.base64 = base64,
		.read = fd < 0,
		.streams = { BUF_INIT(INLINE_OUTPUT_MAX), BUF_INIT(INLINE_OUTPUT_MAX) },
	};
	result_view_init(&o->results);
}

/* stream is set behind the last one, so the writer has no output to write. */
void inline_output_init_results(struct inline_output *o, int fd)
{
	inline_output_init(o, fd, false);
	o->with_results = o->only_results = true;
	o->stream = COUNT(o->streams);
}

/* Nothing more is read. */
static void close_log(struct inline_output *o)
{
	if (o->fd >= 0)
		fd_close(o->fd);
	o->fd = -1;
	o->read = true;
}

/* A structure of zeroes was never begun, and its fd 0 is not its own. */
void inline_output_release(struct inline_output *o)
{
	if (o->streams[0].cap == 0)
		return;
	close_log(o);
	buf_release(&o->streams[0]);
	buf_release(&o->streams[1]);
	result_view_release(&o->results);
}

/* Bytes beyond the bound are dropped. Results are taken in any case. */
static void inline_output_take(struct inline_output *o, const struct output_chunk *chunk,
			       const uint8_t *bytes)
{
	struct buf *to = &o->streams[chunk->stream == OUTPUT_STDERR];
	size_t room = INLINE_OUTPUT_MAX - to->len;

	if (chunk->stream == OUTPUT_RESULT)
		result_view_take(&o->results, bytes, chunk->len);
	if (chunk->stream == OUTPUT_CUT || chunk->stream == OUTPUT_RESULT || o->only_results)
		return;
	if (chunk->len > room)
		o->cut = true;
	buf_put(to, bytes, chunk->len < room ? chunk->len : room);
}

/* The rest of a long log need not be read. */
static bool has_enough(const struct inline_output *o)
{
	return (o->results.over || !o->with_results) &&
	       (o->only_results ||
		(o->streams[0].len == INLINE_OUTPUT_MAX && o->streams[1].len == INLINE_OUTPUT_MAX));
}

/* Read the next bytes of the log. Close it at its end. */
static int read_piece(struct inline_output *o, struct err *e)
{
	static uint8_t bytes[INLINE_OUTPUT_PIECE];
	size_t left = sizeof(bytes);
	struct output_chunk chunk;

	for (unsigned i = 0; i < INLINE_OUTPUT_RECORDS; i++) {
		int got = output_read(o->fd, &o->cursor, &chunk, bytes, left, e);

		if (got < 0)
			return -1;
		if (got > 0)
			inline_output_take(o, &chunk, bytes);
		if (got == 0 || has_enough(o)) {
			close_log(o);
			return 0;
		}
		left -= chunk.len;
		if (left == 0)
			return 0;
	}
	return 0;
}

/* The member is opened at its first piece and closed at its last. */
static void begin_member(struct inline_output *o, struct json *j)
{
	static const char *const names[2][2] = { { "stdout", "stderr" },
						 { "stdout_base64", "stderr_base64" } };

	json_begin_text(j, names[o->base64][o->stream]);
	o->begun = true;
}

/* In base64 each piece but the last one has a multiple of three bytes, so no padding stands in the
 * middle. */
static void write_bytes(const struct inline_output *o, struct json *j, const uint8_t *bytes,
			size_t n)
{
	static char coded[BASE64_LENGTH(INLINE_OUTPUT_PIECE) + 1];

	if (!o->base64) {
		json_add_text(j, bytes, n);
		return;
	}
	base64_encode(bytes, n, coded);
	json_add_text(j, coded, BASE64_LENGTH(n));
}

/* Up to *left bytes of the stream. A piece of text ends between two characters. */
static void write_piece(struct inline_output *o, struct json *j, size_t *left)
{
	const struct buf *from = &o->streams[o->stream];
	size_t there = from->len - o->written;
	size_t n = there < *left ? there : *left;

	if (!o->begun)
		begin_member(o, j);
	if (n < there && !o->base64)
		n = utf8_cut(from->data + o->written, n, there);
	else if (n < there)
		n -= n % 3;
	if (n > 0)
		write_bytes(o, j, from->data + o->written, n);
	o->written += n;
	*left = n < there ? 0 : *left - n;
	if (n < there)
		return;
	json_end_text(j);
	buf_release(&o->streams[o->stream]);
	o->stream++;
	o->written = 0;
	o->begun = false;
}

/* First the whole log is read, then the members are written: output of both streams is mixed in the
 * log. */
int inline_output_piece(struct inline_output *o, struct json *j, struct err *e)
{
	size_t left = INLINE_OUTPUT_PIECE;

	if (!o->read && read_piece(o, e) < 0)
		return -1;
	if (!o->read)
		return 1;
	while (o->stream < COUNT(o->streams)) {
		if (left == 0)
			return 1;
		write_piece(o, j, &left);
	}
	if (!o->only_results && !o->ended)
		json_bool(j, "inline_truncated", o->cut);
	o->ended = true;
	return o->with_results ? result_view_piece(&o->results, j) : 0;
}
