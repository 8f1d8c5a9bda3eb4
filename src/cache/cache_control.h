/* cache_control.h - the channel to cordond: new links, and questions of the operator. Called by
 * main.c. The loop stops when the channel closes. */
#pragma once

#include "cache.h"

/* sock is taken over. */
int cache_control_open(struct cache *c, int sock, struct err *e) MUST_USE;
