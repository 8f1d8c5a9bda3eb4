/* keypair.h - a key and the certificate of it, as OpenSSL has them: what selfsign.h and
 * leaf_certs.h are made of. ECDSA P-256, X.509 version 3, random serial numbers. */
#pragma once

#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define KEYPAIR_PEM_MAX 8192  /* bytes of any text here, with its NUL */
#define KEYPAIR_EARLIER 86400 /* seconds: clocks of clients may be behind ours */

struct keypair {
	EVP_PKEY *key;
	X509 *cert;
};

void keypair_free(struct keypair *p); /* what is in it */
#define OWN_PAIR __attribute__((cleanup(keypair_free))) struct keypair

/* Moves OpenSSL's latest error into e; its queue is empty afterwards. Returns -1. */
int keypair_failed(struct err *e, const char *what);

/* Both from one text, the key first; ERR_INVALID if they do not belong together. What was read is
 * left in *ret on failure, too, for keypair_free(). */
int keypair_read(const char *pem, struct keypair *ret, struct err *e) MUST_USE;
/* key may be NULL: the certificate alone. */
int keypair_write(EVP_PKEY *key, X509 *cert, char ret_pem[KEYPAIR_PEM_MAX], struct err *e) MUST_USE;

/* Everything but issuer, extensions and signature; with the key that is in *ret, or a new one. */
int keypair_make(const char *name, int64_t now, int days, struct keypair *ret,
		 struct err *e) MUST_USE;

struct keypair_extension {
	int nid;
	const char *value; /* in OpenSSL's configuration language: never anything from elsewhere */
};

/* NULL on failure; the caller frees it. */
X509_EXTENSION *pair_extension(const struct keypair_extension *x, X509 *issuer, X509 *subject);
bool keypair_extend(X509 *cert, X509 *issuer, const struct keypair_extension *all, size_t n);

/* What keypair_make() left out: extensions, and the issuer's name and signature (p itself: its
 * own).
 */
bool keypair_sign(struct keypair *p, const struct keypair *issuer,
		  const struct keypair_extension *all, size_t n);
