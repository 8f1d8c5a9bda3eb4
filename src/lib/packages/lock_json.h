/* lock_json.h - the pins of lockfiles in the form of policies: { "npm:left-pad": ["1.3.0
 * sha512:HEX"] }. A version with several files has several strings. Without a digest the string is
 * the version alone. */
#pragma once

#include <jansson.h>

#include "lib/packages/lock.h"

/* Add the pins of a lockfile to the object. After a failure the object may have some of them. */
int lock_json_add(const char *name, const char *text, size_t len, json_t *pins,
		  struct err *e) MUST_USE;
/* As above, in pieces: a reader of lock.h that adds to the object. NULL: with the error set. */
struct lock_reader *lock_json_reader(const char *name, const char *text, size_t len, json_t *pins,
				     struct err *e);
