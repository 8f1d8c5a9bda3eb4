/* dns_msg.h - messages of the domain name system (RFC 1035, 6891): bytes to structures and back,
 * for queries of cells (egress/dns/dns.c) and queries to name servers (resolver_query.c). Pure,
 * fuzzed, bounded. Nothing is allocated.
 *
 * Names are texts without the final dot ("" is the root). Unprintable bytes, and a dot or backslash
 * inside a label, are written as \DDD: two names are equal if their texts are, and no other name
 * has the text of a plain one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/ip.h"

#define DNS_MSG_HEAD 12	      /* bytes of the head: no name begins inside it */
#define DNS_MSG_NAME_MAX 1025 /* text with its NUL: 255 bytes, four characters each */
#define DNS_MSG_UDP 512	      /* bytes that every client accepts */
#define DNS_MSG_EDNS 1232     /* bytes that egress says it accepts */
#define DNS_MSG_ADDRESSES 16
#define DNS_MSG_HOPS 8 /* CNAMEs followed at most */
#define DNS_MSG_QUERY_MAX (DNS_MSG_HEAD + 255 + 4)

enum dns_msg_type {
	DNS_MSG_A = 1,
	DNS_MSG_NS = 2,
	DNS_MSG_CNAME = 5,
	DNS_MSG_SOA = 6,
	DNS_MSG_PTR = 12,
	DNS_MSG_MX = 15,
	DNS_MSG_TXT = 16,
	DNS_MSG_AAAA = 28,
	DNS_MSG_SRV = 33,
	DNS_MSG_OPT = 41,
	DNS_MSG_SVCB = 64,
	DNS_MSG_HTTPS = 65,
	DNS_MSG_ANY = 255,
};

enum dns_msg_rcode {
	DNS_MSG_OK = 0,
	DNS_MSG_FORMERR = 1,
	DNS_MSG_SERVFAIL = 2,
	DNS_MSG_NXDOMAIN = 3,
	DNS_MSG_NOTIMP = 4,
	DNS_MSG_REFUSED = 5,
	DNS_MSG_BADVERS = 16,
};

#define DNS_MSG_IN 1 /* the class */

/* ---- queries of cells */

struct dns_msg_query {
	uint16_t id, flags;	     /* as in the query */
	size_t question_len;	     /* bytes of the question after the head. 0: none was read */
	char name[DNS_MSG_NAME_MAX]; /* in the spelling of the query */
	uint16_t type, class;
	bool edns;
};

/* -1: not a query, so it gets no answer. Else the rcode known without the name: DNS_MSG_OK,
 * FORMERR, NOTIMP or BADVERS. A query has one question, no compression, and nothing after it but
 * one OPT. */
int dns_msg_read_query(const uint8_t *msg, size_t len, struct dns_msg_query *ret) MUST_USE;

struct dns_msg_writer {
	uint8_t *at;
	size_t len, cap;
	bool full; /* a record did not fit: no more are added */
};

/* Write head and question, the latter byte for byte as in the query (a client may check its
 * spelling). */
void dns_msg_begin(struct dns_msg_writer *w, uint8_t *ret, size_t cap, const uint8_t *query,
		   const struct dns_msg_query *q, int rcode);
/* Add records of the name in question. */
void dns_msg_put_address(struct dns_msg_writer *w, const struct ip *ip, bool v6, uint32_t ttl);
void dns_msg_put_ptr(struct dns_msg_writer *w, const char *host, uint32_t ttl);
/* Add to the authority section, after all answers: for how long the name does not exist. */
void dns_msg_put_soa(struct dns_msg_writer *w, uint32_t ttl);
/* Add an OPT if the query had one. Return the length. 0: it did not fit. */
size_t dns_msg_end(struct dns_msg_writer *w, const struct dns_msg_query *q, int rcode);

/* "A", "HTTPS", ..., or "TYPE123" in ret. */
const char *dns_msg_type_name(uint16_t type, char ret[12]);

/* ---- queries of egress */

/* Write a query for a host in its normal form, letters in the given random case (one bit each,
 * draft dns-0x20). Return its length. 0: not a name that can be asked for. */
size_t dns_msg_ask(uint8_t ret[DNS_MSG_QUERY_MAX], uint16_t id, const char *host, uint16_t type,
		   const uint8_t mix[32]);

struct dns_msg_reply {
	int rcode;
	bool truncated; /* then nothing else of it is read */
	struct ip ips[DNS_MSG_ADDRESSES];
	size_t n;
	/* the lowest of all records on the way. Without addresses: of the negative answer */
	uint32_t ttl;
	bool negative;		      /* it is a negative answer (SOA) */
	unsigned hops;		      /* CNAMEs followed */
	char alias[DNS_MSG_NAME_MAX]; /* the name they led to. "": none */
};

enum dns_msg_match {
	DNS_MSG_OTHER, /* not the answer to that query, or malformed */
	/* the answer but for the case of the name: a guess, or a server that does not keep the case
	 */
	DNS_MSG_RESPELT,
	DNS_MSG_ANSWER,
};
/* Read a reply, and compare it with the query as it was sent. */
enum dns_msg_match dns_msg_read_reply(const uint8_t *msg, size_t len, const uint8_t *query,
				      size_t query_len, struct dns_msg_reply *ret) MUST_USE;
