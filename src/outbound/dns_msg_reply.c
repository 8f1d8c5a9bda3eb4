/* dns_msg_reply.c - reads the reply of a name server to a query of resolver_query.c.
 *
 * Only records that follow from the question are used: from its name along CNAMEs, wherever in the
 * answer section they are, to the addresses of the last. All other records are ignored, so a reply
 * cannot set addresses of another name. */
#include "dns_msg.h"

#include <string.h>
#include <strings.h>

#include "dns_msg_name.h"

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

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void lower(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + ('a' - 'A'));
	}
}

static int read_rr(const uint8_t *msg, size_t len, size_t *at, struct rr *ret)
{
	if (dns_msg_name_read(msg, len, at, true, ret->owner) < 0 || len - *at < 10)
		return -1;
	lower(ret->owner);
	ret->type = get16(msg + *at);
	ret->class = get16(msg + *at + 2);
	ret->ttl = get32(msg + *at + 4);
	if (ret->ttl > INT32_MAX)
		ret->ttl = 0; /* RFC 2181, 8 */
	ret->n = get16(msg + *at + 8);
	ret->data = *at + 10;
	if (len - ret->data < ret->n)
		return -1;
	*at = ret->data + ret->n;
	return 0;
}

static void note_ttl(struct dns_msg_reply *r, uint32_t ttl)
{
	if (ttl < r->ttl)
		r->ttl = ttl;
}

/* 1: name is an alias, and is replaced by its target; 0: it is not. */
static int follow(const struct section *s, char name[DNS_MSG_NAME_MAX], struct dns_msg_reply *r)
{
	size_t at = s->begin;
	struct rr rr;

	for (unsigned i = 0; i < s->count; i++) {
		size_t data;

		if (read_rr(s->msg, s->len, &at, &rr) < 0)
			return -1;
		if (rr.type != DNS_MSG_CNAME || rr.class != DNS_MSG_IN ||
		    strcmp(rr.owner, name) != 0)
			continue;
		data = rr.data;
		if (dns_msg_name_read(s->msg, s->len, &data, true, name) < 0 ||
		    data != rr.data + rr.n)
			return -1;
		lower(name);
		note_ttl(r, rr.ttl);
		return 1;
	}
	return 0;
}

static int take_address(const struct section *s, const struct rr *rr, struct dns_msg_reply *r)
{
	static const uint8_t v4[12] = { [10] = 0xFF, [11] = 0xFF };
	struct ip *ip = &r->ips[r->n];

	if (rr->n != (rr->type == DNS_MSG_A ? 4 : 16))
		return -1;
	note_ttl(r, rr->ttl);
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

static int read_addresses(const struct section *s, const char *name, uint16_t type,
			  struct dns_msg_reply *r)
{
	size_t at = s->begin;
	struct rr rr;

	for (unsigned i = 0; i < s->count; i++) {
		if (read_rr(s->msg, s->len, &at, &rr) < 0)
			return -1;
		if (rr.type == type && rr.class == DNS_MSG_IN && strcmp(rr.owner, name) == 0 &&
		    take_address(s, &rr, r) < 0)
			return -1;
	}
	return 0;
}

/* The authority section: the TTL of a negative answer (RFC 2308). */
static int read_soa(const struct section *answers, unsigned count, struct dns_msg_reply *r)
{
	size_t at = answers->begin;
	struct rr rr;

	for (unsigned i = 0; i < answers->count + count; i++) {
		if (read_rr(answers->msg, answers->len, &at, &rr) < 0)
			return -1;
		if (i < answers->count || rr.type != DNS_MSG_SOA || rr.class != DNS_MSG_IN ||
		    rr.n < 22)
			continue;
		r->negative = true;
		note_ttl(r, rr.ttl);
		note_ttl(r, get32(answers->msg + rr.data + rr.n - 4));
	}
	return 0;
}

static int read_sections(const struct section *answers, unsigned authority, uint16_t type,
			 char name[DNS_MSG_NAME_MAX], struct dns_msg_reply *r)
{
	int more;

	while ((more = follow(answers, name, r)) > 0) {
		if (++r->hops > DNS_MSG_HOPS)
			return -1;
	}
	if (more < 0 || read_addresses(answers, name, type, r) < 0)
		return -1;
	if (r->n == 0 && read_soa(answers, authority, r) < 0)
		return -1;
	if (r->hops > 0)
		memcpy(r->alias, name, strlen(name) + 1);
	return 0;
}

static enum dns_msg_match compare(const uint8_t *msg, size_t len, const uint8_t *query,
				  size_t query_len)
{
	if (len < query_len || query_len < DNS_MSG_HEAD + 5 || get16(msg) != get16(query))
		return DNS_MSG_OTHER;
	if (!(get16(msg + 2) & FLAG_QR) || get16(msg + 2) & OPCODE || get16(msg + 4) != 1)
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
	enum dns_msg_match match = compare(msg, len, query, query_len);
	struct section answers = { msg, len, query_len, 0 };
	size_t at = DNS_MSG_HEAD;
	char name[DNS_MSG_NAME_MAX];

	*ret = (struct dns_msg_reply){ .ttl = INT32_MAX };
	if (match != DNS_MSG_ANSWER)
		return match;
	ret->rcode = (int)(get16(msg + 2) & RCODE);
	ret->truncated = (get16(msg + 2) & FLAG_TC) != 0;
	if (ret->truncated)
		return DNS_MSG_ANSWER;
	answers.count = get16(msg + 6);
	if (dns_msg_name_read(msg, len, &at, false, name) < 0 || at + 4 != query_len)
		return DNS_MSG_OTHER;
	lower(name);
	if (ret->rcode != DNS_MSG_OK && ret->rcode != DNS_MSG_NXDOMAIN)
		return DNS_MSG_ANSWER;
	if (read_sections(&answers, get16(msg + 8), get16(msg + at), name, ret) < 0)
		return DNS_MSG_OTHER;
	if (ret->rcode == DNS_MSG_NXDOMAIN)
		ret->n = 0;
	return DNS_MSG_ANSWER;
}
