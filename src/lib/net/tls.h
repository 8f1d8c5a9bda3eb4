/* tls.h - TLS 1.2 and 1.3 over non-blocking sockets. Only this, tls.h, tls_x509.h, keypair.h
 * and their users in src/lib/net know OpenSSL.
 *
 * No signal is raised (a broken connection is an error, not SIGPIPE). The handshake happens inside
 * the first reads and writes, or explicitly in tls_handshake(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct tls;	 /* certificates and rules, for many connections */
struct tls_conn; /* one connection */

/* A server: its certificate, with its chain, and its key, both PEM. May be one file. Errors name
 * the mistake and which of the two has it. The caller adds the names of the files. */
struct tls *tls_server_new(const char *chain_file, const char *key_file, struct err *e) MUST_USE;
/* Other ones for new connections. Open ones are not affected. On failure nothing changes. */
int tls_server_renew(struct tls *t, const char *chain_file, const char *key_file,
		     struct err *e) MUST_USE;
/* NULL: clients that trust the authority will accept the certificate now, for this host. Else why
 * not. */
const char *tls_server_flaw(const struct tls *t, const char *host);
/* A client: verifies by ca_file (PEM), or by the system's authorities if it is NULL. insecure: does
 * not verify. */
struct tls *tls_client_new(const char *ca_file, bool insecure, struct err *e) MUST_USE;
/* A client for programs that cannot open files (egress): verifies by the authorities in a PEM text
 * (other lines between them are skipped, and without any, every server is refused), checks stapled
 * OCSP responses (tls.h), and offers http/1.1 (ALPN). No session is kept or resumed: a server
 * cannot connect what different cells do. */
struct tls *tls_client_new_pem(const char *pem, size_t len, struct err *e) MUST_USE;
/* Add authorities. On failure some of them may be trusted: the caller must give up. */
int tls_client_trust(struct tls *t, const char *pem, size_t len, struct err *e) MUST_USE;
void tls_free(struct tls *t);

/* fd is borrowed, and non-blocking. host: the name or address that the server's certificate must be
 * for. NULL for servers. */
struct tls_conn *tls_open(struct tls *t, int fd, const char *host, struct err *e) MUST_USE;
/* Send close_notify, if possible without waiting, and free it. Does not close the descriptor. */
void tls_close(struct tls_conn *c);

/* tls_close() will send no close_notify: the peer sees that the connection was cut. */
void tls_break(struct tls_conn *c);
/* Send close_notify: nothing more can be written. Reading continues. 0, or -1 as tls_write(): call
 * again. */
int tls_shut(struct tls_conn *c) MUST_USE;

/* As read(2) and write(2): > 0. 0 at the end (reads only, also when the peer sent no close_notify).
 * -1 with errno. EAGAIN: wait, for room to write if tls_wants_write(), else for input. Any other
 * errno is the end of the connection. */
ssize_t tls_read(struct tls_conn *c, void *buf, size_t cap) MUST_USE;
ssize_t tls_write(struct tls_conn *c, const void *data, size_t len) MUST_USE;
/* 0: complete. Else -1 as above. *e says why if it failed. */
int tls_handshake(struct tls_conn *c, struct err *e) MUST_USE;

bool tls_wants_write(const struct tls_conn *c);
bool tls_is_established(const struct tls_conn *c);
/* Are there decrypted bytes, which poll does not report? */
bool tls_has_pending(const struct tls_conn *c);
