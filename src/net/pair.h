/* pair.h - a key and the certificate of it, as OpenSSL has them: what selfsign.h and mint.h are
 * made of. ECDSA P-256, X.509 version 3, random serial numbers. */
#pragma once

#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define PAIR_PEM_MAX 8192  /* bytes of any text here, with its NUL */
#define PAIR_EARLIER 86400 /* seconds: clocks of clients may be behind ours */

struct pair {
	EVP_PKEY *key;
	X509 *cert;
};

void pair_free(struct pair *p); /* what is in it */
#define OWN_PAIR __attribute__((cleanup(pair_free))) struct pair

/* Moves OpenSSL's latest error into e; its queue is empty afterwards. Returns -1. */
int pair_failed(struct err *e, const char *what);

/* Both from one text, the key first; ERR_INVALID if they do not belong together. What was read is
 * left in *ret on failure, too, for pair_free(). */
int pair_read(const char *pem, struct pair *ret, struct err *e) MUST_USE;
/* key may be NULL: the certificate alone. */
int pair_write(EVP_PKEY *key, X509 *cert, char ret_pem[PAIR_PEM_MAX], struct err *e) MUST_USE;

/* Everything but issuer, extensions and signature; with the key that is in *ret, or a new one. */
int pair_make(const char *name, int64_t now, int days, struct pair *ret, struct err *e) MUST_USE;

struct pair_extension {
	int nid;
	const char *value; /* in OpenSSL's configuration language: never anything from elsewhere */
};

/* NULL on failure; the caller frees it. */
X509_EXTENSION *pair_extension(const struct pair_extension *x, X509 *issuer, X509 *subject);
bool pair_extend(X509 *cert, X509 *issuer, const struct pair_extension *all, size_t n);

/* What pair_make() left out: extensions, and the issuer's name and signature (p itself: its own).
 */
bool pair_sign(struct pair *p, const struct pair *issuer, const struct pair_extension *all,
	       size_t n);
