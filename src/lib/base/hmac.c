#include "lib/base/hmac.h"

#include <string.h>

#define BLOCK 64

void hmac_sha256(const void *key, size_t key_len, const void *data, size_t len,
		 uint8_t ret[SHA256_SIZE])
{
	uint8_t inner[BLOCK] = { 0 }, outer[BLOCK];
	struct sha256 s;

	if (key_len > BLOCK)
		sha256_of(key, key_len, inner);
	else if (key_len > 0)
		memcpy(inner, key, key_len);
	for (size_t i = 0; i < BLOCK; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	sha256_init(&s);
	sha256_add(&s, inner, BLOCK);
	sha256_add(&s, data, len);
	sha256_end(&s, ret);
	sha256_init(&s);
	sha256_add(&s, outer, BLOCK);
	sha256_add(&s, ret, SHA256_SIZE);
	sha256_end(&s, ret);
	explicit_bzero(inner, sizeof(inner));
	explicit_bzero(outer, sizeof(outer));
	explicit_bzero(&s, sizeof(s));
}
