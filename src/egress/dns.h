/* dns.h - the resolver a cell sees. Nothing it asks is passed on: names that its policy may allow
 * have synthetic addresses, all others do not exist. */
#pragma once

#include "egress_session.h"

#define DNS_TEXT_MAX 4096 /* of any answer of ours */

/* One query in, one answer out, and a record (one for the same question within a second). Returns
 * its length; 0: no answer (no query at all, or too many of them). Answers are short enough for UDP
 * as everybody takes it. */
size_t dns_answer(struct egress_session *g, const uint8_t *query, size_t len, bool udp,
		  uint8_t ret[DNS_TEXT_MAX]);
/* Reads and answers what waits at the session's UDP socket, a bounded number at a time. Answers
 * come from the address that was asked, whichever it was. */
void dns_serve_udp(struct egress_session *g);
/* A TCP connection to port 53, taken over with its first query still to be read. Bounded in time
 * and number by itself; closed by dns_tcp_cut_all() at the latest. */
void dns_serve_tcp(struct egress_session *g, int fd);
/* Also forgets whatever else dns.c remembers of the session: call it before the session goes. */
void dns_tcp_cut_all(struct egress_session *g);
