/* tls_private.h - the structure of a TLS server or client. For tls*.c only: tls_server.c and
 * tls_client.c make one, tls.c has its connections. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>

#include "err.h"

struct tls {
	SSL_CTX *ctx;
	BIO_METHOD *socket;
	bool borrows; /* socket is borrowed: OpenSSL has numbers for about a hundred methods only */
	X509 *cert;   /* used instead of the context's; NULL: none */
	EVP_PKEY *key;
};

/* Moves OpenSSL's first error, the cause of the others, into e, and empties its queue. name: what
 * it is about, or NULL. Returns -1. */
int tls_failed(struct err *e, const char *what, const char *name);
/* A context with what is common to both sides. */
SSL_CTX *tls_context(const SSL_METHOD *method, struct err *e) MUST_USE;
/* ctx is taken, also on failure. */
struct tls *tls_wrap(SSL_CTX *ctx, struct err *e) MUST_USE;
