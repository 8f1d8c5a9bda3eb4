/* The codec: queries of cells, and replies of servers. */
#include "dns_text.h"

#include "lib/outbound/dns_msg.h"

#define QUERY 0x0100
#define REPLY 0x8180

static void query_read(void)
{
	struct dns_msg_query q;
	struct text t;

	put_head(&t, 0x1234, QUERY, 1, 0, 0, 0);
	put_question(&t, "WWW.Example.com", DNS_MSG_A);
	CHECK(dns_msg_read_query(t.b, t.n, &q) == DNS_MSG_OK);
	CHECK(q.id == 0x1234 && q.type == DNS_MSG_A && q.class == 1 && !q.edns);
	CHECK(q.question_len == t.n - DNS_MSG_HEAD);
	CHECK_STR(q.name, "WWW.Example.com");
	for (size_t n = 0; n < t.n; n++)
		CHECK(dns_msg_read_query(t.b, n, &q) == (n < DNS_MSG_HEAD ? -1 : DNS_MSG_FORMERR));
}

static int read_with(unsigned flags, unsigned qd, unsigned an, unsigned ns, unsigned ar,
		     const void *tail, size_t n)
{
	struct dns_msg_query q;
	struct text t;

	put_head(&t, 1, flags, qd, an, ns, ar);
	put_question(&t, "a.example", DNS_MSG_A);
	put_bytes(&t, tail, n);
	return dns_msg_read_query(t.b, t.n, &q);
}

static void query_bad(void)
{
	CHECK(read_with(QUERY, 1, 0, 0, 0, "", 0) == DNS_MSG_OK);
	CHECK(read_with(REPLY, 1, 0, 0, 0, "", 0) == -1);
	CHECK(read_with(0x2000, 1, 0, 0, 0, "", 0) == DNS_MSG_NOTIMP); /* NOTIFY */
	CHECK(read_with(QUERY, 0, 0, 0, 0, "", 0) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 2, 0, 0, 0, "", 0) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 1, 1, 0, 0, "", 0) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 1, 0, 1, 0, "", 0) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 1, 0, 0, 1, "", 0) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 1, 0, 0, 0, "x", 1) == DNS_MSG_FORMERR);
}

static void query_edns(void)
{
	static const uint8_t opt[] = { 0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0 };
	static const uint8_t cookie[] = { 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 6, 0, 10, 0, 2, 1, 2 };
	uint8_t bad[sizeof(opt)];

	CHECK(read_with(QUERY, 1, 0, 0, 1, opt, sizeof(opt)) == DNS_MSG_OK);
	CHECK(read_with(QUERY, 1, 0, 0, 1, cookie, sizeof(cookie)) == DNS_MSG_OK);
	CHECK(read_with(QUERY, 1, 0, 0, 1, cookie, sizeof(cookie) - 1) == DNS_MSG_FORMERR);
	CHECK(read_with(QUERY, 1, 0, 0, 0, opt, sizeof(opt)) == DNS_MSG_FORMERR);
	memcpy(bad, opt, sizeof(bad));
	bad[6] = 1;
	CHECK(read_with(QUERY, 1, 0, 0, 1, bad, sizeof(bad)) == DNS_MSG_BADVERS);
	memcpy(bad, opt, sizeof(bad));
	bad[2] = 250; /* TSIG */
	CHECK(read_with(QUERY, 1, 0, 0, 1, bad, sizeof(bad)) == DNS_MSG_FORMERR);
}

static int read_name(const void *labels, size_t n, struct dns_msg_query *q)
{
	struct text t;

	put_head(&t, 1, QUERY, 1, 0, 0, 0);
	put_bytes(&t, labels, n);
	put_u16(&t, DNS_MSG_A);
	put_u16(&t, 1);
	return dns_msg_read_query(t.b, t.n, q);
}

static void names(void)
{
	struct dns_msg_query q;
	uint8_t wire[300];
	size_t n = 0;

	CHECK(read_name("\0", 1, &q) == DNS_MSG_OK);
	CHECK_STR(q.name, "");
	CHECK(read_name("\3a.b\1\0\1\\\1 \1\377\0", 13, &q) == DNS_MSG_OK);
	CHECK_STR(q.name, "a\\046b.\\000.\\092.\\032.\\255");
	CHECK(read_name("\300\014", 2, &q) == DNS_MSG_FORMERR); /* no compression in a query */
	CHECK(read_name("\100a\0", 3, &q) == DNS_MSG_FORMERR);
	while (n + 64 <= 252) {
		memset(wire + n, 255, 64);
		wire[n] = 63;
		n += 64;
	}
	wire[n] = 61;
	memset(wire + n + 1, 255, 61);
	wire[n + 62] = 0;
	CHECK(n + 63 == 255 && read_name(wire, 255, &q) == DNS_MSG_OK);
	CHECK(strlen(q.name) < DNS_MSG_NAME_MAX && strlen(q.name) == 3 + 4 * (3 * 63 + 61));
	wire[n] = 62;
	wire[n + 62] = 255;
	wire[n + 63] = 0;
	CHECK(read_name(wire, 256, &q) == DNS_MSG_FORMERR);
}

static void answers(void)
{
	struct ip v4 = { { [10] = 0xFF, [11] = 0xFF, 198, 18, 1, 2 } };
	struct dns_msg_query q;
	struct dns_msg_writer w;
	uint8_t out[DNS_MSG_UDP];
	struct dns_msg_reply r;
	struct text t;

	put_head(&t, 7, QUERY | 0x10, 1, 0, 0, 0);
	put_question(&t, "wWw.Example.com", DNS_MSG_A);
	CHECK(dns_msg_read_query(t.b, t.n, &q) == DNS_MSG_OK);
	dns_msg_begin(&w, out, sizeof(out), t.b, &q, DNS_MSG_OK);
	dns_msg_put_address(&w, &v4, false, 60);
	CHECK(dns_msg_end(&w, &q, DNS_MSG_OK) == t.n + 16);
	CHECK(out[2] == 0x81 && out[3] == 0x90); /* response, RD kept, RA, CD kept */
	CHECK(dns_msg_read_reply(out, w.len, t.b, t.n, &r) == DNS_MSG_ANSWER);
	CHECK(r.n == 1 && ip_same(&r.ips[0], &v4) && r.ttl == 60);

	dns_msg_begin(&w, out, sizeof(out), t.b, &q, DNS_MSG_NXDOMAIN);
	dns_msg_put_soa(&w, 5);
	CHECK(dns_msg_end(&w, &q, DNS_MSG_NXDOMAIN) > 0);
	CHECK(dns_msg_read_reply(out, w.len, t.b, t.n, &r) == DNS_MSG_ANSWER);
	CHECK(r.n == 0 && r.rcode == DNS_MSG_NXDOMAIN && r.negative && r.ttl == 5);

	dns_msg_begin(&w, out, 40, t.b, &q, DNS_MSG_OK);
	dns_msg_put_address(&w, &v4, false, 60);
	CHECK(dns_msg_end(&w, &q, DNS_MSG_OK) == 0); /* does not fit */
}

static void ask(void)
{
	uint8_t out[DNS_MSG_QUERY_MAX], mix[32];
	struct dns_msg_query q;
	char host[256];
	size_t n;

	memset(mix, 0, sizeof(mix));
	n = dns_msg_ask(out, 9, "a1-b.example", DNS_MSG_AAAA, mix);
	CHECK(n > 0 && dns_msg_read_query(out, n, &q) == DNS_MSG_OK);
	CHECK_STR(q.name, "a1-b.example");
	CHECK(q.type == DNS_MSG_AAAA && q.id == 9);
	memset(mix, 0xFF, sizeof(mix));
	n = dns_msg_ask(out, 9, "a1-b.example", DNS_MSG_A, mix);
	CHECK(n > 0 && dns_msg_read_query(out, n, &q) == DNS_MSG_OK);
	CHECK_STR(q.name, "A1-B.EXAMPLE");
	memset(host, 'a', sizeof(host));
	host[63] = host[127] = host[191] = '.';
	host[253] = '\0';
	CHECK(dns_msg_ask(out, 9, host, DNS_MSG_A, mix) == DNS_MSG_QUERY_MAX);
	host[253] = 'a';
	host[254] = '\0';
	CHECK(dns_msg_ask(out, 9, host, DNS_MSG_A, mix) == 0);
	CHECK(dns_msg_ask(out, 9, "", DNS_MSG_A, mix) == 0);
	CHECK(dns_msg_ask(out, 9, "a..b", DNS_MSG_A, mix) == 0);
	CHECK(dns_msg_ask(out, 9, "a.", DNS_MSG_A, mix) == 0);
}

/* ---- replies */

static struct text asked(const char *name, unsigned type)
{
	struct text t;

	put_head(&t, 0xABCD, QUERY, 1, 0, 0, 0);
	put_question(&t, name, type);
	return t;
}

static struct text reply_head(const char *name, unsigned type, unsigned flags, unsigned an,
			      unsigned ns)
{
	struct text t;

	put_head(&t, 0xABCD, flags, 1, an, ns, 0);
	put_question(&t, name, type);
	return t;
}

static void reply_matches(void)
{
	struct text q = asked("wWw.exaMple", DNS_MSG_A),
		    r = reply_head("wWw.exaMple", 1, REPLY, 1, 0);
	struct dns_msg_reply got;
	struct text bad;

	put_rr(&r, "www.EXAMPLE", DNS_MSG_A, 30, "\x5d\xb8\xd8\x22", 4);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
	CHECK(got.n == 1 && got.ttl == 30 && ip_is_v4(&got.ips[0]) && got.ips[0].b[15] == 0x22);
	for (size_t n = 0; n < r.n; n++)
		CHECK(dns_msg_read_reply(r.b, n, q.b, q.n, &got) == DNS_MSG_OTHER);
	bad = r;
	bad.b[1]++; /* id */
	CHECK(dns_msg_read_reply(bad.b, bad.n, q.b, q.n, &got) == DNS_MSG_OTHER);
	bad = r;
	bad.b[2] &= 0x7F; /* a query */
	CHECK(dns_msg_read_reply(bad.b, bad.n, q.b, q.n, &got) == DNS_MSG_OTHER);
	bad = r;
	bad.b[13] ^= 0x20; /* case */
	CHECK(dns_msg_read_reply(bad.b, bad.n, q.b, q.n, &got) == DNS_MSG_RESPELT);
	bad = r;
	bad.b[14]++; /* another name */
	CHECK(dns_msg_read_reply(bad.b, bad.n, q.b, q.n, &got) == DNS_MSG_OTHER);
	bad = r;
	bad.b[q.n - 3]++; /* another type */
	CHECK(dns_msg_read_reply(bad.b, bad.n, q.b, q.n, &got) == DNS_MSG_OTHER);
}

static void reply_alias(void)
{
	struct text q = asked("a.x", DNS_MSG_A), r = reply_head("a.x", DNS_MSG_A, REPLY, 5, 0);
	struct dns_msg_reply got;

	put_rr(&r, "c.x", DNS_MSG_A, 50, "\1\2\3\4", 4); /* in no order */
	put_cname(&r, "b.x", 20, "c.x");
	put_rr(&r, "evil.x", DNS_MSG_A, 1, "\12\0\0\1", 4); /* not asked for */
	put_cname(&r, "A.x", 40, "b.X");
	put_rr(&r, "c.x", DNS_MSG_AAAA, 1, "0123456789abcdef", 16);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
	CHECK(got.n == 1 && got.ips[0].b[12] == 1 && got.ttl == 20 && got.hops == 2);
	CHECK_STR(got.alias, "c.x");
}

static void reply_alias_alone(void)
{
	struct text q = asked("a.x", DNS_MSG_A), r = reply_head("a.x", DNS_MSG_A, REPLY, 1, 0);
	struct dns_msg_reply got;

	put_cname(&r, "a.x", 40, "elsewhere.y");
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
	CHECK(got.n == 0 && !got.negative && got.ttl == 40);
	CHECK_STR(got.alias, "elsewhere.y");
}

static void reply_alias_loop(void)
{
	struct text q = asked("a.x", DNS_MSG_A), r = reply_head("a.x", DNS_MSG_A, REPLY, 2, 0);
	struct dns_msg_reply got;

	put_cname(&r, "a.x", 40, "b.x");
	put_cname(&r, "b.x", 40, "a.x");
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_OTHER);
}

static void reply_alias_chain(void)
{
	char from[16], to[16];
	struct dns_msg_reply got;

	for (unsigned n = DNS_MSG_HOPS; n <= DNS_MSG_HOPS + 1; n++) {
		struct text q = asked("n0", DNS_MSG_A), r = reply_head("n0", 1, REPLY, n + 1, 0);

		for (unsigned i = 0; i < n; i++) {
			(void)snprintf(from, sizeof(from), "n%u", i);
			(void)snprintf(to, sizeof(to), "n%u", i + 1);
			put_cname(&r, from, 9, to);
		}
		put_rr(&r, to, DNS_MSG_A, 9, "\1\2\3\4", 4);
		CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) ==
		      (n == DNS_MSG_HOPS ? DNS_MSG_ANSWER : DNS_MSG_OTHER));
	}
}

static void reply_no(void)
{
	static const uint8_t soa[22 + 0] = { [18] = 0, [21] = 33 };
	struct text q = asked("a.x", DNS_MSG_A), r = reply_head("a.x", DNS_MSG_A, REPLY | 3, 0, 1);
	struct dns_msg_reply got;

	put_rr(&r, "x", DNS_MSG_SOA, 900, soa, sizeof(soa));
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
	CHECK(got.rcode == DNS_MSG_NXDOMAIN && got.negative && got.ttl == 33 && got.n == 0);
	r = reply_head("a.x", DNS_MSG_A, REPLY | 3, 1, 0);
	put_rr(&r, "a.x", DNS_MSG_A, 900, "\1\2\3\4", 4);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER && got.n == 0);
	r = reply_head("a.x", DNS_MSG_A, REPLY | 0x200, 1,
		       0); /* TC: what follows does not matter */
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER && got.truncated);
	r = reply_head("a.x", DNS_MSG_A, REPLY | 2, 0, 0);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER && got.rcode == 2);
}

static void reply_sizes(void)
{
	struct text q = asked("a.x", DNS_MSG_AAAA), r = reply_head("a.x", 28, REPLY, 1, 0);
	struct dns_msg_reply got;

	put_rr(&r, "a.x", DNS_MSG_AAAA, 9, "\1\2\3\4", 4);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_OTHER);
	r = reply_head("a.x", 28, REPLY, 40, 0);
	for (int i = 0; i < 40; i++)
		put_rr(&r, "a.x", DNS_MSG_AAAA, i == 39 ? 0x80000001 : 9, "0123456789abcdef", 16);
	CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
	CHECK(got.n == DNS_MSG_ADDRESSES && got.ttl == 0);
}

/* The name that leads on is the last record: beyond the bound it is not seen. */
static void reply_records(void)
{
	struct text q = asked("a.x", DNS_MSG_A);
	struct dns_msg_reply got;

	for (unsigned n = 64; n <= 65; n++) {
		struct text r = reply_head("a.x", DNS_MSG_A, REPLY, n, 0);

		for (unsigned i = 1; i < n; i++)
			put_rr(&r, "b.x", DNS_MSG_TXT, 9, "", 0);
		put_rr(&r, "a.x", DNS_MSG_A, 9, "\1\2\3\4", 4);
		CHECK(dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER);
		CHECK(got.n == (n == 64 ? 1 : 0));
	}
}

static void reply_pointers(void)
{
	struct text q = asked("a.x", DNS_MSG_A), r;
	struct dns_msg_reply got;
	static const struct {
		uint8_t owner[2];
		bool good;
	} rows[] = { { { 0xC0, 12 }, true },	{ { 0xC0, 21 }, false }, /* itself */
		     { { 0xC0, 200 }, false },	{ { 0xC0, 0 }, false },	 /* the head is no name */
		     { { 0xFF, 0xFF }, false }, { { 0x80, 12 }, false } };

	for (size_t i = 0; i < COUNT(rows); i++) {
		r = reply_head("a.x", DNS_MSG_A, REPLY, 1, 0);
		CHECK(r.n == 21);
		put_bytes(&r, rows[i].owner, 2);
		put_bytes(&r, "\0\1\0\1\0\0\0\11\0\4\1\2\3\4", 14);
		CHECK((dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER) ==
		      rows[i].good);
		CHECK(!rows[i].good || got.n == 1);
	}
}

/* A chain of pointers, each to the one before it: servers need one, and a few are taken. */
static bool takes_chain(unsigned n)
{
	struct text q = asked("a.x", DNS_MSG_A), r = reply_head("a.x", DNS_MSG_A, REPLY, 2, 0);
	struct dns_msg_reply got;
	unsigned before = 12;

	put_bytes(&r, "\300\14\0\20\0\1\0\0\0\11", 10); /* TXT */
	put_bytes(&r, (uint8_t[]){ (uint8_t)(2 * (n - 1) >> 8), (uint8_t)(2 * (n - 1)) }, 2);
	for (unsigned i = 1; i < n; i++) {
		unsigned here = (unsigned)r.n;

		put_bytes(&r, (uint8_t[]){ (uint8_t)(0xC0 | before >> 8), (uint8_t)before }, 2);
		before = here;
	}
	put_bytes(&r, (uint8_t[]){ (uint8_t)(0xC0 | before >> 8), (uint8_t)before }, 2);
	put_bytes(&r, "\0\1\0\1\0\0\0\11\0\4\1\2\3\4", 14);
	return dns_msg_read_reply(r.b, r.n, q.b, q.n, &got) == DNS_MSG_ANSWER && got.n == 1;
}

static void reply_pointer_chain(void)
{
	CHECK(takes_chain(1) && takes_chain(16));
	CHECK(!takes_chain(17) && !takes_chain(127) && !takes_chain(200));
}

TEST_MAIN({ "a query", query_read }, { "queries that are none", query_bad }, { "EDNS", query_edns },
	  { "names", names }, { "answers", answers }, { "our queries", ask },
	  { "a reply and what is none", reply_matches }, { "aliases, in any order", reply_alias },
	  { "an alias alone", reply_alias_alone }, { "aliases in a circle", reply_alias_loop },
	  { "a long chain", reply_alias_chain }, { "no, and how long", reply_no },
	  { "sizes and bounds", reply_sizes }, { "records", reply_records },
	  { "pointers", reply_pointers }, { "a chain of pointers", reply_pointer_chain })
