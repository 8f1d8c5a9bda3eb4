/* line_front.h - MCP over a local port of the cell, one JSON message per line, for cordond, which
 * joins the servers of several cells. Called by main.c. The client may be any process of this cell,
 * also by cordond's proxy of ports: only one that proves that it knows the token is answered
 * (link_proof.h). */
#pragma once

#include "incell/mcpgateway/front.h"

/* Listen on 127.0.0.1, before the server is started: no program of it can have the port. The token
 * is borrowed. */
int line_front_open(struct loop *l, struct front *f, uint16_t port, const char *token,
		    struct err *e) MUST_USE;
/* The tools of the server are known: accepts connections. */
int line_front_begin(struct err *e) MUST_USE;
/* The tools of the server are others now: tells every client. */
void line_front_changed(void);
