/* dns_msg.c - reads queries of cells, and writes messages.
 *
 * Names are read in dns_msg_name.c, replies in dns_msg_reply.c. A name has at most 255 bytes on the
 * wire, and a pointer in it must lead to a place before the last one: so reading ends for any
 * input. */
#include "dns_msg.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "dns_msg_name.h"

#define FLAG_QR 0x8000U
#define FLAG_RD 0x0100U
#define FLAG_RA 0x0080U
#define FLAG_CD 0x0010U
#define OPCODE 0x7800U
#define POINTER_TO_QUESTION (0xC000U | DNS_MSG_HEAD)

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* Reads the OPT record (EDNS) that must be the last of the message. -1: it is anything else. */
static int read_opt(const uint8_t *msg, size_t len, size_t at, bool *ret_version_fits)
{
	if (len - at < 11 || msg[at] != 0 || get16(msg + at + 1) != DNS_MSG_OPT)
		return -1;
	if (get16(msg + at + 9) != len - at - 11)
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
	ret->id = get16(msg);
	ret->flags = get16(msg + 2);
	if (ret->flags & FLAG_QR)
		return -1;
	if (ret->flags & OPCODE)
		return DNS_MSG_NOTIMP;
	if (get16(msg + 4) != 1 || get16(msg + 6) != 0 || get16(msg + 8) != 0 ||
	    get16(msg + 10) > 1)
		return DNS_MSG_FORMERR;
	if (dns_msg_name_read(msg, len, &at, false, ret->name) < 0 || len - at < 4) {
		ret->name[0] = '\0';
		return DNS_MSG_FORMERR;
	}
	ret->type = get16(msg + at);
	ret->class = get16(msg + at + 2);
	at += 4;
	ret->question_len = at - DNS_MSG_HEAD;
	if (get16(msg + 10) == 0)
		return at == len ? DNS_MSG_OK : DNS_MSG_FORMERR;
	if (read_opt(msg, len, at, &version_fits) < 0)
		return DNS_MSG_FORMERR;
	ret->edns = true;
	return version_fits ? DNS_MSG_OK : DNS_MSG_BADVERS;
}

/* ---- composing */

static void put(struct dns_msg_writer *w, const void *bytes, size_t n)
{
	if (w->full || w->cap - w->len < n) {
		w->full = true;
		return;
	}
	memcpy(w->at + w->len, bytes, n);
	w->len += n;
}

static void put16(struct dns_msg_writer *w, unsigned value)
{
	put(w, (const uint8_t[]){ (uint8_t)(value >> 8), (uint8_t)value }, 2);
}

static void put32(struct dns_msg_writer *w, uint32_t value)
{
	put16(w, value >> 16);
	put16(w, value & 0xFFFF);
}

/* Counts one more record in the section whose counter is there. */
static void count(struct dns_msg_writer *w, size_t counter)
{
	if (w->full)
		return;
	w->at[counter + 1]++; /* only a few: no carry */
}

/* A name without escapes, such as host_normal() makes. */
static void put_name(struct dns_msg_writer *w, const char *host)
{
	while (*host != '\0') {
		size_t n = strcspn(host, ".");

		assert(n > 0 && n < 64);
		put(w, &(uint8_t){ (uint8_t)n }, 1);
		put(w, host, n);
		host += n + (host[n] == '.');
	}
	put(w, "", 1);
}

void dns_msg_begin(struct dns_msg_writer *w, uint8_t *ret, size_t cap, const uint8_t *query,
		   const struct dns_msg_query *q, int rcode)
{
	unsigned flags = q->flags & (OPCODE | FLAG_RD | FLAG_CD);

	*w = (struct dns_msg_writer){ .at = ret, .cap = cap };
	put16(w, q->id);
	put16(w, flags | FLAG_QR | FLAG_RA | ((unsigned)rcode & 15));
	put16(w, q->question_len > 0);
	put(w, "\0\0\0\0\0", 6);
	if (q->question_len > 0)
		put(w, query + DNS_MSG_HEAD, q->question_len);
}

static void put_record(struct dns_msg_writer *w, uint16_t type, uint32_t ttl, size_t n)
{
	put16(w, POINTER_TO_QUESTION);
	put16(w, type);
	put16(w, DNS_MSG_IN);
	put32(w, ttl);
	put16(w, (unsigned)n);
}

void dns_msg_put_address(struct dns_msg_writer *w, const struct ip *ip, bool v6, uint32_t ttl)
{
	put_record(w, v6 ? DNS_MSG_AAAA : DNS_MSG_A, ttl, v6 ? 16 : 4);
	put(w, ip->b + (v6 ? 0 : 12), v6 ? 16 : 4);
	count(w, 6);
}

void dns_msg_put_ptr(struct dns_msg_writer *w, const char *host, uint32_t ttl)
{
	put_record(w, DNS_MSG_PTR, ttl, strlen(host) + 2);
	put_name(w, host);
	count(w, 6);
}

void dns_msg_put_soa(struct dns_msg_writer *w, uint32_t ttl)
{
	static const char mname[] = "cordon", rname[] = "nobody.invalid";

	put(w, "", 1); /* the owner is the root, which is above every name */
	put16(w, DNS_MSG_SOA);
	put16(w, DNS_MSG_IN);
	put32(w, ttl);
	put16(w, sizeof(mname) + 1 + sizeof(rname) + 1 + 20);
	put_name(w, mname);
	put_name(w, rname);
	put32(w, 1);	/* serial */
	put32(w, 3600); /* refresh, retry, expire: no secondary servers */
	put32(w, 600);
	put32(w, 86400);
	put32(w, ttl);
	count(w, 8);
}

size_t dns_msg_end(struct dns_msg_writer *w, const struct dns_msg_query *q, int rcode)
{
	if (q->edns) {
		put(w, "", 1);
		put16(w, DNS_MSG_OPT);
		put16(w, DNS_MSG_EDNS);
		put32(w, (uint32_t)(rcode >> 4) << 24); /* upper bits of the rcode, version 0 */
		put16(w, 0);
		count(w, 10);
	}
	return w->full ? 0 : w->len;
}

static bool has_good_labels(const char *host)
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

	if (n == 0 || n > 253 || !has_good_labels(host))
		return 0;
	put16(&w, id);
	put16(&w, FLAG_RD);
	put16(&w, 1);
	put(&w, "\0\0\0\0\0", 6);
	put_name(&w, host);
	for (size_t i = 0; i < n; i++) {
		uint8_t *c = ret + DNS_MSG_HEAD + 1 + i;

		if (*c >= 'a' && *c <= 'z' && mix[i / 8] & 1U << i % 8)
			*c = (uint8_t)(*c - 'a' + 'A');
	}
	put16(&w, type);
	put16(&w, DNS_MSG_IN);
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
