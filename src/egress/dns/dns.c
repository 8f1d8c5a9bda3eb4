/* dns.c - theory of operation
 *
 * What is answered:
 *
 *	a name that the policy may allow: A and AAAA are synthetic (synthetic_names.h). HTTPS and
 *	    SVCB exist but are empty, so that a client learns neither keys for an encrypted
 *	    ClientHello nor an alternative such as QUIC. All other types are refused (a TXT record
 *	    is a tunnel).
 *	localhost and below: loopback, by RFC 6761; the host name of the cell, the id of its
 *session, as well: /etc/hosts, which cells share, cannot have it PTR of a synthetic address: its
 *name a name that the policy refuses: a synthetic address like that of an allowed name, with a
 *	    short TTL, since policies change. The connection to it is refused with the reason, which
 *	    clients show at once. If the name did not exist, they would try for minutes. No name
 *	    server learns of it
 *	any other name does not exist: names without a dot, which belong to other networks, and
 *	    all refused names if the policy says so (refused_names)
 *
 * Answers are at most DNS_MSG_UDP bytes long, so none is ever truncated. Queries are paced: those
 * that come too fast are dropped, with one record a second. */
#include "egress/dns/dns.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/control/access_record.h"
#include "egress/dns/dns_state.h"
#include "egress/dns/synthetic_names.h"
#include "lib/base/clock.h"
#include "lib/base/hex.h"
#include "lib/base/str.h"
#include "lib/base/text_hash.h"
#include "lib/outbound/dns_msg.h"

#define TTL 60
#define TTL_NO 5
#define RATE_NS (5 * CLOCK_MS) /* time per query, on average */
#define BURST_NS (1000 * RATE_NS)
#define REPEAT_NS (1000 * CLOCK_MS)

/* ---- records */

/* Seeded: a cell that finds two questions with one hash hides the second from the records. */
static uint64_t question_hash(const char *name, uint16_t type)
{
	char folded[DNS_MSG_NAME_MAX + sizeof(type)];
	size_t n = 0;

	for (; name[n] != '\0' && n < DNS_MSG_NAME_MAX; n++)
		folded[n] = (char)tolower((unsigned char)name[n]);
	memcpy(folded + n, &type, sizeof(type));
	return text_hash_part(folded, n + sizeof(type)) | 1; /* 0 means an empty place */
}

/* Has the same question been recorded within the last second? */
static bool dns_repeated(struct dns_state *s, const struct dns_msg_query *q, bool allowed)
{
	uint64_t h = question_hash(q->name, q->type) ^ (allowed ? 2 : 0), now = clock_now_ns();
	size_t at = (h >> 8) % DNS_STATE_RECENT;

	if (s->recent[at].hash == h && now - s->recent[at].at_ns < REPEAT_NS)
		return true;
	s->recent[at].hash = h;
	s->recent[at].at_ns = now;
	return false;
}

static void dns_record(struct egress_session *session, const struct dns_msg_query *q,
		       const char *host, const struct policy_answer *a)
{
	bool allowed = a->verdict != POLICY_REFUSE;
	char type[12];
	struct access_record r = { .kind = ACCESS_RECORD_DNS,
				   .start_ns = clock_now_ns(),
				   .name = host ? host : q->name,
				   .port = 53,
				   .scheme = "dns",
				   .qtype = dns_msg_type_name(q->type, type),
				   .allowed = allowed,
				   .rule = a->rule,
				   .reason = allowed ? "" : a->reason };

	if (!dns_repeated(session->dns, q, allowed))
		access_record_send(session, &r);
}

static bool too_fast(struct egress_session *session)
{
	struct dns_state *s = session->dns;
	uint64_t now = clock_now_ns();
	struct access_record r = { .kind = ACCESS_RECORD_DNS,
				   .start_ns = now,
				   .port = 53,
				   .scheme = "dns",
				   .reason = "too many queries" };

	if (s->paced_ns < now)
		s->paced_ns = now;
	if (s->paced_ns - now <= BURST_NS) {
		s->paced_ns += RATE_NS;
		return false;
	}
	if (s->flood_ns == 0 || now - s->flood_ns >= REPEAT_NS) {
		s->flood_ns = now;
		access_record_send(session, &r);
	}
	return true;
}

/* ---- answers */

struct question {
	struct egress_session *session;
	const uint8_t *query;
	struct dns_msg_query q;
	struct policy_answer verdict;
	uint8_t *ret;
};

static size_t dns_empty(struct question *a, int rcode, bool soa)
{
	struct dns_msg_writer w;

	dns_msg_begin(&w, a->ret, DNS_TEXT_MAX, a->query, &a->q, rcode);
	if (soa)
		dns_msg_put_soa(&w, TTL_NO);
	return dns_msg_end(&w, &a->q, rcode);
}

static size_t dns_refuse(struct question *a, const char *host, int rcode, const char *why)
{
	a->verdict.verdict = POLICY_REFUSE;
	if (why)
		str_copy(a->verdict.reason, why);
	dns_record(a->session, &a->q, host, &a->verdict);
	return dns_empty(a, rcode, rcode == DNS_MSG_NXDOMAIN);
}

/* A name that exists: its address, or an empty answer for other types. */
static size_t answer_types(struct question *a, const struct ip *v4, const struct ip *v6,
			   uint32_t ttl)
{
	bool wants_v6 = a->q.type == DNS_MSG_AAAA;
	struct dns_msg_writer w;

	if (a->q.type != DNS_MSG_A && !wants_v6)
		return dns_empty(a, DNS_MSG_OK, true);
	dns_msg_begin(&w, a->ret, DNS_TEXT_MAX, a->query, &a->q, DNS_MSG_OK);
	dns_msg_put_address(&w, wants_v6 ? v6 : v4, wants_v6, ttl);
	return dns_msg_end(&w, &a->q, DNS_MSG_OK);
}

static size_t answer_localhost(struct question *a)
{
	static const struct ip v4 = { { [10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1 } };
	static const struct ip v6 = { { [15] = 1 } };

	return answer_types(a, &v4, &v6, TTL);
}

/* "4.3.2.1.in-addr.arpa" of 1.2.3.4. */
static int read_reverse_v4(const char *name, struct ip *ret)
{
	const char *part[4];
	int n[4];
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < COUNT(part); i++) {
		part[i] = name;
		n[i] = (int)strspn(name, "0123456789");
		if (n[i] == 0 || n[i] > 3 || name[n[i]] != '.')
			return -1;
		name += n[i] + 1;
	}
	if (strcasecmp(name, "in-addr.arpa") != 0)
		return -1;
	(void)snprintf(text, sizeof(text), "%.*s.%.*s.%.*s.%.*s", n[3], part[3], n[2], part[2],
		       n[1], part[1], n[0], part[0]);
	return ip_read(text, strlen(text), ret);
}

/* 32 hexadecimal digits, the last first, then "ip6.arpa". */
static int read_reverse_v6(const char *name, struct ip *ret)
{
	char digits[2 * sizeof(ret->b)];
	struct err e;

	if (strlen(name) != 2 * sizeof(digits) + 8 ||
	    strcasecmp(name + 2 * sizeof(digits), "ip6.arpa") != 0)
		return -1;
	for (size_t i = 0; i < sizeof(digits); i++) {
		if (name[2 * i + 1] != '.')
			return -1;
		digits[sizeof(digits) - 1 - i] = name[2 * i];
	}
	return hex_decode(digits, sizeof(digits), ret->b, sizeof(ret->b), &e);
}

static size_t answer_ptr(struct question *a)
{
	struct dns_msg_writer w;
	const char *host;
	struct ip ip;

	if (read_reverse_v4(a->q.name, &ip) < 0 && read_reverse_v6(a->q.name, &ip) < 0)
		return dns_refuse(a, NULL, DNS_MSG_NXDOMAIN, "no such name");
	host = synthetic_names_find(a->session->names, &ip);
	if (!host)
		return dns_refuse(a, NULL, DNS_MSG_NXDOMAIN, "no name has this address");
	a->verdict.verdict = POLICY_PERMIT;
	dns_record(a->session, &a->q, NULL, &a->verdict);
	dns_msg_begin(&w, a->ret, DNS_TEXT_MAX, a->query, &a->q, DNS_MSG_OK);
	dns_msg_put_ptr(&w, host, TTL);
	return dns_msg_end(&w, &a->q, DNS_MSG_OK);
}

static bool is_answered(uint16_t type)
{
	return type == DNS_MSG_A || type == DNS_MSG_AAAA || type == DNS_MSG_HTTPS ||
	       type == DNS_MSG_SVCB;
}

/* A refused name: does the refusal of its connection explain it? */
static bool dns_explains(const struct question *a, const char *host)
{
	return policy_answers_refused(a->session->policy) && strchr(host, '.') != NULL &&
	       is_answered(a->q.type);
}

static size_t answer_name(struct question *a)
{
	char host[HOST_MAX];
	struct ip v4, v6;

	if (host_normal(a->q.name, strlen(a->q.name), host) < 0)
		return dns_refuse(a, NULL,
				  a->q.name[0] == '\0' ? DNS_MSG_REFUSED : DNS_MSG_NXDOMAIN,
				  "not a host name");
	if (host_is_localhost(host) || strcmp(host, a->session->id) == 0)
		return is_answered(a->q.type) ? answer_localhost(a)
					      : dns_empty(a, DNS_MSG_REFUSED, false);
	policy_name(a->session->policy, host, &a->verdict);
	if (a->verdict.verdict == POLICY_REFUSE && !dns_explains(a, host))
		return dns_refuse(a, host, DNS_MSG_NXDOMAIN, NULL);
	if (!is_answered(a->q.type))
		return dns_refuse(a, host, DNS_MSG_REFUSED,
				  "records of this type are not answered");
	if (synthetic_names_give(a->session->names, host, &v4, &v6) < 0)
		return dns_refuse(a, host, DNS_MSG_SERVFAIL, "out of memory for another name");
	dns_record(a->session, &a->q, host, &a->verdict);
	return answer_types(a, &v4, &v6, a->verdict.verdict == POLICY_REFUSE ? TTL_NO : TTL);
}

size_t dns_answer(struct egress_session *session, const uint8_t *query, size_t len, bool udp,
		  uint8_t ret[DNS_TEXT_MAX])
{
	struct question a = { .session = session, .query = query, .ret = ret };
	int rcode = dns_msg_read_query(query, len, &a.q);
	size_t n;

	if (rcode < 0 || !dns_state_of(session) || too_fast(session))
		return 0;
	if (rcode != DNS_MSG_OK)
		n = dns_refuse(&a, NULL, rcode, "malformed query");
	else if (a.q.class != DNS_MSG_IN)
		n = dns_refuse(&a, NULL, DNS_MSG_REFUSED, "not of class IN");
	else if (a.q.type == DNS_MSG_PTR)
		n = answer_ptr(&a);
	else
		n = answer_name(&a);
	assert(!udp || n <= DNS_MSG_UDP);
	return n;
}
