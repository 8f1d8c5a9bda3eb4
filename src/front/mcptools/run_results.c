#include "front/mcptools/run_results.h"

#include <string.h>

#include "daemon/output/output.h"
#include "lib/base/base64.h"
#include "lib/base/fd.h"
#include "lib/base/shown_text.h"

/* ---- beginning and end of output */

/* The sizes of both streams are known, so the middle can be skipped. */
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

/* Is no byte of the chunk among the shown ones? */
static bool is_between(const struct excerpt *x, unsigned stream, const struct output_chunk *c)
{
	uint64_t total = x->streams[stream].total;

	return x->whole && total > TEXT_ENDS_MAX + TEXT_ENDS_HALF && c->offset >= TEXT_ENDS_MAX &&
	       c->offset + c->len <= total - TEXT_ENDS_HALF;
}

/* Bytes beyond the bound are dropped. */
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
	int got = output_look(x->fd, &x->cursor, &chunk, e);
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

/* At most EXCERPT_PIECE records. */
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

/* ---- results
 *
 * A line that cannot be read is skipped. */

#define SHOWN 50     /* results */
#define LINES 1000   /* lines to read, of any kind */
#define LINE_COST 64 /* of a line, in bytes, beside its own */
#define IMAGE_MAX ((size_t)512 << 10)
#define TEXT_MAX ((size_t)16384) /* of one text */
#define LIST_MAX (4U << 20)
#define ALL_TEXT_MAX (1U << 20)

static const struct json_tree_limits limits = { .bytes = RUN_RESULTS_BYTES,
						.values = 1U << 16,
						.depth = 64 };

/* lines must stay until run_results_release(). */
void run_results_init(struct run_results *r, const struct buf *lines, bool over)
{
	*r = (struct run_results){ .lines = lines, .more = over };
	buf_init(&r->text, ALL_TEXT_MAX);
	json_init_heap(&r->list, LIST_MAX);
	json_open(&r->list, NULL, '[');
}

void run_results_release(struct run_results *r)
{
	json_release(&r->list);
	json_release(&r->error);
	buf_release(&r->text);
	for (unsigned i = 0; i < r->nimages; i++)
		free(r->images[i].bytes);
	r->nimages = 0;
}

/* A long text is cut. A missing one is left out. */
static void run_results_show(struct json *j, const char *name, struct json_span text)
{
	struct buf shown = BUF_INIT(TEXT_MAX + 64);

	if (text.p == NULL)
		return;
	if (shown_text_head(&shown, (const uint8_t *)text.p, text.n, TEXT_MAX) < text.n)
		buf_put_text(&shown, "[...]");
	json_bytes(j, name, buf_text(&shown), shown.len);
	buf_release(&shown);
}

/* Large pictures and those beyond the bound are left out. */
static void take_image(struct run_results *r, struct json_span coded, const char *type)
{
	uint8_t *bytes;
	ssize_t n;

	if (coded.p == NULL || r->nimages == RUN_RESULTS_IMAGES ||
	    coded.n > BASE64_LENGTH(IMAGE_MAX))
		return;
	bytes = malloc(BASE64_BYTES(coded.n + 3) + 1);
	n = bytes == NULL ? -1 : base64_decode_any(coded.p, coded.n, bytes);
	if (n > 0)
		r->images[r->nimages++] = (struct run_results_image){ type, bytes, (size_t)n };
	else
		free(bytes);
}

/* The names of the forms in which a result is there. */
static void show_forms(struct json *j, const struct json_node *result)
{
	json_open(j, "formats", '[');
	for (const struct json_node *m = json_tree_first(result); m != NULL;
	     m = json_tree_next(result, m))
		if (!json_span_is(m->text, "type") && !json_span_is(m->text, "is_main_result") &&
		    m->text.n < 32 && json_tree_value(m)->kind != JSON_READ_NULL)
			run_results_show(j, NULL, m->text);
	json_close(j, ']');
}

static void take_result(struct run_results *r, const struct json_node *result)
{
	struct json_span text = json_tree_get_text(result, "text");
	struct json *j = &r->list;

	take_image(r, json_tree_get_text(result, "png"), "image/png");
	take_image(r, json_tree_get_text(result, "jpeg"), "image/jpeg");
	if (r->n++ >= SHOWN) {
		r->more = true;
		return;
	}
	json_open(j, NULL, '{');
	run_results_show(j, "text", text);
	show_forms(j, result);
	json_close(j, '}');
	if (text.p == NULL)
		return;
	buf_put_text(&r->text, r->text.len > 0 ? "\n[result]\n" : "[result]\n");
	(void)shown_text_head(&r->text, (const uint8_t *)text.p, text.n, TEXT_MAX);
}

/* The first error counts. */
static void take_error(struct run_results *r, const struct json_node *error)
{
	if (r->has_error)
		return;
	r->has_error = true;
	json_init_heap(&r->error, 4 * TEXT_MAX * 6);
	json_open(&r->error, NULL, '{');
	run_results_show(&r->error, "name", json_tree_get_text(error, "name"));
	run_results_show(&r->error, "value", json_tree_get_text(error, "value"));
	run_results_show(&r->error, "traceback", json_tree_get_text(error, "traceback"));
	json_close(&r->error, '}');
}

static void take_line(struct run_results *r, const char *line, size_t n)
{
	struct json_tree t = { 0 };
	struct json_span type;
	struct err e;

	if (json_tree_read(&t, line, n, &limits, &e) < 0)
		return;
	type = json_tree_get_text(json_tree_root(&t), "type");
	if (json_span_is(type, "result"))
		take_result(r, json_tree_root(&t));
	else if (json_span_is(type, "error"))
		take_error(r, json_tree_root(&t));
	json_tree_release(&t);
}

/* Whole lines only. */
bool run_results_piece(struct run_results *r)
{
	size_t spent = 0;

	while (r->at < r->lines->len && r->nlines < LINES && spent < RUN_RESULTS_PIECE) {
		const char *from = (const char *)r->lines->data + r->at;
		size_t left = r->lines->len - r->at;
		const char *end = memchr(from, '\n', left);
		size_t n = end == NULL ? left : (size_t)(end - from);

		take_line(r, from, n);
		r->at += n + (end != NULL);
		r->nlines++;
		spent += n + LINE_COST;
	}
	return r->at < r->lines->len && r->nlines < LINES;
}

void run_results_write(struct run_results *r, struct json *to)
{
	json_close(&r->list, ']');
	to->full |= !json_ok(&r->list);
	json_raw_bytes(to, "results", r->list.text, r->list.len);
	json_bool(to, "more_results", r->more || r->at < r->lines->len);
	if (r->has_error && json_ok(&r->error))
		json_raw_bytes(to, "code_error", r->error.text, r->error.len);
}
