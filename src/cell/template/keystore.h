/* keystore.h - adds a certificate to Java's trusted ones, a key store of the format JKS, version 2.
 * Called by ca_trust.c. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Make a copy of the key store with one more trusted certificate (one, in PEM). The key store must
 * have Java's default password. ERR_UNSUPPORTED if it is of another format or has another password.
 * The caller frees *ret. */
int keystore_add(const uint8_t *bytes, size_t len, const char *alias, const char *cert,
		 uint8_t **ret, size_t *ret_len, struct err *e) MUST_USE;
