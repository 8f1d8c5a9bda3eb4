/* hmac.h - HMAC (RFC 2104) with SHA-256. Pure. */
#pragma once

#include "lib/base/sha256.h"

/* ret may be the key or the data. */
void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
		 uint8_t ret[SHA256_SIZE]);
