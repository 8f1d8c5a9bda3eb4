/* sealed_key.h - random keys of the server itself, such as the one that signs access tokens, kept
 * in the store and sealed as secrets are: a copy of the database is of no use without the
 * operator's key. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct core;

#define SEALED_KEY_MAX 64

/* Read the key of that name, len bytes, or make it. A key that an older version kept in the clear
 * is sealed, and its clear text wiped. One sealed by an older key of the operator is sealed again.
 * If the operator's key for it is gone, a new key is made, and signatures of the old one are not
 * accepted any more. */
int sealed_key_get(struct core *c, const char *name, uint8_t *ret, size_t len,
		   struct err *e) MUST_USE;
