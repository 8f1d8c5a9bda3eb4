#include "front/rest/cast.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"

/* Bounds of a size: its text, and columns or rows. A terminal's size in the log is text, such as
 * "80x24". */
#define SIZE_TEXT_MAX 16
#define CELLS_MAX 4096

/* Each line is a value of its own. */
static void line_end(struct json *j)
{
	j->comma = false;
	json_raw(j, NULL, "\n");
	j->comma = false;
}

/* A number stops growing once it is too large, so it cannot overflow. */
bool cast_size(const char *text, size_t n, unsigned *ret_cols, unsigned *ret_rows)
{
	unsigned *at = ret_cols;

	*ret_cols = *ret_rows = 0;
	for (size_t i = 0; i < n; i++) {
		if (text[i] == 'x' && at == ret_cols)
			at = ret_rows;
		else if (text[i] < '0' || text[i] > '9' || *at > CELLS_MAX)
			return false;
		else
			*at = *at * 10 + (unsigned)(text[i] - '0');
	}
	return *ret_cols >= 1 && *ret_cols <= CELLS_MAX && *ret_rows >= 1 && *ret_rows <= CELLS_MAX;
}

void cast_head(struct json *j, uint64_t start_ms, const char *size, const char *title)
{
	unsigned cols, rows;

	if (!cast_size(size, strlen(size), &cols, &rows)) {
		cols = CAST_COLS;
		rows = CAST_ROWS;
	}
	json_open(j, NULL, '{');
	json_uint(j, "version", 2);
	json_uint(j, "width", cols);
	json_uint(j, "height", rows);
	json_uint(j, "timestamp", start_ms / 1000);
	json_uint(j, "idle_time_limit", CAST_IDLE_S);
	if (title[0] != '\0')
		json_text(j, "title", title);
	json_open(j, "env", '{');
	json_text(j, "TERM", "xterm-256color");
	json_close(j, '}');
	json_close(j, '}');
	line_end(j);
}

/* Open an event and its kind. Times are made to rise here: the log's clock may have jumped. */
static void line_begin(struct cast *c, struct json *j, uint64_t time_ms, const char *what)
{
	char seconds[32];

	if (time_ms < c->start_ms)
		time_ms = c->start_ms;
	if (time_ms < c->last_ms)
		time_ms = c->last_ms;
	c->last_ms = time_ms;
	time_ms -= c->start_ms;
	(void)snprintf(seconds, sizeof(seconds), "%llu.%03u", (unsigned long long)(time_ms / 1000),
		       (unsigned)(time_ms % 1000));
	json_open(j, NULL, '[');
	json_raw(j, NULL, seconds);
	json_text(j, NULL, what);
}

static void line_close(struct json *j)
{
	json_close(j, ']');
	line_end(j);
}

void cast_mark(struct cast *c, struct json *j, uint64_t time_ms, const char *text)
{
	line_begin(c, j, time_ms, "m");
	json_text(j, NULL, text);
	line_close(j);
}

/* ---- bytes
 *
 * cast_bytes() joins a character that two chunks divide. cast_put() writes the event. */

/* How many bytes at the end are the beginning of a character whose rest may follow. 0 as well for
 * bytes that no character can begin with. */
static size_t cast_unfinished(const uint8_t *p, size_t n)
{
	for (size_t k = 1; k <= 3 && k <= n; k++) {
		uint8_t byte = p[n - k];
		size_t need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;

		if (byte < 0x80)
			return 0;
		if (byte >= 0xc2 && byte <= 0xf4)
			return k < need ? k : 0;
	}
	return 0;
}

/* A terminal in front of a program without one would add the CR. */
static void cast_put_lines(struct json *j, bool *cr, const uint8_t *p, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' && !*cr) {
			json_add_text(j, p + from, i - from);
			json_add_text(j, "\r", 1);
			from = i;
		}
		*cr = p[i] == '\r';
	}
	json_add_text(j, p + from, n - from);
}

/* One event: the completed character in first, then p. Nothing if both are empty. */
static void cast_put(struct cast *c, struct json *j, unsigned part, uint64_t time_ms,
		     const uint8_t *first, size_t nfirst, const uint8_t *p, size_t n)
{
	bool as_it_is = c->tty || part == 2;

	if (nfirst + n == 0)
		return;
	line_begin(c, j, time_ms, part == 2 ? "i" : "o");
	json_begin_text(j, NULL);
	if (nfirst > 0)
		json_add_text(j, first, nfirst);
	if (as_it_is)
		json_add_text(j, p, n);
	else
		cast_put_lines(j, &c->parts[part].cr, p, n);
	if (nfirst > 0 && n == 0)
		c->parts[part].cr = false;
	json_end_text(j);
	line_close(j);
}

/* Complete the character that began in an earlier chunk: how many bytes of this one belong to it.
 */
static size_t cast_complete(struct cast_part *k, const uint8_t *p, size_t n)
{
	size_t used = 0;

	while (k->n > 0 && used < n && k->n < sizeof(k->bytes) && (p[used] & 0xc0) == 0x80 &&
	       cast_unfinished(k->bytes, k->n) > 0)
		k->bytes[k->n++] = p[used++];
	return used;
}

/* The rest of an unfinished character is kept for the next chunk. */
static void cast_bytes(struct cast *c, struct json *j, unsigned part, uint64_t time_ms,
		       const uint8_t *p, size_t n)
{
	struct cast_part *k = &c->parts[part];
	size_t used = cast_complete(k, p, n), rest;

	if (used == n && k->n > 0 && cast_unfinished(k->bytes, k->n) > 0)
		return; /* its rest is still to come */
	p += used;
	n -= used;
	rest = cast_unfinished(p, n);
	cast_put(c, j, part, time_ms, k->bytes, k->n, p, n - rest);
	memcpy(k->bytes, p + n - rest, rest);
	k->n = rest;
}

void cast_chunk(struct cast *c, struct json *j, enum output_stream stream, uint64_t time_ms,
		const uint8_t *bytes, size_t n)
{
	unsigned cols, rows;
	char text[40];

	switch (stream) {
	case OUTPUT_STDOUT:
	case OUTPUT_STDERR:
		cast_bytes(c, j, output_index(stream), time_ms, bytes, n);
		break;
	case OUTPUT_INPUT:
		cast_bytes(c, j, 2, time_ms, bytes, n);
		break;
	case OUTPUT_SIZE:
		if (n >= SIZE_TEXT_MAX || !cast_size((const char *)bytes, n, &cols, &rows))
			break;
		line_begin(c, j, time_ms, "r");
		json_bytes(j, NULL, bytes, n);
		line_close(j);
		break;
	case OUTPUT_CUT:
		(void)snprintf(text, sizeof(text), "output cut: %.*s", (int)(n < 16 ? n : 16),
			       (const char *)bytes);
		cast_mark(c, j, time_ms, text);
		break;
	case OUTPUT_RESULT: /* of code: it is no terminal's */
	default:
		break;
	}
}

/* An unfinished character at the end is shown as it is: invalid UTF-8 becomes U+FFFD. */
void cast_end(struct cast *c, struct json *j)
{
	for (unsigned i = 0; i < 3; i++) {
		cast_put(c, j, i, c->last_ms, c->parts[i].bytes, c->parts[i].n, NULL, 0);
		c->parts[i].n = 0;
	}
}
