/* http_front.h - the HTTP server of mcp-gateway: POST /mcp with the token, nothing else. Called by
 * its main. Clients are not trusted before the token was checked, and bounded after. */
#pragma once

#include "incell/mcpgateway/front.h"

/* Listen on all addresses of the cell. token is borrowed. */
int http_front_open(struct loop *l, struct front *f, uint16_t port, const char *token,
		    struct err *e) MUST_USE;
