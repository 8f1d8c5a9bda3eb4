/* tls_x509.h - tls.h for those here who have a certificate as OpenSSL's object. */
#pragma once

#include <openssl/x509.h>

#include "tls.h"

/* A server without a certificate: what others are made like. */
struct tls *tls_server_bare(struct err *e) MUST_USE;
/* Shows cert (its key: key), and is in all else like that one, which must outlive it and its
 * connections. Takes references of its own. Sessions resume with the same certificate only. */
struct tls *tls_server_like(struct tls *bare, X509 *cert, EVP_PKEY *key, struct err *e) MUST_USE;
