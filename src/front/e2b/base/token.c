#include "front/e2b/base/token.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/hex.h"
#include "lib/base/hmac.h"

/* Hex digits behind the id in a token. */
#define DIGITS ((size_t)2 * SHA256_SIZE)

void token_hmac(const struct token_key *k, const char *text, uint8_t ret[SHA256_SIZE])
{
	hmac_sha256(k->bytes, TOKEN_KEY_SIZE, text, strlen(text), ret);
}

/* The word for its use is part of the text, so no token works for the other use. */
void token_make(const struct token_key *k, enum token_use use, const char *id, char ret[TOKEN_MAX])
{
	char text[STORE_ID_MAX + 16], digits[DIGITS + 1];
	uint8_t code[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "%s:%s", use == TOKEN_ENVD ? "envd" : "traffic", id);
	token_hmac(k, text, code);
	hex_encode(code, sizeof(code), digits);
	(void)snprintf(ret, TOKEN_MAX, "%s%s", id, digits);
}

/* In constant time: how many bytes are right must not show. */
static bool token_is_equal(const char *a, const char *b, size_t n)
{
	unsigned differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= (unsigned)(uint8_t)a[i] ^ (unsigned)(uint8_t)b[i];
	return differ == 0;
}

/* Everything that the URL names is part of the text, so none of it can be changed. */
void token_upload(const struct token_key *k, const char *key_id, const char *template_id,
		  const char *hash, uint64_t until, char ret[TOKEN_UPLOAD_MAX])
{
	char text[512];
	uint8_t code[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "upload:%.100s:%.140s:%.64s:%llu", key_id, template_id,
		       hash, (unsigned long long)until);
	token_hmac(k, text, code);
	hex_encode(code, sizeof(code), ret);
}

bool token_same(const char *a, const char *b)
{
	return strlen(a) == strlen(b) && token_is_equal(a, b, strlen(a));
}

/* The token is made again, since none is stored. */
bool token_check(const struct token_key *k, enum token_use use, const char *id,
		 struct http1_span given)
{
	char token[TOKEN_MAX];

	token_make(k, use, id, token);
	return given.n == strlen(token) && token_is_equal(given.p, token, given.n);
}

bool token_id(struct http1_span given, char ret_id[STORE_ID_MAX])
{
	return given.n > DIGITS && session_id_read(given.p, given.n - DIGITS, ret_id);
}

static void token_add(struct sha256 *s, const char *text)
{
	sha256_add(s, text, strlen(text));
}

/* The text to sign is path, operation, user, token and time, with colons in between. The part in
 * front of the token is hashed here. */
void token_trial_begin(struct token_trial *t, const char *path, const char *operation,
		       const char *user, const char *expires, const char *signature)
{
	t->expires = expires;
	t->signature = signature;
	sha256_init(&t->begun);
	token_add(&t->begun, path);
	token_add(&t->begun, ":");
	token_add(&t->begun, operation);
	token_add(&t->begun, ":");
	token_add(&t->begun, user);
	token_add(&t->begun, ":");
}

/* t->begun stays as it is for the next token. */
bool token_trial_is(const struct token_trial *t, const char *token)
{
	char text[3 + BASE64_LENGTH(SHA256_SIZE) + 1] = "v1_";
	struct sha256 s = t->begun;
	uint8_t hash[SHA256_SIZE];
	size_t n;

	token_add(&s, token);
	if (*t->expires != '\0') {
		token_add(&s, ":");
		token_add(&s, t->expires);
	}
	sha256_end(&s, hash);
	base64_encode(hash, sizeof(hash), text + 3);
	n = strcspn(text, "="); /* without its padding */
	return strlen(t->signature) == n && token_is_equal(t->signature, text, n);
}

bool token_signed(const char *token, const char *path, const char *operation, const char *user,
		  const char *expires, const char *signature)
{
	struct token_trial t;

	token_trial_begin(&t, path, operation, user, expires, signature);
	return token_trial_is(&t, token);
}
