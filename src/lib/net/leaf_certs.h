/* leaf_certs.h - certificates that egress shows to programs in cells: made for any name, signed by
 * the node's egress CA, which only cells trust. Called by cordon-egress. ECDSA P-256. One key for
 * all of them, made at start. Names come from cells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/net/tls.h"

#define LEAF_CERTS_PEM_MAX 8192
#define LEAF_CERTS_CACHE_MAX 1024

struct leaf_certs;

/* A new CA: private key and certificate, PEM, in one text. Its certificate alone, and the
 * name under which OpenSSL looks for it in a folder of certificates ("1a2b3c4d.0"). */
int leaf_certs_create_ca(int64_t now, char ret_pem[LEAF_CERTS_PEM_MAX], struct err *e) MUST_USE;
int leaf_certs_ca_cert(const char *ca_pem, char ret_pem[LEAF_CERTS_PEM_MAX], char ret_link[16],
		       struct err *e) MUST_USE;

struct leaf_certs *leaf_certs_new(const char *ca_pem, struct err *e) MUST_USE;
void leaf_certs_free(struct leaf_certs *m); /* after the last connection was closed */
/* For tls_open() as a server of that name (or address), in its normal form. Speaks http/1.1 only
 * (ALPN): a client that does not offer it gets no_application_protocol. Borrowed until the next
 * call. Open connections keep their parts when it leaves the cache. */
struct tls *leaf_certs_server(struct leaf_certs *m, const char *host, struct err *e) MUST_USE;
/* Is there one for this name in the cache? */
bool leaf_certs_knows(const struct leaf_certs *m, const char *host);
/* As leaf_certs_server(), at another time in seconds since 1970. For tests. */
struct tls *leaf_certs_server_at(struct leaf_certs *m, const char *host, int64_t now,
				 struct err *e) MUST_USE;
