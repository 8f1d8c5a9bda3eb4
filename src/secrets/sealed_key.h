/* sealed_key.h - random keys of interfaces that outlive the daemon, in the store, sealed as secrets
 * are: a copy of the database is worth nothing without the operator's key. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct core;

#define SEALED_KEY_MAX 64

/* Reads the key of that name, len bytes, or makes it. One that an older version kept in the clear
 * is sealed, and its clear text wiped; one that was sealed by an older key of the operator's is
 * sealed anew. If the operator's key for it is gone, a new one is made: what the old one signed is
 * worth nothing then. */
int sealed_key_get(struct core *c, const char *name, uint8_t *ret, size_t len,
		   struct err *e) MUST_USE;
