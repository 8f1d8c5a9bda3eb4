#include "volume_token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hex.h"

void volume_token_make(const struct token_key *k, const struct store_volume *v, uint64_t until_ms,
		       char ret[VOLUME_TOKEN_MAX])
{
	char text[STORE_ID_MAX + 80], digits[2 * SHA256_SIZE + 1];
	uint8_t code[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "volume:%s:%llu:%llu", v->id,
		       (unsigned long long)until_ms, (unsigned long long)v->generation);
	token_hmac(k, text, code);
	hex_encode(code, sizeof(code), digits);
	(void)snprintf(ret, VOLUME_TOKEN_MAX, "%s.%llu.%s", v->id, (unsigned long long)until_ms,
		       digits);
}

bool volume_token_check(const struct token_key *k, const struct store_volume *v, uint64_t now_ms,
			struct http1_span given)
{
	char text[VOLUME_TOKEN_MAX], token[VOLUME_TOKEN_MAX];
	const char *dot;
	uint64_t until_ms;

	if (given.n >= sizeof(text) || memchr(given.p, '\0', given.n) != NULL)
		return false;
	memcpy(text, given.p, given.n);
	text[given.n] = '\0';
	dot = strchr(text, '.');
	until_ms = dot == NULL ? 0 : strtoull(dot + 1, NULL, 10);
	if (until_ms <= now_ms)
		return false;
	volume_token_make(k, v, until_ms, token);
	return token_same(text, token);
}
