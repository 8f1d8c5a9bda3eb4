/* keystore.h - Java's trusted certificates: a file of its own format, version 2 of "JKS". Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "err.h"

/* The store with one more trusted certificate (PEM, one), under the password that every Java has.
 * ERR_UNSUPPORTED if the bytes are not such a store, or have another password; then Java is left as
 * it is. The caller frees *ret. */
int keystore_add(const uint8_t *bytes, size_t len, const char *alias, const char *cert,
		 uint8_t **ret, size_t *ret_len, struct err *e) MUST_USE;
