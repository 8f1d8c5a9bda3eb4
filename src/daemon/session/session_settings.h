/* session_settings.h - the ports of a session opened for clients without a key (doc/ports.md).
 * session_settings.c also has the other changes that clients ask for (session.h).
 *
 * Each opening has an id. The URL of the port is made of it (front/web/port_url.h), so a URL ends
 * when its port is closed, and opening the port again makes another URL. The openings are in the
 * session's row, as "PORT:OPENING " for each: they survive the daemon.
 */
#pragma once

#include "daemon/session/session.h"
#include "lib/base/sha256.h"

#define SESSION_PORTS_OPENING 17 /* an id: 16 hexadecimal digits, NUL */

/* Open ports in a row before it is stored. No port may be there twice. n is at most
 * SESSION_PORTS_MAX. */
void session_ports_init(struct store_session *row, const uint16_t *ports, size_t n);

/* Read the next opening of a row. *at begins at row->ports. False: none is left. */
bool session_ports_next(const char **at, unsigned *ret_port, char ret[SESSION_PORTS_OPENING]);
/* Find the opening of that port. False: it is not open. */
bool session_ports_find(const struct store_session *row, unsigned port,
			char ret[SESSION_PORTS_OPENING]);

/* Open a port of a live session. An open port keeps its opening. ERR_LIMIT: too many are open. */
int session_ports_open(struct session *s, unsigned port, const struct store_actor *who,
		       char ret[SESSION_PORTS_OPENING], struct err *e) MUST_USE;
/* Close a port: end its URL and the requests that came by it. ERR_NOT_FOUND: it is not open. */
int session_ports_close(struct session *s, unsigned port, const struct store_actor *who,
			struct err *e) MUST_USE;

/* The digest of a session's own policy, as hexadecimal digits. */
void session_policy_hash(const struct store_session *row, char ret[2 * SHA256_SIZE + 1]);
