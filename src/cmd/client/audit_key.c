/* audit_key.c - see audit_key.h. libcrypto and other libraries differ in the keys that they
 * accept. A log must not be good for one verifier and bad for another, so the doubtful keys are
 * refused before libcrypto sees them. */
#include "cmd/client/audit_key.h"

#include <openssl/evp.h>
#include <string.h>

/* Does the key have another spelling: is its number not below 2^255 - 19? Verifiers differ in what
 * they make of it. */
static bool is_other_spelling(const uint8_t key[TLOG_KEY])
{
	for (size_t i = 1; i < TLOG_KEY - 1; i++)
		if (key[i] != 0xFF)
			return false;
	return key[0] >= 0xED && (key[TLOG_KEY - 1] & 0x7F) == 0x7F;
}

/* A key of small order holds for signatures that no holder of a key made. These are all their
 * numbers. */
static bool is_small_order(const uint8_t key[TLOG_KEY])
{
	static const uint8_t small[][TLOG_KEY] = {
		{ 0 },
		{ 1 },
		{ 0x26, 0xE8, 0x95, 0x8F, 0xC2, 0xB2, 0x27, 0xB0, 0x45, 0xC3, 0xF4,
		  0x89, 0xF2, 0xEF, 0x98, 0xF0, 0xD5, 0xDF, 0xAC, 0x05, 0xD3, 0xC6,
		  0x33, 0x39, 0xB1, 0x38, 0x02, 0x88, 0x6D, 0x53, 0xFC, 0x05 },
		{ 0xC7, 0x17, 0x6A, 0x70, 0x3D, 0x4D, 0xD8, 0x4F, 0xBA, 0x3C, 0x0B,
		  0x76, 0x0D, 0x10, 0x67, 0x0F, 0x2A, 0x20, 0x53, 0xFA, 0x2C, 0x39,
		  0xCC, 0xC6, 0x4E, 0xC7, 0xFD, 0x77, 0x92, 0xAC, 0x03, 0x7A },
		{ 0xEC, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
		  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
		  0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F },
	};
	uint8_t number[TLOG_KEY]; /* without the sign */

	memcpy(number, key, sizeof(number));
	number[TLOG_KEY - 1] &= 0x7F;
	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
		if (memcmp(number, small[i], sizeof(number)) == 0)
			return true;
	return false;
}

/* Every part that libcrypto could judge by its own habits is checked before: the spelling and
 * the order of the key. Its verdict counts for all others. */
bool audit_key_holds(void *arg, const uint8_t key[TLOG_KEY], const void *message, size_t len,
		     const uint8_t sig[TLOG_SIG])
{
	EVP_PKEY *k = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, TLOG_KEY);
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool good = !is_other_spelling(key) && !is_small_order(key) && k != NULL && c != NULL &&
		    EVP_DigestVerifyInit(c, NULL, NULL, NULL, k) == 1 &&
		    EVP_DigestVerify(c, sig, TLOG_SIG, message, len) == 1;

	EVP_MD_CTX_free(c);
	EVP_PKEY_free(k);
	return good;
}
