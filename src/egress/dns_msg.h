/* dns_msg.h - messages of the domain name system (RFC 1035, 6891): bytes in, structs out, and back.
 * Pure, fuzzed, bounded; nothing is allocated.
 *
 * Names are texts without the dot at the end ("" is the root). What is no printable byte, and a dot
 * or a backslash inside a label, is written as \DDD: two names are the same if their texts are, and
 * none of another form can look like a plain one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ip.h"

#define DNS_MSG_HEAD 12
#define DNS_MSG_NAME_MAX 1025 /* text with its NUL: 255 bytes, four characters each */
#define DNS_MSG_UDP 512	      /* what everybody takes */
#define DNS_MSG_EDNS 1232     /* what we say that we take */
#define DNS_MSG_ADDRESSES 16
#define DNS_MSG_HOPS 8 /* CNAMEs that are followed */
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

/* ---- what a cell asks */

struct dns_msg_query {
	uint16_t id, flags;  /* as they came */
	size_t question_len; /* bytes behind the head that are the question; 0: none was read */
	char name[DNS_MSG_NAME_MAX]; /* as it was spelled */
	uint16_t type, class;
	bool edns;
};

/* -1: no query at all, so it gets no answer. Else the rcode it deserves before anybody looked at
 * the name: DNS_MSG_OK, FORMERR, NOTIMP or BADVERS. One question, no compression, nothing behind it
 * but one OPT. */
int dns_msg_read_query(const uint8_t *msg, size_t len, struct dns_msg_query *ret) MUST_USE;

struct dns_msg_writer {
	uint8_t *at;
	size_t len, cap;
	bool full; /* something did not fit: the rest is left out, too */
};

/* Head and question, the latter byte for byte as it came (a client may check how it was spelled).
 */
void dns_msg_begin(struct dns_msg_writer *w, uint8_t *ret, size_t cap, const uint8_t *query,
		   const struct dns_msg_query *q, int rcode);
/* Records of the name in question. */
void dns_msg_put_address(struct dns_msg_writer *w, const struct ip *ip, bool v6, uint32_t ttl);
void dns_msg_put_ptr(struct dns_msg_writer *w, const char *host, uint32_t ttl);
/* Into the authority section, behind all answers: how long the "no" is true. */
void dns_msg_put_soa(struct dns_msg_writer *w, uint32_t ttl);
/* Ends it with our OPT if the query had one. Returns the length; 0: it did not fit. */
size_t dns_msg_end(struct dns_msg_writer *w, const struct dns_msg_query *q, int rcode);

/* "A", "HTTPS", ..., or "TYPE123" in ret. */
const char *dns_msg_type_name(uint16_t type, char ret[12]);

/* ---- what egress asks */

/* A query for a host in its normal form, letters in the given random case (one bit each, RFC
 * draft 0x20). Returns its length; 0: it is no name that can be asked for. */
size_t dns_msg_ask(uint8_t ret[DNS_MSG_QUERY_MAX], uint16_t id, const char *host, uint16_t type,
		   const uint8_t mix[32]);

struct dns_msg_reply {
	int rcode;
	bool truncated; /* nothing else of it is read then */
	struct ip ips[DNS_MSG_ADDRESSES];
	size_t n;
	uint32_t ttl;  /* the smallest of all that led there; without addresses: of the "no" */
	bool no;       /* it says itself that there is nothing (SOA) */
	unsigned hops; /* CNAMEs followed */
	char alias[DNS_MSG_NAME_MAX]; /* the name they led to; "": none */
};

enum dns_msg_match {
	DNS_MSG_OTHER,	 /* not the answer to that query, or malformed */
	DNS_MSG_RESPELT, /* it would be, but for the case of the name: somebody guesses, or a server
			    that does not keep it */
	DNS_MSG_ANSWER,
};
/* query: as it was sent. */
enum dns_msg_match dns_msg_read_reply(const uint8_t *msg, size_t len, const uint8_t *query,
				      size_t query_len, struct dns_msg_reply *ret) MUST_USE;
