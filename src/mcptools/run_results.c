#include "run_results.h"

#include <string.h>

#include "base64.h"
#include "shown_text.h"

#define SHOWN 50   /* results */
#define LINES 1000 /* that are looked at, of whatever kind: all are parsed in one turn */
#define IMAGES 4   /* of them as pictures */
#define IMAGE_MAX (512U << 10)
#define TEXT_MAX 16384 /* of one text */

static const struct json_tree_limits limits = { .bytes = RUN_RESULTS_BYTES,
						.values = 1U << 16,
						.depth = 64 };

struct results {
	struct tool_call *c;
	unsigned n, images;
	bool more;
	bool has_error;
	struct json error;
	struct buf *text;
	bool pictures; /* this walk is for them */
};

static void show(struct json *j, const char *name, struct json_span text)
{
	struct buf shown = BUF_INIT(TEXT_MAX + 64);

	if (text.p == NULL)
		return;
	if (shown_text_head(&shown, (const uint8_t *)text.p, text.n, TEXT_MAX) < text.n)
		buf_put_text(&shown, "[...]");
	json_bytes(j, name, buf_text(&shown), shown.len);
	buf_release(&shown);
}

static void show_image(struct results *r, struct json_span coded, const char *type)
{
	OWN_MEM uint8_t *bytes = NULL;
	ssize_t n;

	if (coded.p == NULL || r->images == IMAGES || coded.n > BASE64_LENGTH(IMAGE_MAX))
		return;
	bytes = malloc(BASE64_BYTES(coded.n + 3) + 1);
	n = bytes == NULL ? -1 : base64_decode_any(coded.p, coded.n, bytes);
	if (n <= 0)
		return;
	r->images++;
	tool_image(r->c, type, bytes, (size_t)n);
}

/* The names of the forms in which a result is there. */
static void show_forms(struct json *j, const struct json_node *result)
{
	json_open(j, "formats", '[');
	for (const struct json_node *m = json_tree_first(result); m != NULL;
	     m = json_tree_next(result, m))
		if (!json_span_is(m->text, "type") && !json_span_is(m->text, "is_main_result") &&
		    m->text.n < 32 && json_tree_value(m)->kind != JSON_READ_NULL)
			show(j, NULL, m->text);
	json_close(j, ']');
}

static void take_pictures(struct results *r, const struct json_node *result)
{
	show_image(r, json_tree_get_text(result, "png"), "image/png");
	show_image(r, json_tree_get_text(result, "jpeg"), "image/jpeg");
}

static void take_result(struct results *r, const struct json_node *result)
{
	struct json_span text = json_tree_get_text(result, "text");
	struct json *j = &r->c->out;

	if (r->n++ >= SHOWN) {
		r->more = true;
		return;
	}
	json_open(j, NULL, '{');
	show(j, "text", text);
	show_forms(j, result);
	json_close(j, '}');
	if (text.p == NULL)
		return;
	buf_put_text(r->text, r->text->len > 0 ? "\n[result]\n" : "[result]\n");
	(void)shown_text_head(r->text, (const uint8_t *)text.p, text.n, TEXT_MAX);
}

static void take_error(struct results *r, const struct json_node *error)
{
	if (r->has_error)
		return;
	r->has_error = true;
	json_init_heap(&r->error, 4 * TEXT_MAX * 6);
	json_open(&r->error, NULL, '{');
	show(&r->error, "name", json_tree_get_text(error, "name"));
	show(&r->error, "value", json_tree_get_text(error, "value"));
	show(&r->error, "traceback", json_tree_get_text(error, "traceback"));
	json_close(&r->error, '}');
}

static void take_line(struct results *r, const char *line, size_t n)
{
	struct json_tree t = { 0 };
	struct json_span type;
	struct err e;

	if (json_tree_read(&t, line, n, &limits, &e) < 0)
		return;
	type = json_tree_get_text(json_tree_root(&t), "type");
	if (json_span_is(type, "result") && r->pictures)
		take_pictures(r, json_tree_root(&t));
	else if (json_span_is(type, "result"))
		take_result(r, json_tree_root(&t));
	else if (json_span_is(type, "error") && !r->pictures)
		take_error(r, json_tree_root(&t));
	json_tree_release(&t);
}

static void each_line(struct results *r, const struct buf *lines)
{
	const char *at = (const char *)lines->data;
	size_t left = lines->len;

	for (unsigned i = 0; left > 0 && i < LINES; i++) {
		const char *end = memchr(at, '\n', left);
		size_t n = end == NULL ? left : (size_t)(end - at);

		take_line(r, at, n);
		at += n + (end != NULL);
		left -= n + (end != NULL);
	}
	r->more = r->more || left > 0;
}

void run_results_write(struct tool_call *c, const struct buf *lines, bool over, struct buf *text)
{
	struct results r = { .c = c, .more = over, .text = text };

	json_open(&c->out, "results", '[');
	each_line(&r, lines);
	json_close(&c->out, ']');
	json_bool(&c->out, "more_results", r.more);
	if (r.has_error && json_ok(&r.error))
		json_raw_bytes(&c->out, "code_error", r.error.text, r.error.len);
	json_release(&r.error);
}

void run_results_images(struct tool_call *c, const struct buf *lines)
{
	struct results r = { .c = c, .pictures = true };

	each_line(&r, lines);
}
