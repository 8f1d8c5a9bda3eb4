/* gateway_ws.c - checks an answer to a WebSocket handshake (RFC 6455, 4.1). A server, or a proxy
 * before it, that did not compute the right Sec-WebSocket-Accept does not speak WebSocket, whatever
 * its status says. Extensions, which change the form of frames, are never asked for and refused. */
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

/* Did the server choose a subprotocol that was offered, or none? */
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
		return "the server changed the protocol without being asked";
	if (!http1_lists(a->headers, a->headers_n, "upgrade", "websocket"))
		return "the server changed to a protocol other than WebSocket";
	if (!is_accepted(x, a))
		return "the server's Sec-WebSocket-Accept does not match the key it was sent";
	if (http1_find(a->headers, a->headers_n, "sec-websocket-extensions", NULL) > 0)
		return "the server uses a WebSocket extension that was not asked for";
	if (!is_protocol_known(x, a))
		return "the server chose a WebSocket protocol that was not offered";
	return NULL;
}
