/* signature_limit.h - how many signatures each address may have checked.
 *
 * A signed URL that does not name its sandbox is tried with the token of every live session, and
 * any client may send one. So these comparisons are counted for each address: an address with too
 * many is refused for the rest of the second, others are not. Valid signatures count less. All
 * addresses together have a bound, too, beyond which only an address without a comparison in this
 * second is allowed. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SIGNATURE_LIMIT_ADDRESS 16 /* bytes that stand for one */

struct signature_limit;

struct signature_limit *signature_limit_new(struct err *e) MUST_USE; /* free() */
bool signature_limit_allows(struct signature_limit *t,
			    const uint8_t address[SIGNATURE_LIMIT_ADDRESS], uint64_t now_ns);
/* After signature_limit_allows(): n tokens were tried. */
void signature_limit_add(struct signature_limit *t, const uint8_t address[SIGNATURE_LIMIT_ADDRESS],
			 unsigned n, bool good);
