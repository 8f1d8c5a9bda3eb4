/* tls_ocsp.h - stapled OCSP responses (RFC 6066, 8), for a client that verifies servers. Called by
 * tls_client.c. */
#pragma once

#include <openssl/ssl.h>

/* Connections of this context ask for a stapled response, and the handshake fails, with a verify
 * result that says why, if
 * - a response that verifies says that the certificate is revoked;
 * - the certificate has the TLS feature status_request ("must-staple", RFC 7633), and there is no
 *   response that verifies, is current, and says that it is good.
 * Without that feature a response that does not verify is ignored. -1: OpenSSL failed. */
int tls_ocsp_require(SSL_CTX *ctx);
