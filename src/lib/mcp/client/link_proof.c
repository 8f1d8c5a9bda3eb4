#include "lib/mcp/client/link_proof.h"

#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/rand.h"
#include "lib/base/sha256.h"

void link_random(char ret[LINK_WORD + 1])
{
	uint8_t bytes[LINK_WORD / 2];

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret);
}

/* All parts but the token have a fixed length, and the token is not chosen by the other side. who
 * tells the two sides apart, so a proof cannot be sent back to its maker. The nonce is fresh, so an
 * old proof is worthless. */
void link_proof(const char *token, char who, const char nonce[LINK_WORD], char ret[LINK_WORD + 1])
{
	uint8_t hash[SHA256_SIZE];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, nonce, LINK_WORD);
	sha256_add(&s, &who, 1);
	sha256_add(&s, token, strlen(token));
	sha256_add(&s, nonce, LINK_WORD);
	sha256_end(&s, hash);
	hex_encode(hash, sizeof(hash), ret);
}

bool link_same(const char a[LINK_WORD], const char b[LINK_WORD])
{
	unsigned char differs = 0;

	for (int i = 0; i < LINK_WORD; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}
