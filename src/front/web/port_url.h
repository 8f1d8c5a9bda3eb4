/* port_url.h - the URL of an open port of a session (session_settings.h), with the right to use it.
 *
 * The host name has the port, the session's id and a token: "8000-ID-TOKEN.DOMAIN". The token is an
 * HMAC of port, id and opening with a key of the server: it is good until the port is closed or the
 * session ends. Written by the interfaces for clients with a key, checked where requests for ports
 * come in (front/e2b/control/sandbox_entry.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/session/session_settings.h"
#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/json/json.h"

#define PORT_URL_KEY 32
#define PORT_URL_TOKEN 32 /* hex digits. A host name's label has 63 bytes at most */
#define PORT_URL_MAX (CONFIG_DOMAIN_MAX + STORE_ID_MAX + PORT_URL_TOKEN + 32)

int port_url_key(struct core *c, uint8_t ret[PORT_URL_KEY], struct err *e) MUST_USE;
/* Is it the token of that port of the session, and the port open? Then its opening is in ret. In
 * constant time for texts of that length. */
bool port_url_is_token(const uint8_t key[PORT_URL_KEY], const struct store_session *row,
		       unsigned port, const char *given, char ret[SESSION_PORTS_OPENING]);
/* Open the port, if it is not, and write its URL. */
int port_url_open(struct session *s, unsigned port, bool tls, const struct store_actor *who,
		  char ret[PORT_URL_MAX], struct err *e) MUST_USE;
/* Do clients reach this server by TLS of its own? */
bool port_url_tls(const struct core *c);
/* The member `ports` of a session. urls: with their URLs, for clients that may use the session.
 * Otherwise these are null. live is NULL for an ended session, which lacks ports. */
void port_url_list(struct json *j, const struct session *live, bool urls);
