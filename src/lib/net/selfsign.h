/* selfsign.h - the certificate authority (CA) that signs the certificates of this server's own
 * HTTPS listener: created and checked in memory, as PEM. Called by daemon/main/certificate.c. It is
 * not the CA that cells trust (leaf_certs.h).
 *
 * The CA is valid for one domain with all names below it, localhost, 127.0.0.1 and ::1: a
 * client that trusts it trusts it for no other name, even if its key is stolen. domain: a DNS name
 * in lower case, checked by the caller, without a port. now: seconds since 1970. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define SELFSIGN_PEM_MAX 8192 /* bytes of any text here, NUL included */
#define SELFSIGN_DAY 86400LL
#define SELFSIGN_CA_DAYS 3650
#define SELFSIGN_SERVER_DAYS 90
#define SELFSIGN_RENEW_DAYS 30 /* a certificate with less time left is replaced */

/* Create a CA: its key and its certificate. This and the next two write a text that ends in NUL.
 */
int selfsign_create_ca(const char *domain, int64_t now, char ret_pem[SELFSIGN_PEM_MAX],
		       struct err *e) MUST_USE;
/* The certificate of the CA alone, for clients that should trust it. */
int selfsign_ca_cert(const char *ca_pem, char ret_pem[SELFSIGN_PEM_MAX], struct err *e) MUST_USE;
/* The key and certificate of a server. */
int selfsign_server(const char *ca_pem, const char *domain, int64_t now,
		    char ret_pem[SELFSIGN_PEM_MAX], struct err *e) MUST_USE;

/* 0: it equals the result of the functions above, and has enough time left. Else -1, and *e says
 * why. The texts may be anything. *ret_renew_at: when the server's certificate should be
 * replaced. */
int selfsign_check_ca(const char *ca_pem, const char *domain, int64_t now, struct err *e) MUST_USE;
int selfsign_check_server(const char *ca_pem, const char *server_pem, const char *domain,
			  int64_t now, int64_t *ret_renew_at, struct err *e) MUST_USE;
