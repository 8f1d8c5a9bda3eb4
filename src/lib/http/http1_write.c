#include "lib/http/http1_write.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A part that does not fit is left out whole, and the head stays bad. */
static void http1_put(struct http1_write *w, const char *text)
{
	size_t n = strlen(text);

	if (n > w->cap - w->len) {
		w->bad = true;
		return;
	}
	memcpy(w->text + w->len, text, n);
	w->len += n;
}

/* Begin the head. Statuses outside of 100 to 599 are bad. */
void http1_write_status(struct http1_write *w, char *text, size_t cap, int status)
{
	char number[16];

	*w = (struct http1_write){ .text = text, .cap = cap };
	w->bad = status < 100 || status > 599;
	(void)snprintf(number, sizeof(number), "HTTP/1.1 %d ", status);
	http1_put(w, number);
	http1_put(w, http1_reason(status));
	http1_put(w, "\r\n");
}

/* Begin the head, with Host as its first header. Method and target are checked, so they cannot add
 * a line. */
void http1_write_request(struct http1_write *w, char *text, size_t cap, const char *method,
			 const char *target, const char *host)
{
	*w = (struct http1_write){ .text = text, .cap = cap };
	w->bad =
		!http1_is_token(method, strlen(method)) || !http1_is_target(target, strlen(target));
	http1_put(w, method);
	http1_put(w, " ");
	http1_put(w, target);
	http1_put(w, " HTTP/1.1\r\n");
	http1_write_header(w, "Host", host);
}

/* Name and value are written even if they are bad: http1_write_end() keeps the head from being
 * sent. */
void http1_write_header(struct http1_write *w, const char *name, const char *value)
{
	if (!http1_is_token(name, strlen(name)) || !http1_is_value(value, strlen(value)))
		w->bad = true;
	http1_put(w, name);
	http1_put(w, ": ");
	http1_put(w, value);
	http1_put(w, "\r\n");
}

void http1_write_number(struct http1_write *w, const char *name, uint64_t value)
{
	char number[24];

	(void)snprintf(number, sizeof(number), "%" PRIu64, value);
	http1_write_header(w, name, number);
}

int http1_write_end(struct http1_write *w)
{
	http1_put(w, "\r\n");
	return w->bad || w->len > INT_MAX ? -1 : (int)w->len;
}
