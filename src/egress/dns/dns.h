/* dns.h - the resolver that a cell sees. No query is forwarded: names that the session's policy
 * may allow have synthetic addresses, all others do not exist. Called by dns_udp.c and dns_tcp.c.
 */
#pragma once

#include "egress/control/egress_session.h"

#define DNS_TEXT_MAX 4096 /* bytes of an answer */

/* Answer one query and record it (the same question once a second at most). Return the length of
 * the answer. 0: none (not a query, or too many of them). Answers over UDP fit into DNS_MSG_UDP
 * bytes, which every client accepts. */
size_t dns_answer(struct egress_session *session, const uint8_t *query, size_t len, bool udp,
		  uint8_t ret[DNS_TEXT_MAX]);
