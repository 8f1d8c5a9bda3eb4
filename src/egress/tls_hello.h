/* tls_hello.h - reads the ClientHello a TLS connection begins with. Pure, fuzzed, bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host.h"

#define TLS_HELLO_MAX 16384 /* bytes of records looked at */

struct tls_hello {
	char sni[HOST_MAX]; /* in its normal form; "": none */
	bool ech;	    /* encrypted_client_hello is there (perhaps only as grease) */
	bool alpn;	    /* ALPN is there, and offers: */
	bool h2, http1;
};

/* Could these first bytes be TLS at all? */
bool tls_hello_is_tls(const uint8_t *bytes, size_t len);
/* 1: read; 0: more bytes are needed (never beyond TLS_HELLO_MAX); -1: malformed, or more than one
 * name, or a name that is none. May come in several records. */
int tls_hello_read(const uint8_t *bytes, size_t len, struct tls_hello *ret) MUST_USE;

/* A fatal alert in the clear, for who is refused before any handshake. */
#define TLS_HELLO_ALERT_LEN 7
enum { HELLO_ACCESS_DENIED = 49, HELLO_UNRECOGNIZED_NAME = 112, HELLO_NO_PROTOCOL = 120 };
void tls_hello_alert(uint8_t ret[TLS_HELLO_ALERT_LEN], int description);
