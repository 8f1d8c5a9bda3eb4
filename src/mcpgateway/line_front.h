/* line_front.h - MCP over a local port of the cell, one JSON message per line, for cordond, which
 * joins the servers of several cells. Called by main.c. Whoever connects is a process of this cell
 * or cordond: there is no token, and nothing that the server itself does not give. */
#pragma once

#include "front.h"

/* Listens on 127.0.0.1. */
int line_front_open(struct loop *l, struct front *f, uint16_t port, struct err *e) MUST_USE;
/* The tools of the server are others now: tells every client. */
void line_front_changed(void);
