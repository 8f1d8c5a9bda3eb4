#include "lib/http/sse.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

struct http_sse_out {
	char *text;
	size_t cap, len;
	bool full;
};

/* One byte of the room is kept for the NUL. */
static void sse_put(struct http_sse_out *o, const char *text, size_t n)
{
	if (o->full || n >= o->cap - o->len) {
		o->full = true;
		return;
	}
	if (n > 0)
		memcpy(o->text + o->len, text, n);
	o->len += n;
}

static void sse_put_line(struct http_sse_out *o, const char *field, const char *text, size_t n)
{
	sse_put(o, field, strlen(field));
	sse_put(o, text, n);
	sse_put(o, "\n", 1);
}

/* CR alone ends a line as well, as readers of event streams must take it. */
static size_t sse_line_length(const char *data, size_t len)
{
	size_t n = 0;

	while (n < len && data[n] != '\n' && data[n] != '\r')
		n++;
	return n;
}

static bool sse_is_line(const char *text)
{
	return text == NULL || text[strcspn(text, "\r\n")] == '\0';
}

/* Empty data is one empty line. Data that ends with a line end has one empty line more. */
int sse_event(char *ret, size_t cap, const char *event, const char *id, const char *data,
	      size_t len)
{
	struct http_sse_out o = { .text = ret, .cap = cap };

	if (!sse_is_line(event) || !sse_is_line(id))
		return -1;
	if (event != NULL)
		sse_put_line(&o, "event: ", event, strlen(event));
	if (id != NULL)
		sse_put_line(&o, "id: ", id, strlen(id));
	for (;;) {
		size_t n = sse_line_length(data, len);

		sse_put_line(&o, "data: ", data, n);
		if (n == len)
			break;
		n += data[n] == '\r' && n + 1 < len && data[n + 1] == '\n' ? 2 : 1;
		data += n;
		len -= n;
	}
	sse_put(&o, "\n", 1);
	if (o.full || o.len > INT_MAX)
		return -1;
	ret[o.len] = '\0';
	return (int)o.len;
}
