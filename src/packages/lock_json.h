/* lock_json.h - the pins of lockfiles as a policy has them: { "npm:left-pad": ["1.3.0 sha512:HEX"]
 * }. A version with several files has several strings; one without a digest is the version alone.
 */
#pragma once

#include <jansson.h>

#include "lock.h"

/* Adds the pins of a lockfile to the object; on failure the object may have some of them. */
int lock_json_add(const char *name, const char *text, size_t len, json_t *pins,
		  struct err *e) MUST_USE;
