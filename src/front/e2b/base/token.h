/* token.h - access to a sandbox: tokens derived from the node's key and the sandbox's id, and
 * signatures made with them. Pure. Compared in constant time.
 *
 * A token is the id and an HMAC-SHA256 in hex: it needs no storage, is the same after every pause,
 * resume and restart, and contains the id of its sandbox. */
#pragma once

#include "daemon/store/store.h"
#include "lib/base/sha256.h"
#include "lib/http/http1.h"

#define TOKEN_MAX (STORE_ID_MAX + 64 + 1)
#define TOKEN_KEY_SIZE 32

struct token_key {
	uint8_t bytes[TOKEN_KEY_SIZE];
};

enum token_use { TOKEN_ENVD, TOKEN_TRAFFIC };

void token_make(const struct token_key *k, enum token_use use, const char *id, char ret[TOKEN_MAX]);
bool token_check(const struct token_key *k, enum token_use use, const char *id,
		 struct http1_span given);
/* The id in a token, unchecked. False: it is no token. */
bool token_id(struct http1_span given, char ret_id[STORE_ID_MAX]);

/* Proves that the server made the URL of an upload, for a request with that key. until: seconds
 * since 1970. */
#define TOKEN_UPLOAD_MAX (2 * SHA256_SIZE + 1)
void token_upload(const struct token_key *k, const char *key_id, const char *template_id,
		  const char *hash, uint64_t until, char ret[TOKEN_UPLOAD_MAX]);
/* In constant time for texts of one length. */
bool token_same(const char *a, const char *b);
/* HMAC-SHA256 of a text: what tokens of any kind are made of. */
void token_hmac(const struct token_key *k, const char *text, uint8_t ret[SHA256_SIZE]);

/* Is "v1_..." the signature of a file operation ("read" or "write") with this token? expires: the
 * text of signature_expiration, "" if there is none. */
bool token_signed(const char *token, const char *path, const char *operation, const char *user,
		  const char *expires, const char *signature);

/* For a caller that tries many tokens: the part independent of them is hashed once, so that a long
 * path does not make a try slower. The texts are borrowed. */
struct token_trial {
	struct sha256 begun;
	const char *expires, *signature;
};
void token_trial_begin(struct token_trial *t, const char *path, const char *operation,
		       const char *user, const char *expires, const char *signature);
bool token_trial_is(const struct token_trial *t, const char *token);
