/* gateway_ws.c - the server's answer to a request to become a WebSocket (RFC 6455, 4.1). A server,
 * or a proxy before it, that has not computed the right answer does not speak WebSocket, whatever
 * its status says; and without extensions, which are never asked for, frames are what they seem. */
#include "gateway_ws.h"

#include <string.h>

static bool is_accepted(const struct gateway *x, const struct http1_response *a)
{
	struct http1_span accept;
	char want[WS_ACCEPT_LEN + 1];

	ws_accept_key(x->r.ws_key, want);
	return http1_find(a->headers, a->headers_n, "sec-websocket-accept", &accept) == 1 &&
	       http1_span_is(accept, want);
}

/* One that was offered, or none. */
static bool is_protocol_known(const struct gateway *x, const struct http1_response *a)
{
	struct http1_span chosen;
	char text[128];
	size_t n = http1_find(a->headers, a->headers_n, "sec-websocket-protocol", &chosen);

	if (n == 0)
		return true;
	if (n != 1 || chosen.n >= sizeof(text))
		return false;
	if (chosen.n > 0)
		memcpy(text, chosen.p, chosen.n);
	text[chosen.n] = '\0';
	return http1_lists(x->r.headers, x->r.headers_n, "sec-websocket-protocol", text);
}

const char *gateway_ws_flaw(const struct gateway *x, const struct http1_response *a)
{
	if (!x->r.upgrade_websocket)
		return "the server changes the protocol, which was not asked for";
	if (!http1_lists(a->headers, a->headers_n, "upgrade", "websocket"))
		return "the server changes to another protocol than WebSocket";
	if (!is_accepted(x, a))
		return "the server says 101, but its Sec-WebSocket-Accept is not the one for the "
		       "key it was sent";
	if (http1_find(a->headers, a->headers_n, "sec-websocket-extensions", NULL) > 0)
		return "the server uses a WebSocket extension that was not asked for";
	if (!is_protocol_known(x, a))
		return "the server chose a WebSocket protocol that was not offered";
	return NULL;
}
