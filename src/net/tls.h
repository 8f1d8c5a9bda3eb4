/* tls.h - TLS 1.2 and 1.3 over non-blocking sockets. OpenSSL is known to this, tls_socket.h,
 * tls_x509.h, keypair.h and what is made of it only.
 *
 * No signal comes of it (a broken connection is an error, not SIGPIPE). The handshake happens
 * inside the first reads and writes, or explicitly in tls_handshake(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "err.h"

struct tls;	 /* certificates and rules, for many connections */
struct tls_conn; /* one connection */

/* A server's: a certificate, with its chain, and its key, both PEM; may be one file. Errors say
 * what is wrong with which of the two, and leave it to the caller to name the files. */
struct tls *tls_server_new(const char *chain_file, const char *key_file, struct err *e) MUST_USE;
/* Other ones for connections from now on; those that are open go on. On failure all is as it was.
 */
int tls_server_renew(struct tls *t, const char *chain_file, const char *key_file,
		     struct err *e) MUST_USE;
/* NULL if clients who trust a server's authority will take its certificate now, for this host; else
 * why they will not. */
const char *tls_server_flaw(const struct tls *t, const char *host);
/* A client's: verifies against ca_file (PEM), or the system's authorities if that is NULL.
 * insecure: against nothing. */
struct tls *tls_client_new(const char *ca_file, bool insecure, struct err *e) MUST_USE;
/* A client's, for who cannot open files: verifies against the authorities in a PEM text (other
 * lines between them are skipped; without any every server is refused), and offers http/1.1 (ALPN).
 * No session is kept or resumed: connections of different cells have nothing in common that a
 * server could see. */
struct tls *tls_client_new_pem(const char *pem, size_t len, struct err *e) MUST_USE;
/* Further ones. On failure some of them may be trusted: the caller gives up. */
int tls_client_trust(struct tls *t, const char *pem, size_t len, struct err *e) MUST_USE;
void tls_free(struct tls *t);

/* fd is borrowed and non-blocking. host: the name or address a client wants to see in the
 * certificate; NULL for servers. */
struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e) MUST_USE;
/* Says goodbye, if that is possible without waiting, and frees. Does not close the descriptor. */
void tls_close(struct tls_conn *c);

/* From now on it is not whole, and tls_close() says no goodbye: the peer sees that it was cut. */
void tls_break(struct tls_conn *c);
/* Says goodbye, and no more can be written; reading goes on. 0, or -1 as tls_write(): again. */
int tls_shut(struct tls_conn *c) MUST_USE;

/* As read(2) and write(2): > 0, 0 at the end (reads; also when the peer cut it off without
 * goodbye), -1 with errno. EAGAIN: wait, for room to write if tls_wants_write(), else for input.
 * Any other errno is the end of the connection. */
ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap) MUST_USE;
ssize_t tls_write(struct tls_conn *c, const void *data, size_t len) MUST_USE;
/* 0 when it is complete, else -1 as above; *e says why if it failed for good. */
int tls_handshake(struct tls_conn *c, struct err *e) MUST_USE;

bool tls_wants_write(const struct tls_conn *c);
bool tls_is_established(const struct tls_conn *c);
/* Decrypted bytes are waiting, of which poll would not tell. */
bool tls_has_pending(const struct tls_conn *c);
