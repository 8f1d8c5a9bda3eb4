/* dns_msg.c - reads queries of cells, and writes messages.
 *
 * A name has at most 255 bytes on the
 * wire, and a pointer in it must lead to a place before the last one: so reading ends for any
 * input. */
#include "lib/outbound/dns_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/own.h"

/* ---- names on the wire */

#define WIRE_MAX 255
#define JUMPS_MAX 16   /* pointers of a name. They cost no bytes of it */
#define RECORDS_MAX 64 /* of a section. Names are read several times, so more are not read */

/* A byte of a label as text. Bytes that a name in text form cannot have become \DDD, four
 * characters. */
static char *dns_put_byte(char *to, uint8_t c)
{
	if (c > ' ' && c < 127 && c != '.' && c != '\\') {
		*to++ = (char)c;
		return to;
	}
	*to++ = '\\';
	*to++ = (char)('0' + c / 100);
	*to++ = (char)('0' + c / 10 % 10);
	*to++ = (char)('0' + c % 10);
	return to;
}

/* Start at *at and move it behind the name. compressed: pointers are followed, each to a place
 * before all bytes of the name read so far. -1: malformed or longer than 255 bytes. */
static int dns_msg_name_read(const uint8_t *msg, size_t len, size_t *at, bool compressed,
			     char ret[DNS_MSG_NAME_MAX])
{
	size_t here = *at, lowest = here, end = 0, wire = 0, jumps = 0;
	char *to = ret;

	for (;;) {
		uint8_t n;

		if (here >= len)
			return -1;
		n = msg[here];
		if (n >= 0xC0) {
			size_t target;

			if (!compressed || len - here < 2 || ++jumps > JUMPS_MAX)
				return -1;
			target = (size_t)(n & 0x3F) << 8 | msg[here + 1];
			if (target < DNS_MSG_HEAD || target >= lowest)
				return -1;
			if (end == 0)
				end = here + 2;
			here = lowest = target;
			continue;
		}
		if (n > 63 || len - here - 1 < n)
			return -1;
		wire += 1U + n;
		if (wire > WIRE_MAX)
			return -1;
		here++;
		if (n == 0)
			break;
		if (to != ret)
			*to++ = '.';
		for (size_t i = 0; i < n; i++)
			to = dns_put_byte(to, msg[here + i]);
		here += n;
	}
	*to = '\0';
	*at = end > 0 ? end : here;
	return 0;
}

/* ---- the reply of a name server to a query of resolver_query.c
 *
 * Only records that follow from the question are used: from its name along CNAMEs, wherever in the
 * answer section they are, to the addresses of the last. All other records are ignored, so a reply
 * cannot set addresses of another name. */

#define FLAG_QR 0x8000U
#define FLAG_TC 0x0200U
#define OPCODE 0x7800U
#define RCODE 0x000FU

struct rr {
	char owner[DNS_MSG_NAME_MAX];
	uint16_t type, class;
	uint32_t ttl;
	size_t data, n; /* its place and length */
};

struct section {
	const uint8_t *msg;
	size_t len;
	size_t begin; /* the first record */
	unsigned count;
};

static uint16_t dns_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t dns_get32(const uint8_t *p)
{
	return (uint32_t)dns_get16(p) << 16 | dns_get16(p + 2);
}

/* Names are compared in lower case, because servers may answer in another case. */
static void dns_reply_lower(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + ('a' - 'A'));
	}
}

/* Read one record at *at, which moves behind it. -1: malformed. */
static int dns_reply_read_rr(const uint8_t *msg, size_t len, size_t *at, struct rr *ret)
{
	if (dns_msg_name_read(msg, len, at, true, ret->owner) < 0 || len - *at < 10)
		return -1;
	dns_reply_lower(ret->owner);
	ret->type = dns_get16(msg + *at);
	ret->class = dns_get16(msg + *at + 2);
	ret->ttl = dns_get32(msg + *at + 4);
	if (ret->ttl > INT32_MAX)
		ret->ttl = 0; /* RFC 2181, 8 */
	ret->n = dns_get16(msg + *at + 8);
	ret->data = *at + 10;
	if (len - ret->data < ret->n)
		return -1;
	*at = ret->data + ret->n;
	return 0;
}

static void dns_reply_note_ttl(struct dns_msg_reply *r, uint32_t ttl)
{
	if (ttl < r->ttl)
		r->ttl = ttl;
}

/* 1: name is an alias, and is replaced by its target. 0: it is not. */
static int dns_reply_follow(const struct section *s, char name[DNS_MSG_NAME_MAX],
			    struct dns_msg_reply *r)
{
	size_t at = s->begin;
	struct rr rr;

	for (unsigned i = 0; i < s->count; i++) {
		size_t data;

		if (dns_reply_read_rr(s->msg, s->len, &at, &rr) < 0)
			return -1;
		if (rr.type != DNS_MSG_CNAME || rr.class != DNS_MSG_IN ||
		    strcmp(rr.owner, name) != 0)
			continue;
		data = rr.data;
		if (dns_msg_name_read(s->msg, s->len, &data, true, name) < 0 ||
		    data != rr.data + rr.n)
			return -1;
		dns_reply_lower(name);
		dns_reply_note_ttl(r, rr.ttl);
		return 1;
	}
	return 0;
}

/* Addresses beyond DNS_MSG_ADDRESSES are counted for the TTL only. */
static int dns_reply_take_address(const struct section *s, const struct rr *rr,
				  struct dns_msg_reply *r)
{
	static const uint8_t v4[12] = { [10] = 0xFF, [11] = 0xFF };
	struct ip *ip = &r->ips[r->n];

	if (rr->n != (rr->type == DNS_MSG_A ? 4 : 16))
		return -1;
	dns_reply_note_ttl(r, rr->ttl);
	if (r->n == DNS_MSG_ADDRESSES)
		return 0;
	if (rr->type == DNS_MSG_A) {
		memcpy(ip->b, v4, sizeof(v4));
		memcpy(ip->b + 12, s->msg + rr->data, 4);
	} else {
		memcpy(ip->b, s->msg + rr->data, 16);
	}
	r->n++;
	return 0;
}

/* The records of the last name of the chain. */
static int dns_reply_read_addresses(const struct section *s, const char *name, uint16_t type,
				    struct dns_msg_reply *r)
{
	size_t at = s->begin;
	struct rr rr;

	for (unsigned i = 0; i < s->count; i++) {
		if (dns_reply_read_rr(s->msg, s->len, &at, &rr) < 0)
			return -1;
		if (rr.type == type && rr.class == DNS_MSG_IN && strcmp(rr.owner, name) == 0 &&
		    dns_reply_take_address(s, &rr, r) < 0)
			return -1;
	}
	return 0;
}

/* The authority section: the TTL of a negative answer (RFC 2308). */
static int dns_reply_read_soa(const struct section *answers, unsigned count,
			      struct dns_msg_reply *r)
{
	size_t at = answers->begin;
	struct rr rr;

	for (unsigned i = 0; i < answers->count + count; i++) {
		if (dns_reply_read_rr(answers->msg, answers->len, &at, &rr) < 0)
			return -1;
		if (i < answers->count || rr.type != DNS_MSG_SOA || rr.class != DNS_MSG_IN ||
		    rr.n < 22)
			continue;
		r->negative = true;
		dns_reply_note_ttl(r, rr.ttl);
		dns_reply_note_ttl(r, dns_get32(answers->msg + rr.data + rr.n - 4));
	}
	return 0;
}

/* The loop ends because each alias counts as a hop, also one that leads back. */
static int dns_reply_read_sections(const struct section *answers, unsigned authority, uint16_t type,
				   char name[DNS_MSG_NAME_MAX], struct dns_msg_reply *r)
{
	int more;

	while ((more = dns_reply_follow(answers, name, r)) > 0) {
		if (++r->hops > DNS_MSG_HOPS)
			return -1;
	}
	if (more < 0 || dns_reply_read_addresses(answers, name, type, r) < 0)
		return -1;
	if (r->n == 0 && dns_reply_read_soa(answers, authority, r) < 0)
		return -1;
	if (r->hops > 0)
		memcpy(r->alias, name, strlen(name) + 1);
	return 0;
}

/* Id and question must be those of the query. A question that differs in the case of letters only
 * is reported apart. */
static enum dns_msg_match dns_reply_compare(const uint8_t *msg, size_t len, const uint8_t *query,
					    size_t query_len)
{
	if (len < query_len || query_len < DNS_MSG_HEAD + 5 || dns_get16(msg) != dns_get16(query))
		return DNS_MSG_OTHER;
	if (!(dns_get16(msg + 2) & FLAG_QR) || dns_get16(msg + 2) & OPCODE ||
	    dns_get16(msg + 4) != 1)
		return DNS_MSG_OTHER;
	if (memcmp(msg + DNS_MSG_HEAD, query + DNS_MSG_HEAD, query_len - DNS_MSG_HEAD) == 0)
		return DNS_MSG_ANSWER;
	for (size_t i = DNS_MSG_HEAD; i < query_len; i++) {
		uint8_t a = msg[i], b = query[i];

		if (a != b && ((a ^ b) != 0x20 || (a | 0x20) < 'a' || (a | 0x20) > 'z'))
			return DNS_MSG_OTHER;
	}
	return DNS_MSG_RESPELT;
}

enum dns_msg_match dns_msg_read_reply(const uint8_t *msg, size_t len, const uint8_t *query,
				      size_t query_len, struct dns_msg_reply *ret)
{
	enum dns_msg_match match = dns_reply_compare(msg, len, query, query_len);
	struct section answers = { msg, len, query_len, 0 };
	size_t at = DNS_MSG_HEAD;
	char name[DNS_MSG_NAME_MAX];
	unsigned authority;

	*ret = (struct dns_msg_reply){ .ttl = INT32_MAX };
	if (match != DNS_MSG_ANSWER)
		return match;
	ret->rcode = (int)(dns_get16(msg + 2) & RCODE);
	ret->truncated = (dns_get16(msg + 2) & FLAG_TC) != 0;
	if (ret->truncated)
		return DNS_MSG_ANSWER;
	answers.count = dns_get16(msg + 6);
	/* Without all answers, the section behind them is not found. */
	authority = answers.count > RECORDS_MAX ? 0 : dns_get16(msg + 8);
	authority = authority > RECORDS_MAX ? RECORDS_MAX : authority;
	if (answers.count > RECORDS_MAX)
		answers.count = RECORDS_MAX;
	if (dns_msg_name_read(msg, len, &at, false, name) < 0 || at + 4 != query_len)
		return DNS_MSG_OTHER;
	dns_reply_lower(name);
	if (ret->rcode != DNS_MSG_OK && ret->rcode != DNS_MSG_NXDOMAIN)
		return DNS_MSG_ANSWER;
	if (dns_reply_read_sections(&answers, authority, dns_get16(msg + at), name, ret) < 0)
		return DNS_MSG_OTHER;
	if (ret->rcode == DNS_MSG_NXDOMAIN)
		ret->n = 0;
	return DNS_MSG_ANSWER;
}

#define FLAG_QR 0x8000U
#define FLAG_RD 0x0100U
#define FLAG_RA 0x0080U
#define FLAG_CD 0x0010U
#define OPCODE 0x7800U
#define POINTER_TO_QUESTION (0xC000U | DNS_MSG_HEAD)

/* ---- queries of cells
 *
 * A cell may send any bytes. Egress asks by messages of its own (dns_msg_ask()), so no message of a
 * cell reaches a name server. */

/* Read the OPT record (EDNS) that must be the last of the message. -1: it is anything else. */
static int dns_read_opt(const uint8_t *msg, size_t len, size_t at, bool *ret_version_fits)
{
	if (len - at < 11 || msg[at] != 0 || dns_get16(msg + at + 1) != DNS_MSG_OPT)
		return -1;
	if (dns_get16(msg + at + 9) != len - at - 11)
		return -1;
	*ret_version_fits = msg[at + 6] == 0;
	return 0;
}

int dns_msg_read_query(const uint8_t *msg, size_t len, struct dns_msg_query *ret)
{
	size_t at = DNS_MSG_HEAD;
	bool version_fits = true;

	*ret = (struct dns_msg_query){ 0 };
	if (len < DNS_MSG_HEAD)
		return -1;
	ret->id = dns_get16(msg);
	ret->flags = dns_get16(msg + 2);
	if (ret->flags & FLAG_QR)
		return -1;
	if (ret->flags & OPCODE)
		return DNS_MSG_NOTIMP;
	if (dns_get16(msg + 4) != 1 || dns_get16(msg + 6) != 0 || dns_get16(msg + 8) != 0 ||
	    dns_get16(msg + 10) > 1)
		return DNS_MSG_FORMERR;
	if (dns_msg_name_read(msg, len, &at, false, ret->name) < 0 || len - at < 4) {
		ret->name[0] = '\0';
		return DNS_MSG_FORMERR;
	}
	ret->type = dns_get16(msg + at);
	ret->class = dns_get16(msg + at + 2);
	at += 4;
	ret->question_len = at - DNS_MSG_HEAD;
	if (dns_get16(msg + 10) == 0)
		return at == len ? DNS_MSG_OK : DNS_MSG_FORMERR;
	if (dns_read_opt(msg, len, at, &version_fits) < 0)
		return DNS_MSG_FORMERR;
	ret->edns = true;
	return version_fits ? DNS_MSG_OK : DNS_MSG_BADVERS;
}

/* ---- composing
 *
 * A writer keeps a counter in the head for each section, so records must be added in the order of
 * the sections. */

/* Once a part did not fit, nothing more is written, and the message counts as empty. */
static void dns_put(struct dns_msg_writer *w, const void *bytes, size_t n)
{
	if (w->full || w->cap - w->len < n) {
		w->full = true;
		return;
	}
	memcpy(w->at + w->len, bytes, n);
	w->len += n;
}

static void dns_put16(struct dns_msg_writer *w, unsigned value)
{
	dns_put(w, (const uint8_t[]){ (uint8_t)(value >> 8), (uint8_t)value }, 2);
}

static void dns_put32(struct dns_msg_writer *w, uint32_t value)
{
	dns_put16(w, value >> 16);
	dns_put16(w, value & 0xFFFF);
}

/* Count one more record in the section whose counter is there. */
static void dns_count(struct dns_msg_writer *w, size_t counter)
{
	if (w->full)
		return;
	w->at[counter + 1]++; /* only a few: no carry */
}

/* A name without escapes, such as host_normal() makes. */
static void dns_put_name(struct dns_msg_writer *w, const char *host)
{
	while (*host != '\0') {
		size_t n = strcspn(host, ".");

		assert(n > 0 && n < 64);
		dns_put(w, &(uint8_t){ (uint8_t)n }, 1);
		dns_put(w, host, n);
		host += n + (host[n] == '.');
	}
	dns_put(w, "", 1);
}

/* The counters of answers, authority and additional records begin at 0, and dns_count() raises
 * them. */
void dns_msg_begin(struct dns_msg_writer *w, uint8_t *ret, size_t cap, const uint8_t *query,
		   const struct dns_msg_query *q, int rcode)
{
	unsigned flags = q->flags & (OPCODE | FLAG_RD | FLAG_CD);

	*w = (struct dns_msg_writer){ .at = ret, .cap = cap };
	dns_put16(w, q->id);
	dns_put16(w, flags | FLAG_QR | FLAG_RA | ((unsigned)rcode & 15));
	dns_put16(w, q->question_len > 0);
	dns_put(w, "\0\0\0\0\0", 6);
	if (q->question_len > 0)
		dns_put(w, query + DNS_MSG_HEAD, q->question_len);
}

/* The head of a record of the name in question, up to its length. n bytes of data must follow. */
static void dns_put_record(struct dns_msg_writer *w, uint16_t type, uint32_t ttl, size_t n)
{
	dns_put16(w, POINTER_TO_QUESTION);
	dns_put16(w, type);
	dns_put16(w, DNS_MSG_IN);
	dns_put32(w, ttl);
	dns_put16(w, (unsigned)n);
}

void dns_msg_put_address(struct dns_msg_writer *w, const struct ip *ip, bool v6, uint32_t ttl)
{
	dns_put_record(w, v6 ? DNS_MSG_AAAA : DNS_MSG_A, ttl, v6 ? 16 : 4);
	dns_put(w, ip->b + (v6 ? 0 : 12), v6 ? 16 : 4);
	dns_count(w, 6);
}

void dns_msg_put_ptr(struct dns_msg_writer *w, const char *host, uint32_t ttl)
{
	dns_put_record(w, DNS_MSG_PTR, ttl, strlen(host) + 2);
	dns_put_name(w, host);
	dns_count(w, 6);
}

void dns_msg_put_soa(struct dns_msg_writer *w, uint32_t ttl)
{
	static const char mname[] = "cordon", rname[] = "nobody.invalid";

	dns_put(w, "", 1); /* the owner is the root, above every name */
	dns_put16(w, DNS_MSG_SOA);
	dns_put16(w, DNS_MSG_IN);
	dns_put32(w, ttl);
	dns_put16(w, sizeof(mname) + 1 + sizeof(rname) + 1 + 20);
	dns_put_name(w, mname);
	dns_put_name(w, rname);
	dns_put32(w, 1);    /* serial */
	dns_put32(w, 3600); /* refresh, retry, expire: no secondary servers */
	dns_put32(w, 600);
	dns_put32(w, 86400);
	dns_put32(w, ttl);
	dns_count(w, 8);
}

size_t dns_msg_end(struct dns_msg_writer *w, const struct dns_msg_query *q, int rcode)
{
	if (q->edns) {
		dns_put(w, "", 1);
		dns_put16(w, DNS_MSG_OPT);
		dns_put16(w, DNS_MSG_EDNS);
		dns_put32(w, (uint32_t)(rcode >> 4) << 24); /* upper bits of the rcode, version 0 */
		dns_put16(w, 0);
		dns_count(w, 10);
	}
	return w->full ? 0 : w->len;
}

/* A backslash would be an escape, which dns_put_name() does not know. */
static bool dns_has_good_labels(const char *host)
{
	for (;;) {
		size_t n = strcspn(host, ".");

		if (n == 0 || n > 63 || memchr(host, '\\', n))
			return false;
		if (host[n] == '\0')
			return true;
		host += n + 1;
	}
}

size_t dns_msg_ask(uint8_t ret[DNS_MSG_QUERY_MAX], uint16_t id, const char *host, uint16_t type,
		   const uint8_t mix[32])
{
	struct dns_msg_writer w = { .at = ret, .cap = DNS_MSG_QUERY_MAX };
	size_t n = strlen(host);

	if (n == 0 || n > 253 || !dns_has_good_labels(host))
		return 0;
	dns_put16(&w, id);
	dns_put16(&w, FLAG_RD);
	dns_put16(&w, 1);
	dns_put(&w, "\0\0\0\0\0", 6);
	dns_put_name(&w, host);
	for (size_t i = 0; i < n; i++) {
		uint8_t *c = ret + DNS_MSG_HEAD + 1 + i;

		if (*c >= 'a' && *c <= 'z' && mix[i / 8] & 1U << i % 8)
			*c = (uint8_t)(*c - 'a' + 'A');
	}
	dns_put16(&w, type);
	dns_put16(&w, DNS_MSG_IN);
	return w.full ? 0 : w.len;
}

const char *dns_msg_type_name(uint16_t type, char ret[12])
{
	static const struct {
		uint16_t type;
		const char *name;
	} known[] = {
		{ DNS_MSG_A, "A" },	  { DNS_MSG_NS, "NS" },	      { DNS_MSG_CNAME, "CNAME" },
		{ DNS_MSG_SOA, "SOA" },	  { DNS_MSG_PTR, "PTR" },     { DNS_MSG_MX, "MX" },
		{ DNS_MSG_TXT, "TXT" },	  { DNS_MSG_AAAA, "AAAA" },   { DNS_MSG_SRV, "SRV" },
		{ DNS_MSG_SVCB, "SVCB" }, { DNS_MSG_HTTPS, "HTTPS" }, { DNS_MSG_ANY, "ANY" },
	};

	for (size_t i = 0; i < COUNT(known); i++) {
		if (known[i].type == type)
			return known[i].name;
	}
	(void)snprintf(ret, 12, "TYPE%u", type);
	return ret;
}
