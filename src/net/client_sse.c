/* client_sse.c - reads server-sent events in the body of an answer (client.h), line by line (LF,
 * or CR LF). */
#include "client.h"

#include <stdio.h>
#include <string.h>

#include "client_conn.h"

static int too_long(const struct client *c, struct err *e)
{
	return err_set(e, ERR_LIMIT, "%s sent an event longer than %zu bytes", c->host_port,
		       CLIENT_EVENT_MAX);
}

/* The next line, without its end, in *ret: 1; 0 at the end of the body; -1. Valid until the next
 * call. */
static int next_line(struct client *c, struct http1_span *ret, struct err *e)
{
	for (;;) {
		char *bytes = (char *)fifo_bytes(&c->lines);
		char *end = c->lines.len > c->lines_scanned
				    ? memchr(bytes + c->lines_scanned, '\n',
					     c->lines.len - c->lines_scanned)
				    : NULL;
		uint8_t *to;
		ssize_t n;

		if (end) {
			*ret = (struct http1_span){ bytes, (size_t)(end - bytes) };
			if (ret->n > 0 && bytes[ret->n - 1] == '\r')
				ret->n--;
			fifo_consume(&c->lines, (size_t)(end - bytes) + 1);
			c->lines_scanned = 0;
			return 1;
		}
		c->lines_scanned = c->lines.len;
		if (c->lines.len > CLIENT_EVENT_MAX)
			return too_long(c, e);
		to = fifo_reserve(&c->lines, 4096);
		if (!to)
			return err_sys(e, "out of memory for an event");
		n = client_read(c, to, 4096, e);
		if (n <= 0)
			return (int)n; /* a last line without an end is dropped */
		fifo_commit(&c->lines, (size_t)n);
	}
}

static bool is_field(struct http1_span line, const char *name, struct http1_span *ret_value)
{
	size_t n = strlen(name);

	if (line.n < n || memcmp(line.p, name, n) != 0 || (line.n > n && line.p[n] != ':'))
		return false;
	n += line.n > n;
	n += line.n > n && line.p[n] == ' ';
	*ret_value = (struct http1_span){ line.p + n, line.n - n };
	return true;
}

/* 0, or -1. */
static int take_line(struct client *c, struct http1_span line, struct err *e)
{
	struct http1_span value;

	if (is_field(line, "event", &value))
		(void)snprintf(c->event_name, sizeof(c->event_name), "%.*s", (int)value.n, value.p);
	else if (is_field(line, "id", &value))
		(void)snprintf(c->event_id, sizeof(c->event_id), "%.*s", (int)value.n, value.p);
	else if (is_field(line, "data", &value)) {
		if (c->event.len + value.n > CLIENT_EVENT_MAX)
			return too_long(c, e);
		if (fifo_add(&c->event, value.p, value.n) < 0 || fifo_add(&c->event, "\n", 1) < 0)
			return err_sys(e, "out of memory for an event");
	}
	return 0; /* comments and unknown fields */
}

int client_sse_next(struct client *c, struct client_event *ret, struct err *e)
{
	fifo_consume(&c->event, c->event.len);
	c->event_name[0] = c->event_id[0] = '\0';
	for (;;) {
		struct http1_span line = { 0 };
		int n = next_line(c, &line, e);

		if (n <= 0)
			return n;
		if (line.n > 0) {
			if (take_line(c, line, e) < 0)
				return -1;
			continue;
		}
		if (c->event.len > 0)
			break;
		c->event_name[0] = c->event_id[0] = '\0'; /* without data there is no event */
	}
	/* The end of the last line becomes the NUL. */
	c->event.data[c->event.at + c->event.len - 1] = '\0';
	*ret = (struct client_event){ .name = c->event_name[0] ? c->event_name : "message",
				      .id = c->event_id,
				      .data = (const char *)fifo_bytes(&c->event),
				      .data_len = c->event.len - 1 };
	return 1;
}
