#include "pull/login.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/hmac.h"
#include "lib/base/str.h"
#include "lib/http/url.h"
#include "lib/oci/oci_ref.h"
#include "pull/registry_json.h"

/* Headers and tokens are secrets, so no freed memory keeps them. NULL is allowed. */
static void login_wipe(char *text)
{
	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
}

void login_release(struct login *l)
{
	login_wipe(l->header);
	l->header = NULL;
}

const char *login_header(const struct login *l, const struct address *to)
{
	return address_same_origin(&l->home, to) ? l->header : NULL;
}

/* "Basic ..." of the credentials. NULL: no memory. */
static char *login_basic_of(const struct login *l)
{
	size_t n = strlen(l->user) + 1 + strlen(l->password);
	size_t cap = sizeof("Basic ") + BASE64_LENGTH(n);
	char *plain = malloc(n + 1), *text = malloc(cap);

	if (plain != NULL && text != NULL) {
		(void)snprintf(plain, n + 1, "%s:%s", l->user, l->password);
		(void)snprintf(text, cap, "Basic ");
		base64_encode(plain, n, text + strlen("Basic "));
		login_wipe(plain);
		return text;
	}
	free(plain);
	free(text);
	return NULL;
}

/* Set the header to "SCHEME TEXT". */
static int login_set(struct login *l, const char *scheme, const char *text, struct err *e)
{
	size_t cap = strlen(scheme) + 1 + strlen(text) + 1;

	login_release(l);
	l->header = malloc(cap);
	if (l->header == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	(void)snprintf(l->header, cap, "%s %s", scheme, text);
	return 0;
}

int login_basic(struct login *l, struct err *e)
{
	if (l->user[0] == '\0')
		return err_set(e, ERR_DENIED, "the registry wants a user name and a password");
	login_release(l);
	l->header = login_basic_of(l);
	return l->header == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

/* Append to the query. -1: the target is full. */
static int login_add_parameter(struct address *a, const char *name, const char *value)
{
	size_t at = strlen(a->target);
	int n = snprintf(a->target + at, sizeof(a->target) - at,
			 "%c%s=", strchr(a->target, '?') != NULL ? '&' : '?', name);

	at += (size_t)n;
	if (at >= sizeof(a->target))
		return -1;
	return url_encode(value, strlen(value), a->target + at, sizeof(a->target) - at) < 0 ? -1
											    : 0;
}

int login_token_address(const struct login *l, const struct challenge *c, struct address *ret,
			char **ret_header, struct err *e)
{
	char scope[CHALLENGE_SCOPE_MAX];

	*ret_header = NULL;
	if (address_read(c->realm, strlen(c->realm), ret, e) < 0)
		return err_wrap(e, "token server");
	/* A challenge may leave the scope out. Then the token is asked for this repository, to read
	 * only. */
	(void)snprintf(scope, sizeof(scope), "repository:%.400s:pull", l->repository);
	if ((c->service[0] != '\0' && login_add_parameter(ret, "service", c->service) < 0) ||
	    login_add_parameter(ret, "scope", c->scope[0] != '\0' ? c->scope : scope) < 0)
		return err_set(e, ERR_INVALID, "token server: its address is too long");
	if (l->user[0] == '\0')
		return 0;
	*ret_header = login_basic_of(l);
	return *ret_header == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : 0;
}

/* A former header is dropped if the answer has no token: it was refused before. */
int login_token(struct login *l, const char *text, size_t len, struct err *e)
{
	char *token = registry_json_token(text, len);
	int rc;

	if (token == NULL) {
		login_release(l);
		return err_set(e, ERR_INVALID, "the answer of the token server has no token");
	}
	rc = login_set(l, "Bearer", token, e);
	login_wipe(token);
	return rc;
}

/* ---- requests signed for AWS */

/* SIGNED lists the headers in the order of aws_hash_request(), which AWS repeats. */
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

/* AWS writes all hashes in hexadecimal digits. */
static void aws_hash_text(const char *text, char ret[DIGITS])
{
	uint8_t hash[SHA256_SIZE];

	sha256_of(text, strlen(text), hash);
	hex_encode(hash, sizeof(hash), ret);
}

/* The hash of the request in its canonical form. */
static int aws_hash_request(const struct aws_sign *a, char ret[DIGITS])
{
	char text[TEXT_MAX], body[DIGITS];
	int n;

	aws_hash_text(a->body, body);
	n = snprintf(
		text, sizeof(text),
		"POST\n/\n\ncontent-type:%s\nhost:%s\nx-amz-date:%s\nx-amz-target:%s\n\n" SIGNED
		"\n%s",
		a->type, a->host, a->date, a->target, body);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -1;
	aws_hash_text(text, ret);
	return 0;
}

/* The key of this day, region and service, made from the secret. */
static int aws_make_key(const struct aws_sign *a, uint8_t ret[SHA256_SIZE])
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

/* Three steps: hash the request, sign the hash with the day's key, write the header. Texts that do
 * not fit a buffer are refused, never cut. */
int aws_sign(const struct aws_sign *a, char ret[AWS_SIGN_MAX], struct err *e)
{
	char scope[128], request[DIGITS], text[TEXT_MAX], signature[DIGITS];
	uint8_t key[SHA256_SIZE];
	int n = snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", a->date, a->region,
			 a->service);

	if (n < 0 || (size_t)n >= sizeof(scope) || aws_hash_request(a, request) < 0 ||
	    aws_make_key(a, key) < 0)
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

/* ---- the password of a registry of AWS */

#define TYPE "application/x-amz-json-1.1"
#define CALL "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"

/* oci_ecr_read() derives region and API host from the registry's name. */
int ecr_login_ask(const struct login *l, struct ecr_login *ret, struct err *e)
{
	struct aws_sign sign = { .key_id = l->user,
				 .secret = l->password,
				 .service = "ecr",
				 .type = TYPE,
				 .target = CALL,
				 .body = "{}" };
	struct oci_ecr ecr;
	char stamp[32];

	if (!oci_ecr_read(l->home.host, &ecr))
		return err_set(e, ERR_INVALID, "%.100s is not a registry of AWS", l->home.host);
	ret->to = (struct address){ .tls = true, .port = 443, .target = "/" };
	str_copy(ret->to.host, ecr.api);
	clock_stamp(stamp, sizeof(stamp));
	aws_sign_date(stamp, sign.date);
	memcpy(ret->date, sign.date, sizeof(ret->date));
	sign.region = ecr.region;
	sign.host = ret->to.host;
	if (aws_sign(&sign, ret->authorization, e) < 0)
		return -1;
	ret->headers[0] = (struct get_header){ "Content-Type", TYPE };
	ret->headers[1] = (struct get_header){ "X-Amz-Date", ret->date };
	ret->headers[2] = (struct get_header){ "X-Amz-Target", CALL };
	ret->post = (struct get_post){ .body = sign.body,
				       .headers = ret->headers,
				       .nheaders = ECR_LOGIN_HEADERS };
	return 0;
}

int ecr_login_take(struct login *l, const char *text, size_t len, struct err *e)
{
	char *token = registry_json_ecr(text, len);
	int rc = token == NULL ? err_set(e, ERR_INVALID, "the answer of AWS has no token")
			       : login_set(l, "Basic", token, e);

	if (token != NULL)
		explicit_bzero(token, strlen(token));
	free(token);
	return rc;
}
