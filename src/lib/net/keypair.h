/* keypair.h - a key and its certificate, as OpenSSL objects, for selfsign.c and leaf_certs.c. ECDSA
 * P-256, X.509 version 3, random serial numbers. */
#pragma once

#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define KEYPAIR_PEM_MAX 8192  /* bytes of any text here, NUL included */
#define KEYPAIR_EARLIER 86400 /* seconds: clocks of clients may be behind */

struct keypair {
	EVP_PKEY *key;
	X509 *cert;
};

void keypair_free(struct keypair *p); /* its members */
#define OWN_PAIR __attribute__((cleanup(keypair_free))) struct keypair

/* Move OpenSSL's latest error into e, and empty its queue. Return -1. */
int keypair_failed(struct err *e, const char *what);

/* Read both from one text, the key first. ERR_INVALID if they do not belong together. On failure,
 * too, *ret is for keypair_free(). */
int keypair_read(const char *pem, struct keypair *ret, struct err *e) MUST_USE;
/* key may be NULL: only the certificate is written. */
int keypair_write(EVP_PKEY *key, X509 *cert, char ret_pem[KEYPAIR_PEM_MAX], struct err *e) MUST_USE;

/* Make everything but issuer, extensions and signature. With the key in *ret, or a new one. */
int keypair_make(const char *name, int64_t now, int days, struct keypair *ret,
		 struct err *e) MUST_USE;

struct keypair_extension {
	int nid;
	const char *value; /* in OpenSSL's configuration language: never from untrusted input */
};

/* NULL on failure. The caller frees it. */
X509_EXTENSION *keypair_extension(const struct keypair_extension *x, X509 *issuer, X509 *subject);

/* Add what keypair_make() left out: extensions, and the issuer's name and signature (p itself:
 * self-signed). */
bool keypair_sign(struct keypair *p, const struct keypair *issuer,
		  const struct keypair_extension *all, size_t n);
