/* mint.h - certificates that egress shows to cells: made for any name, signed by this node's own
 * authority, which cells trust and nobody else does. ECDSA P-256; one key for all of them, made at
 * start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "tls.h"

#define MINT_PEM_MAX 8192
#define MINT_CACHE_MAX 1024

struct mint;

/* A new authority: private key and certificate, PEM, one text. Its certificate alone; and the name
 * that OpenSSL looks for it under in a folder of certificates ("1a2b3c4d.0"). */
int mint_authority(int64_t now, char ret_pem[MINT_PEM_MAX], struct err *e) MUST_USE;
int mint_public(const char *authority_pem, char ret_pem[MINT_PEM_MAX], char ret_link[16],
		struct err *e) MUST_USE;

struct mint *mint_new(const char *authority_pem, struct err *e) MUST_USE;
void mint_free(struct mint *m); /* after the last connection */
/* For tls_open() as a server of that name (or address), in its normal form. Speaks http/1.1 only
 * (ALPN): who offers others only gets no_application_protocol. Borrowed until the next call; open
 * connections keep what they need when it leaves the cache. */
struct tls *mint_server(struct mint *m, const char *host, struct err *e) MUST_USE;
/* Is there one for this name already? */
bool mint_knows(const struct mint *m, const char *host);
/* The same at another time, in seconds since 1970. */
struct tls *mint_server_at(struct mint *m, const char *host, int64_t now, struct err *e) MUST_USE;
