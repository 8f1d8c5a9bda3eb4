/* tries.h - how many signatures each address may have tried.
 *
 * A signed URL that does not name its sandbox is tried with the token of every live session, and
 * anyone may send one. So tries are counted by address: one that asks too often is refused for the
 * rest of the second, others are not. Signatures that were good count little. Many addresses
 * together have a bound, too, beyond which only those that have not tried yet in this second go on.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

#define TRIES_ADDRESS 16 /* bytes that stand for one */

struct tries;

struct tries *tries_new(struct err *e) MUST_USE; /* free() */
bool tries_may(struct tries *t, const uint8_t address[TRIES_ADDRESS], uint64_t now_ns);
/* After tries_may(): n tokens were tried. */
void tries_count(struct tries *t, const uint8_t address[TRIES_ADDRESS], unsigned n, bool good);
