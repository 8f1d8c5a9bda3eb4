/* keystore.c - theory of operation
 *
 *	u32 0xfeedfeed, u32 2, u32 count, entries, 20 bytes of SHA-1
 *
 * in network byte order. The sum covers the password in UTF-16, the words "Mighty Aphrodite", and
 * all bytes before it: it detects accidents, not attacks. A trusted certificate is
 *
 *	u32 2, alias, u64 time, "X.509", u32 length, DER
 *
 * where strings have u16 lengths. Entries need not be read to add one behind them. */
#include "cell/template/keystore.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/sha1.h"

#define MAGIC 0xfeedfeedU
#define HEAD 12
#define DER_MAX 8192

static const uint8_t salt[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
#define SALT_LEN (sizeof(salt) - 1)

static uint32_t keystore_get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The low n bytes of value. */
static uint8_t *keystore_put(uint8_t *p, uint64_t value, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(value >> (8 * (n - 1 - i)));
	return p + n;
}

static uint8_t *keystore_put_bytes(uint8_t *p, const void *bytes, size_t n)
{
	memcpy(p, bytes, n);
	return p + n;
}

/* A length of 16 bits, then the bytes. */
static uint8_t *keystore_put_string(uint8_t *p, const char *s)
{
	return keystore_put_bytes(keystore_put(p, strlen(s), 2), s, strlen(s));
}

/* The bytes between the lines that begin with dashes. */
static ssize_t keystore_read_pem(const char *pem, uint8_t *ret)
{
	char text[BASE64_LENGTH(DER_MAX)];
	size_t n = 0;

	pem += strcspn(pem, "\n");
	for (; *pem != '\0' && *pem != '-'; pem++)
		if (*pem != '\n' && *pem != '\r') {
			if (n == sizeof(text))
				return -1;
			text[n++] = *pem;
		}
	return base64_decode(text, n, ret);
}

int keystore_add(const uint8_t *bytes, size_t len, const char *alias, const char *cert,
		 uint8_t **ret, size_t *ret_len, struct err *e)
{
	uint8_t der[DER_MAX], sum[SHA1_SIZE], *at;
	ssize_t der_len = keystore_read_pem(cert, der);
	OWN_MEM uint8_t *made = NULL;

	if (der_len <= 0)
		return err_set(e, ERR_INVALID, "keystore: no certificate to add");
	if (len < HEAD + SHA1_SIZE || keystore_get32(bytes) != MAGIC ||
	    keystore_get32(bytes + 4) != 2)
		return err_set(e, ERR_UNSUPPORTED, "keystore: not of the format JKS");
	/* Password and words in front of the bytes, as the sum begins with them. */
	made = malloc(SALT_LEN + len + strlen(alias) + (size_t)der_len + 64);
	if (made == NULL)
		return err_sys(e, "allocate");
	at = keystore_put_bytes(keystore_put_bytes(made, salt, SALT_LEN), bytes, len - SHA1_SIZE);
	sha1_digest(made, (size_t)(at - made), sum);
	if (memcmp(sum, bytes + len - SHA1_SIZE, SHA1_SIZE) != 0)
		return err_set(e, ERR_UNSUPPORTED, "keystore: protected by another password");
	(void)keystore_put(made + SALT_LEN + 8, keystore_get32(bytes + 8) + 1, 4);
	at = keystore_put_string(keystore_put(at, 2, 4), alias);
	at = keystore_put_string(keystore_put(at, 0, 8),
				 "X.509"); /* time 0, so that the result is always the same */
	at = keystore_put_bytes(keystore_put(at, (uint64_t)der_len, 4), der, (size_t)der_len);
	sha1_digest(made, (size_t)(at - made), sum);
	at = keystore_put_bytes(at, sum, SHA1_SIZE);
	*ret_len = (size_t)(at - made) - SALT_LEN;
	memmove(made, made + SALT_LEN, *ret_len);
	*ret = made;
	made = NULL;
	return 0;
}
