/* tls_x509.h - servers whose certificate is an OpenSSL object. For leaf_certs.c. */
#pragma once

#include <openssl/x509.h>

#include "lib/net/tls.h"

/* A server without a certificate, for tls_server_like(). */
struct tls *tls_server_bare(struct err *e) MUST_USE;
/* A server with cert and key, and all else like `bare`, which must outlive it and its connections.
 * Take references of its own. Sessions resume with the same certificate only. */
struct tls *tls_server_like(struct tls *bare, X509 *cert, EVP_PKEY *key, struct err *e) MUST_USE;
