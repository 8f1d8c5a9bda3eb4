/* tls_hello.h - reads the ClientHello, the first message of a TLS connection. Pure, fuzzed,
 * bounded. Called by flow_sniff.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/policy/host.h"

#define TLS_HELLO_MAX 16384 /* bytes of records read */

struct tls_hello {
	char sni[HOST_MAX]; /* in its normal form. "": none */
	bool ech;	    /* there is encrypted_client_hello (perhaps only GREASE) */
	bool alpn;	    /* there is ALPN, and it offers: */
	bool h2, http1;
};

/* Can a connection that begins with these bytes be TLS? */
bool tls_hello_is_tls(const uint8_t *bytes, size_t len);
/* 1: complete. 0: more bytes are needed (never more than TLS_HELLO_MAX). -1: malformed, more than
 * one name, or not a host name. It may span several records. */
int tls_hello_read(const uint8_t *bytes, size_t len, struct tls_hello *ret) MUST_USE;

/* A fatal alert, not encrypted, for a connection refused before any handshake. */
#define TLS_HELLO_ALERT_LEN 7
enum {
	TLS_ALERT_ACCESS_DENIED = 49,
	TLS_ALERT_UNRECOGNIZED_NAME = 112,
	TLS_ALERT_NO_PROTOCOL = 120
};
void tls_hello_alert(uint8_t ret[TLS_HELLO_ALERT_LEN], int description);
