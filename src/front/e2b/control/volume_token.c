#include "front/e2b/control/volume_token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hex.h"

/* The generation is part of the code and not of the token. */
void volume_token_make(const struct token_key *k, const struct store_volume *v, const char *key_id,
		       uint64_t until_ms, char ret[VOLUME_TOKEN_MAX])
{
	char text[2 * STORE_ID_MAX + 80], digits[2 * SHA256_SIZE + 1];
	uint8_t code[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "volume:%s:%s:%llu:%llu", v->id, key_id,
		       (unsigned long long)until_ms, (unsigned long long)v->generation);
	token_hmac(k, text, code);
	hex_encode(code, sizeof(code), digits);
	(void)snprintf(ret, VOLUME_TOKEN_MAX, "%s.%s.%llu.%s", v->id, key_id,
		       (unsigned long long)until_ms, digits);
}

/* The part between the first dot and the second, and the number behind that. */
static bool read_parts(const char *text, char ret_key[STORE_ID_MAX], uint64_t *ret_until)
{
	const char *key = strchr(text, '.'), *until = key == NULL ? NULL : strchr(key + 1, '.');
	size_t n = until == NULL ? 0 : (size_t)(until - key) - 1;

	if (n == 0 || n >= STORE_ID_MAX)
		return false;
	memcpy(ret_key, key + 1, n);
	ret_key[n] = '\0';
	*ret_until = strtoull(until + 1, NULL, 10);
	return true;
}

/* The token is made again from its own parts and compared. So a malformed number cannot pass. */
bool volume_token_check(const struct token_key *k, const struct store_volume *v, uint64_t now_ms,
			struct http1_span given, char ret_key[STORE_ID_MAX])
{
	char text[VOLUME_TOKEN_MAX], token[VOLUME_TOKEN_MAX];
	uint64_t until_ms;

	if (given.n >= sizeof(text) || memchr(given.p, '\0', given.n) != NULL)
		return false;
	memcpy(text, given.p, given.n);
	text[given.n] = '\0';
	if (!read_parts(text, ret_key, &until_ms) || until_ms <= now_ms)
		return false;
	volume_token_make(k, v, ret_key, until_ms, token);
	return token_same(text, token);
}
