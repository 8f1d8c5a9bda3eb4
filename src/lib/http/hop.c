#include "lib/http/hop.h"

#include <string.h>
#include <strings.h>

/* An empty Connection header names no other, and a list that is too long is ignored. */
struct hop hop_of(const struct http1_header *headers, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		if (http1_span_is_nocase(headers[i].name, "connection"))
			bytes += headers[i].value.n;
	return (struct hop){ headers, n, bytes > 0 && bytes <= HOP_CONNECTION_MAX };
}

/* http1_lists() takes a text, and a name is a span. */
static bool hop_is_named(const struct hop *h, struct http1_span name)
{
	char text[128];

	if (!h->connection || name.n >= sizeof(text))
		return false; /* no header of a connection has such a long name */
	memcpy(text, name.p, name.n);
	text[name.n] = '\0';
	return http1_lists(h->at, h->n, "connection", text);
}

static bool hop_is_fixed(struct http1_span name)
{
	static const char *const names[] = { "connection", "content-length",
					     "keep-alive", "transfer-encoding",
					     "te",	   "trailer",
					     "upgrade",	   "http2-settings" };

	for (size_t i = 0; i < COUNT(names); i++)
		if (http1_span_is_nocase(name, names[i]))
			return true;
	return name.n >= 6 && strncasecmp(name.p, "proxy-", 6) == 0;
}

bool hop_is(const struct hop *h, struct http1_span name)
{
	return hop_is_fixed(name) || hop_is_named(h, name);
}
