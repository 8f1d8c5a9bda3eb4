#include "aws_sign.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "hex.h"
#include "hmac.h"

#define SIGNED "content-type;host;x-amz-date;x-amz-target"
#define SECRET_MAX 256
#define TEXT_MAX 1024
#define DIGITS (2 * SHA256_SIZE + 1)

void aws_sign_date(const char *stamp, char ret[AWS_SIGN_DATE_MAX])
{
	size_t n = 0;

	for (; *stamp != '\0' && *stamp != '.' && n < AWS_SIGN_DATE_MAX - 2; stamp++)
		if (isdigit((unsigned char)*stamp) || *stamp == 'T')
			ret[n++] = *stamp;
	ret[n++] = 'Z';
	ret[n] = '\0';
}

static void hash_text(const char *text, char ret[DIGITS])
{
	uint8_t hash[SHA256_SIZE];

	sha256_of(text, strlen(text), hash);
	hex_encode(hash, sizeof(hash), ret);
}

/* The hash of the request in its canonical form. */
static int hash_request(const struct aws_sign *a, char ret[DIGITS])
{
	char text[TEXT_MAX], body[DIGITS];
	int n;

	hash_text(a->body, body);
	n = snprintf(
		text, sizeof(text),
		"POST\n/\n\ncontent-type:%s\nhost:%s\nx-amz-date:%s\nx-amz-target:%s\n\n" SIGNED
		"\n%s",
		a->type, a->host, a->date, a->target, body);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -1;
	hash_text(text, ret);
	return 0;
}

/* The key of this day, region and service, made from the secret. */
static int make_key(const struct aws_sign *a, uint8_t ret[SHA256_SIZE])
{
	const char *const parts[] = { a->region, a->service, "aws4_request" };
	char secret[SECRET_MAX];
	int n = snprintf(secret, sizeof(secret), "AWS4%s", a->secret);

	if (n > 0 && (size_t)n < sizeof(secret)) {
		hmac_sha256(secret, (size_t)n, a->date, 8, ret);
		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
			hmac_sha256(ret, SHA256_SIZE, parts[i], strlen(parts[i]), ret);
	}
	explicit_bzero(secret, sizeof(secret));
	return n > 0 && (size_t)n < sizeof(secret) ? 0 : -1;
}

int aws_sign(const struct aws_sign *a, char ret[AWS_SIGN_MAX], struct err *e)
{
	char scope[128], request[DIGITS], text[TEXT_MAX], signature[DIGITS];
	uint8_t key[SHA256_SIZE];
	int n = snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", a->date, a->region,
			 a->service);

	if (n < 0 || (size_t)n >= sizeof(scope) || hash_request(a, request) < 0 ||
	    make_key(a, key) < 0)
		return err_set(e, ERR_INVALID, "the credentials of AWS are too long");
	(void)snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", a->date, scope, request);
	hmac_sha256(key, sizeof(key), text, strlen(text), key);
	hex_encode(key, sizeof(key), signature);
	n = snprintf(ret, AWS_SIGN_MAX,
		     "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=" SIGNED ", Signature=%s",
		     a->key_id, scope, signature);
	if (n < 0 || n >= AWS_SIGN_MAX)
		return err_set(e, ERR_INVALID, "the credentials of AWS are too long");
	return 0;
}
