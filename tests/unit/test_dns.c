/* What the resolver of a cell answers, by a policy that allows "allowed.example" and all below
 * "wild.example". */
#include "dns_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/clock.h"
#include "egress/flow/datagrams.h"
#include "egress/dns/dns.h"
#include "lib/outbound/dns_msg.h"
#include "egress/dns/dns_state.h"
#include "egress/dns/dns_tcp.h"
#include "egress/dns/dns_udp.h"
#include "lib/policy/host.h"
#include "egress/dns/synthetic_names.h"
#include "egress/control/access_record.h"

static struct egress_session session;
static unsigned nrecords;
static struct access_record last;
static char last_name[2048], last_type[16], last_reason[256];
static uint64_t skew_ns;

struct datagram_record {
	struct ip ip;
	bool has_ip;
	uint16_t port;
	uint64_t datagrams, bytes, start_ns, end_ns;
};
static struct datagram_record datagrams_sent[64];
static unsigned ndatagrams;

static bool real_clock;

/* In place of the library's: time passes as the test sets it, unless there is a loop. */
uint64_t clock_now_ns(void)
{
	struct timespec now;

	if (!real_clock)
		return 1000000000 + skew_ns;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The loop's log needs it. */
void clock_stamp(char *ret_text, size_t cap)
{
	(void)snprintf(ret_text, cap, "-");
}

void policy_name(const struct policy *p, const char *host, struct policy_answer *ret)
{
	size_t n = strlen(host);

	*ret = (struct policy_answer){ .verdict = POLICY_REFUSE, .reason = "not on the list" };
	if (strcmp(host, "allowed.example") == 0)
		ret->verdict = POLICY_PERMIT;
	if (n > 13 && strcmp(host + n - 13, ".wild.example") == 0)
		ret->verdict = POLICY_INSPECT;
}

static bool answers_refused;

bool policy_answers_refused(const struct policy *p)
{
	return answers_refused;
}

void access_record_send(struct egress_session *s, const struct access_record *r)
{
	CHECK(s == &session);
	if (r->kind == ACCESS_RECORD_DATAGRAM) {
		struct datagram_record *d = &datagrams_sent[ndatagrams++ % COUNT(datagrams_sent)];

		d->has_ip = r->ip != NULL;
		if (r->ip != NULL)
			d->ip = *r->ip;
		d->port = r->port;
		d->datagrams = r->datagrams;
		d->bytes = r->bytes_out;
		d->start_ns = r->start_ns;
		d->end_ns = r->end_ns;
		return;
	}
	CHECK(r->kind == ACCESS_RECORD_DNS);
	nrecords++;
	last = *r;
	(void)snprintf(last_name, sizeof(last_name), "%s", r->name ? r->name : "");
	(void)snprintf(last_type, sizeof(last_type), "%s", r->qtype ? r->qtype : "");
	(void)snprintf(last_reason, sizeof(last_reason), "%s", r->reason ? r->reason : "");
}

struct answer {
	int rcode;
	unsigned an, ns, ar;
	struct text t;
	size_t rr; /* behind the question */
};

static void begin(void)
{
	session = (struct egress_session){ .names = synthetic_names_new() };
}

static struct answer ask_raw(const struct text *q)
{
	struct answer a = { 0 };
	uint8_t out[DNS_TEXT_MAX];
	size_t n = dns_answer(&session, q->b, q->n, true, out);

	if (n == 0) {
		a.rcode = -1;
		return a;
	}
	CHECK(n >= DNS_MSG_HEAD && n <= 512);
	memcpy(a.t.b, out, n);
	a.t.n = n;
	CHECK(out[0] == q->b[0] && out[1] == q->b[1] && out[2] & 0x80 && !(out[2] & 2));
	a.rcode = out[3] & 15;
	a.an = out[7];
	a.ns = out[9];
	a.ar = out[11];
	a.rr = q->n;
	return a;
}

static struct answer ask(const char *name, unsigned type)
{
	struct text q;
	struct answer a;

	put_head(&q, 0x4242, 0x0100, 1, 0, 0, 0);
	put_question(&q, name, type);
	a = ask_raw(&q);
	/* The question comes back as it was spelled. */
	CHECK(a.rcode < 0 || memcmp(a.t.b + 12, q.b + 12, q.n - 12) == 0);
	return a;
}

static struct ip address(const struct answer *a, size_t n)
{
	struct ip ip = { { [10] = 0xFF, [11] = 0xFF } };

	CHECK(a->rcode == 0 && a->an == 1 && a->t.n >= a->rr + 12 + n);
	CHECK(a->t.b[a->rr + 9] == 60 && a->t.b[a->rr + 11] == n); /* TTL, length */
	memcpy(ip.b + 16 - n, a->t.b + a->rr + 12, n);
	return ip;
}

static void allowed(void)
{
	struct answer a;
	struct ip v4, v6;

	begin();
	a = ask("allowed.example", DNS_MSG_A);
	v4 = address(&a, 4);
	CHECK(synthetic_names_is_synthetic(&v4));
	CHECK_STR(synthetic_names_find(session.names, &v4), "allowed.example");
	CHECK(nrecords == 1 && last.allowed);
	CHECK_STR(last_name, "allowed.example");
	CHECK_STR(last_type, "A");
	a = ask("aLLowed.EXAMPLE", DNS_MSG_AAAA);
	v6 = address(&a, 16);
	CHECK_STR(synthetic_names_find(session.names, &v6), "allowed.example");
	CHECK_STR(last_name, "allowed.example");
	a = ask("x.y.wild.example", DNS_MSG_A);
	v4 = address(&a, 4);
	CHECK_STR(synthetic_names_find(session.names, &v4), "x.y.wild.example");
}

static void others_do_not_exist(void)
{
	static const char *const names[] = { "denied.example",	"allowed.example.corp.example",
					     "wild.example",	"example",
					     "notwild.example", "1.2.3.4",
					     "0x7f000001",	"a b.wild.example",
					     "*.wild.example",	"wpad" };

	begin();
	for (size_t i = 0; i < COUNT(names); i++) {
		struct answer a = ask(names[i], DNS_MSG_A);

		CHECK(a.rcode == DNS_MSG_NXDOMAIN && a.an == 0 && a.ns == 1);
		CHECK(!last.allowed && last_reason[0] != '\0');
		CHECK(ask(names[i], DNS_MSG_TXT).rcode == DNS_MSG_NXDOMAIN);
	}
	CHECK(nrecords == 2 * COUNT(names));
}

static void dot_in_a_label(void)
{
	struct text q;

	begin();
	put_head(&q, 1, 0x0100, 1, 0, 0, 0);
	put_bytes(&q, "\17allowed.example\0\0\1\0\1", 21);
	CHECK(ask_raw(&q).rcode == DNS_MSG_NXDOMAIN);
	CHECK_STR(last_name, "allowed\\046example");
}

static void types(void)
{
	static const uint16_t refused[] = {
		DNS_MSG_TXT,   DNS_MSG_MX,    DNS_MSG_SRV,    DNS_MSG_ANY, DNS_MSG_NS, DNS_MSG_SOA,
		DNS_MSG_CNAME, 10 /* NULL */, 252 /* AXFR */, 0,	   65535
	};
	struct answer a;

	begin();
	for (size_t i = 0; i < COUNT(refused); i++) {
		a = ask("allowed.example", refused[i]);
		CHECK(a.rcode == DNS_MSG_REFUSED && a.an == 0 && !last.allowed);
	}
	CHECK_STR(last_type, "TYPE65535");
	/* There, and empty: neither keys nor alternatives. */
	a = ask("allowed.example", DNS_MSG_HTTPS);
	CHECK(a.rcode == 0 && a.an == 0 && a.ns == 1 && last.allowed);
	a = ask("allowed.example", DNS_MSG_SVCB);
	CHECK(a.rcode == 0 && a.an == 0 && a.ns == 1);
	CHECK(ask("denied.example", DNS_MSG_HTTPS).rcode == DNS_MSG_NXDOMAIN);
	CHECK(ask("", DNS_MSG_NS).rcode == DNS_MSG_REFUSED);
}

static void localhost(void)
{
	struct answer a;

	begin();
	a = ask("localhost", DNS_MSG_A);
	CHECK(memcmp(a.t.b + a.rr + 12, "\177\0\0\1", 4) == 0);
	a = ask("app.LocalHost", DNS_MSG_AAAA);
	CHECK(a.an == 1 && memcmp(a.t.b + a.rr + 12, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16) == 0);
	CHECK(ask("localhost", DNS_MSG_TXT).rcode == DNS_MSG_REFUSED);
	CHECK(ask("notlocalhost", DNS_MSG_A).rcode == DNS_MSG_NXDOMAIN);
	CHECK(nrecords == 1); /* localhost is not recorded */
}

static void reverse_name(const struct ip *ip, char ret[128])
{
	size_t n = 0;

	if (ip_is_v4(ip)) {
		(void)snprintf(ret, 128, "%u.%u.%u.%u.in-addr.arpa", ip->b[15], ip->b[14],
			       ip->b[13], ip->b[12]);
		return;
	}
	for (size_t i = 16; i-- > 0;)
		n += (size_t)snprintf(ret + n, 128 - n, "%X.%x.", ip->b[i] & 15U, ip->b[i] >> 4U);
	(void)snprintf(ret + n, 128 - n, "ip6.ARPA");
}

static void reverse(void)
{
	static const char *const unknown[] = { "1.0.18.198.in-addr.arpa", "4.3.2.1.in-addr.arpa",
					       "300.3.2.1.in-addr.arpa",  "3.2.1.in-addr.arpa",
					       "+1.3.2.1.in-addr.arpa",	  "1.2.3.4.5.in-addr.arpa",
					       "allowed.example" };
	struct ip v4, v6;
	struct answer a;
	char name[128];

	begin();
	CHECK(synthetic_names_give(session.names, "allowed.example", &v4, &v6) == 0);
	for (int i = 0; i < 2; i++) {
		reverse_name(i ? &v6 : &v4, name);
		a = ask(name, DNS_MSG_PTR);
		CHECK(a.rcode == 0 && a.an == 1 && last.allowed);
		CHECK(memcmp(a.t.b + a.rr + 12, "\7allowed\7example", 17) == 0);
		CHECK(a.t.b[a.rr + 11] == 17);
	}
	for (size_t i = 0; i < COUNT(unknown); i++)
		CHECK(ask(unknown[i], DNS_MSG_PTR).rcode == DNS_MSG_NXDOMAIN);
	v6.b[9] = 1;
	reverse_name(&v6, name);
	CHECK(ask(name, DNS_MSG_PTR).rcode == DNS_MSG_NXDOMAIN);
}

static void odd_messages(void)
{
	struct text q;
	struct answer a;

	begin();
	put_head(&q, 5, 0x0100, 1, 0, 0, 1);
	put_question(&q, "allowed.example", DNS_MSG_A);
	put_bytes(&q, "\0\0\x29\x10\0\0\0\x80\0\0\0", 11);
	a = ask_raw(&q);
	CHECK(a.rcode == 0 && a.an == 1 && a.ar == 1);
	CHECK(memcmp(a.t.b + a.t.n - 11, "\0\0\x29\x04\xd0\0\0\0\0\0\0", 11) == 0);
	q.b[q.n - 5] = 1; /* EDNS version */
	a = ask_raw(&q);
	CHECK(a.an == 0 && a.rcode == 0 && a.t.b[a.t.n - 6] == 1); /* BADVERS is 16 */
	put_head(&q, 5, 0x0100, 2, 0, 0, 0);
	put_question(&q, "allowed.example", DNS_MSG_A);
	put_question(&q, "allowed.example", DNS_MSG_AAAA);
	CHECK(ask_raw(&q).rcode == DNS_MSG_FORMERR);
	put_head(&q, 5, 0x2800, 1, 0, 0, 0); /* UPDATE */
	put_question(&q, "allowed.example", DNS_MSG_SOA);
	CHECK(ask_raw(&q).rcode == DNS_MSG_NOTIMP);
	put_head(&q, 5, 0x8180, 1, 0, 0, 0);
	put_question(&q, "allowed.example", DNS_MSG_A);
	CHECK(ask_raw(&q).rcode == -1);
	q.n = 11;
	CHECK(ask_raw(&q).rcode == -1);
	put_head(&q, 5, 0x0100, 1, 0, 0, 0);
	put_labels(&q, "allowed.example");
	put_u16(&q, DNS_MSG_TXT);
	put_u16(&q, 3); /* CHAOS */
	CHECK(ask_raw(&q).rcode == DNS_MSG_REFUSED);
}

static void records_once(void)
{
	begin();
	for (int i = 0; i < 10; i++)
		(void)ask(i % 2 ? "Denied.example" : "denied.example", DNS_MSG_A);
	CHECK(nrecords == 1);
	(void)ask("denied.example", DNS_MSG_AAAA);
	CHECK(nrecords == 2);
	skew_ns += 1001 * CLOCK_MS;
	(void)ask("denied.example", DNS_MSG_A);
	CHECK(nrecords == 3);
}

static void paced(void)
{
	unsigned answered = 0, was;
	char name[64];

	begin();
	for (unsigned i = 0; i < 5000; i++) {
		(void)snprintf(name, sizeof(name), "n%u.wild.example", i);
		answered += ask(name, DNS_MSG_A).rcode >= 0;
	}
	CHECK(answered >= 1000 && answered <= 1001);
	CHECK(nrecords == answered + 1); /* and one of the flood */
	CHECK_STR(last_reason, "too many queries");
	was = answered;
	skew_ns += 1000 * CLOCK_MS;
	for (unsigned i = 0; i < 5000; i++)
		answered += ask("allowed.example", DNS_MSG_A).rcode >= 0;
	CHECK(answered - was >= 199 && answered - was <= 201);
}

/* A query with an OPT record that fills it up to so many bytes. */
static void write_padded(uint8_t *ret, size_t size)
{
	struct text q;

	put_head(&q, 7, 0x0100, 1, 0, 0, 1);
	put_question(&q, "allowed.example", DNS_MSG_A);
	put_bytes(&q, "\0\0\x29\x10\0\0\0\0\0", 9); /* OPT, 4096 bytes */
	put_u16(&q, (unsigned)(size - q.n - 2));
	put_u16(&q, 12); /* padding */
	put_u16(&q, (unsigned)(size - q.n - 2));
	memset(ret, 0, size);
	memcpy(ret, q.b, q.n);
}

/* A socket as PID 1 leaves it. Returns a client, which receives from no other address. */
static int open_udp(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t n = sizeof(any);
	int client;

	session.udp = socket(AF_INET6, SOCK_DGRAM, 0); /* blocking: PID 1 may have made it so */
	CHECK(session.udp >= 0);
	CHECK(setsockopt(session.udp, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int)) == 0);
	CHECK(setsockopt(session.udp, IPPROTO_IPV6, IPV6_RECVPKTINFO, &(int){ 1 }, sizeof(int)) ==
	      0);
	CHECK(setsockopt(session.udp, IPPROTO_IP, IP_PKTINFO, &(int){ 1 }, sizeof(int)) == 0);
	CHECK(bind(session.udp, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(getsockname(session.udp, (struct sockaddr *)&any, &n) == 0);
	client = socket(AF_INET, SOCK_DGRAM, 0);
	to.sin_port = any.sin6_port;
	CHECK(inet_pton(AF_INET, "127.1.2.3", &to.sin_addr) == 1);
	CHECK(connect(client, (struct sockaddr *)&to, sizeof(to)) == 0);
	return client;
}

/* The answer comes from the address that was asked. */
static void over_udp(void)
{
	struct egress egress = { .loop = NULL };
	uint8_t out[DNS_TEXT_MAX];
	struct text q;
	int client;

	begin();
	session.egress = &egress;
	client = open_udp();
	put_head(&q, 0x4242, 0x0100, 1, 0, 0, 0);
	put_question(&q, "allowed.example", DNS_MSG_A);
	CHECK(send(client, q.b, q.n, 0) == (ssize_t)q.n);
	dns_udp_serve(&session);
	CHECK(recv(client, out, sizeof(out), MSG_DONTWAIT) == (ssize_t)q.n + 16);
	CHECK(out[0] == 0x42 && out[7] == 1);
	dns_udp_serve(&session); /* nothing waits: does not block */
	CHECK(session.dns->idle_wakes == 1);
}

/* ---- with a loop */

static struct egress egress;
static unsigned wakes;

static void stop(struct loop_timer *t)
{
	loop_stop(egress.loop);
}

static void run_for(uint64_t ms)
{
	struct loop_timer end = { .on_expire = stop };
	struct err e;

	loop_timer_set(egress.loop, &end, clock_now_ns() + ms * CLOCK_MS);
	CHECK(loop_run(egress.loop, &e) == 0);
}

static void begin_loop(void)
{
	struct err e;

	begin();
	real_clock = true;
	egress.loop = loop_new(&e);
	CHECK(egress.loop);
	session.egress = &egress;
	session.udp = -1;
	session.udp_watch.fd = -1;
}

static void end_loop(void)
{
	dns_tcp_cut_all(&session);
	dns_state_free(&session);
	CHECK(!session.dns);
	synthetic_names_free(session.names);
	loop_free(egress.loop);
}

static void put_query(struct text *t, unsigned id)
{
	struct text q;

	put_head(&q, id, 0x0100, 1, 0, 0, 0);
	put_question(&q, "allowed.example", DNS_MSG_A);
	put_u16(t, (unsigned)q.n);
	put_bytes(t, q.b, q.n);
}

static void over_tcp(void)
{
	struct text t = { .n = 0 };
	uint8_t got[512];
	size_t one;
	int s[2];

	begin_loop();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
	dns_tcp_serve(&session, s[1]);
	put_query(&t, 1);
	one = t.n;
	put_query(&t, 2);
	CHECK(write(s[0], t.b, 1) == 1); /* in pieces */
	run_for(20);
	CHECK(write(s[0], t.b + 1, one + 5) == (ssize_t)one + 5);
	run_for(20);
	CHECK(read(s[0], got, sizeof(got)) == (ssize_t)one + 16);
	CHECK(got[1] == one - 2 + 16 && got[3] == 1 && got[9] == 1);
	CHECK(write(s[0], t.b + one + 6, t.n - one - 6) == (ssize_t)(t.n - one - 6));
	run_for(20);
	CHECK(read(s[0], got, sizeof(got)) == (ssize_t)one + 16 && got[3] == 2);
	CHECK(session.dns->nconns == 1);
	CHECK(write(s[0], "\377\377", 2) == 2); /* longer than any query */
	run_for(20);
	CHECK(session.dns->nconns == 0 && read(s[0], got, sizeof(got)) == 0);
	(void)close(s[0]);
	end_loop();
}

static void tcp_is_bounded(void)
{
	char byte;
	int s[20][2];

	begin_loop();
	for (int i = 0; i < 20; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s[i]) == 0);
		dns_tcp_serve(&session, s[i][1]);
	}
	CHECK(session.dns->nconns == 16);
	CHECK(read(s[15][0], &byte, 1) == -1 && read(s[16][0], &byte, 1) == 0);
	(void)close(s[3][0]);
	run_for(20);
	CHECK(session.dns->nconns == 15);
	end_loop();
	CHECK(read(s[0][0], &byte, 1) == 0); /* cut */
	for (int i = 0; i < 20; i++)
		(void)(i == 3 || close(s[i][0]));
}

static ssize_t ask_over_tcp(int sock, const void *bytes, size_t n)
{
	uint8_t got[512];

	CHECK(write(sock, bytes, n) == (ssize_t)n);
	run_for(20);
	return recv(sock, got, sizeof(got), MSG_DONTWAIT);
}

/* Cut, with or without bytes that were not read. */
static bool is_cut(ssize_t n)
{
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void udp_queries_are_bounded(void)
{
	uint8_t out[DNS_TEXT_MAX];
	int client;

	begin_loop();
	client = open_udp();
	for (size_t more = 0; more < 2; more++) {
		static uint8_t query[4097];

		write_padded(query, 4096 + more);
		CHECK(send(client, query, 4096 + more, 0) == (ssize_t)(4096 + more));
		dns_udp_serve(&session);
		CHECK((recv(client, out, sizeof(out), MSG_DONTWAIT) > 0) == (more == 0));
	}
	(void)close(client);
	(void)close(session.udp);
	session.udp = -1;
	end_loop();
}

static void tcp_queries_are_bounded(void)
{
	int s[2];

	begin_loop();
	for (size_t more = 0; more < 2; more++) {
		uint8_t query[2 + 1025] = { 4, (uint8_t)more };
		ssize_t n;

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
		dns_tcp_serve(&session, s[1]);
		write_padded(query + 2, 1024 + more);
		n = ask_over_tcp(s[0], query, 2 + 1024 + more);
		CHECK(more == 0 ? n > 0 : is_cut(n));
		(void)close(s[0]);
		run_for(5);
	}
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s) == 0);
	dns_tcp_serve(&session, s[1]);
	for (unsigned i = 0; i <= 100; i++) { /* 100 queries of a connection */
		struct text t = { .n = 0 };
		ssize_t n;

		put_query(&t, i);
		n = ask_over_tcp(s[0], t.b, t.n);
		CHECK(i < 100 ? n > 0 : is_cut(n));
	}
	(void)close(s[0]);
	end_loop();
}

static void on_udp(struct loop_fd *f, uint32_t events)
{
	wakes++;
	dns_udp_serve(&session);
}

/* PID 1 shuts the socket down: epoll reports "readable" for ever, and there is nothing to read. */
static void socket_that_cries_wolf(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct err e;

	begin_loop();
	session.udp = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK(session.udp >= 0 && bind(session.udp, (struct sockaddr *)&any, sizeof(any)) == 0);
	session.udp_watch = (struct loop_fd){ .fd = -1, .on_ready = on_udp };
	CHECK(loop_add(egress.loop, &session.udp_watch, session.udp, EPOLLIN, &e) == 0);
	(void)shutdown(session.udp, SHUT_RDWR);
	run_for(300);
	CHECK(wakes == 16 && session.udp_watch.fd < 0);
	run_for(1000);
	CHECK(wakes == 32); /* it was given another chance */
	dns_tcp_cut_all(&session);
	dns_state_free(&session);
	run_for(1200);
	CHECK(wakes == 32); /* and no more: the session is gone */
	(void)close(session.udp);
	end_loop();
}

/* A flood to 40 destinations: 32 have a record each, the others one, and no datagram is left out.
 */
static void datagrams_are_counted(void)
{
	struct ip to = { { [10] = 0xFF, [11] = 0xFF, [12] = 192, [14] = 2 } };
	uint64_t all = 0;

	begin_loop();
	for (unsigned i = 0; i < 400; i++) {
		to.b[15] = (uint8_t)(i % 40);
		datagrams_note(&session, &to, 443, 10);
	}
	CHECK(ndatagrams == 0);
	run_for(1200);
	CHECK(ndatagrams == 33);
	for (unsigned i = 0; i < 32; i++) {
		const struct datagram_record *r = &datagrams_sent[i];

		CHECK(r->has_ip && r->ip.b[15] == i && r->port == 443);
		CHECK(r->datagrams == 10 && r->bytes == 100 && r->start_ns <= r->end_ns);
		all += r->datagrams;
	}
	CHECK(!datagrams_sent[32].has_ip && datagrams_sent[32].port == 0);
	CHECK(all + datagrams_sent[32].datagrams == 400 && datagrams_sent[32].bytes == 800);
	/* The table is empty again; the end of the session records the rest at once. */
	datagrams_note(&session, &to, 9999, 1);
	datagrams_release(&session);
	CHECK(ndatagrams == 34 && datagrams_sent[33].port == 9999 && !session.datagrams);
	datagrams_release(&session);
	end_loop();
}

/* Nothing is answered, and the address is the one that was sent to. */
static void datagrams_that_are_no_queries(void)
{
	static const char big[5000] = "x";
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t n = sizeof(any);
	uint8_t out[16];
	int client = socket(AF_INET, SOCK_DGRAM, 0);

	begin_loop();
	session.udp = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	CHECK(setsockopt(session.udp, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int)) == 0);
	CHECK(setsockopt(session.udp, IPPROTO_IPV6, IPV6_RECVPKTINFO, &(int){ 1 }, sizeof(int)) ==
	      0);
	CHECK(bind(session.udp, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(getsockname(session.udp, (struct sockaddr *)&any, &n) == 0);
	to.sin_port = any.sin6_port;
	CHECK(inet_pton(AF_INET, "127.1.2.3", &to.sin_addr) == 1);
	CHECK(connect(client, (struct sockaddr *)&to, sizeof(to)) == 0);
	CHECK(send(client, "hello", 5, 0) == 5 && send(client, "", 0, 0) == 0);
	CHECK(send(client, big, sizeof(big), 0) == (ssize_t)sizeof(big));
	dns_udp_serve(&session);
	CHECK(recv(client, out, sizeof(out), MSG_DONTWAIT) < 0 && errno == EAGAIN);
	CHECK(setsockopt(session.udp, IPPROTO_IPV6, IPV6_RECVPKTINFO, &(int){ 0 }, sizeof(int)) ==
	      0);
	CHECK(send(client, "x", 1, 0) == 1);
	dns_udp_serve(&session);
	datagrams_release(&session);
	CHECK(ndatagrams == 2 && nrecords == 0);
	CHECK(memcmp(datagrams_sent[0].ip.b + 12, &to.sin_addr, 4) == 0);
	CHECK(datagrams_sent[0].port == 53 && datagrams_sent[0].datagrams == 3);
	CHECK(datagrams_sent[0].bytes == 5 + sizeof(big));
	CHECK(datagrams_sent[1].datagrams == 1); /* PID 1 hid the address: counted all the same */
	(void)close(client);
	(void)close(session.udp);
	end_loop();
}

/* The connection to a refused name tells why; the record is that of a refusal all the same. */
static void refused_names_are_answered(void)
{
	static const char *const none[] = { "db", "*.wild.example", "1.2.3.4" };
	struct answer a;

	begin();
	answers_refused = true;
	a = ask("refused.example", DNS_MSG_A);
	CHECK(a.rcode == DNS_MSG_OK && a.an == 1);
	CHECK(nrecords == 1 && !last.allowed && strcmp(last_name, "refused.example") == 0);
	CHECK(strcmp(last_reason, "not on the list") == 0);
	CHECK(ask("refused.example", DNS_MSG_AAAA).an == 1);
	CHECK(ask("refused.example", DNS_MSG_HTTPS).rcode == DNS_MSG_OK);
	CHECK(ask("refused.example", DNS_MSG_TXT).rcode == DNS_MSG_NXDOMAIN);
	for (size_t i = 0; i < COUNT(none); i++)
		CHECK(ask(none[i], DNS_MSG_A).rcode == DNS_MSG_NXDOMAIN);
	answers_refused = false;
	CHECK(ask("refused.example", DNS_MSG_A).rcode == DNS_MSG_NXDOMAIN);
}

TEST_MAIN({ "tcp queries are bounded", tcp_queries_are_bounded },
	  { "udp queries are bounded", udp_queries_are_bounded },
	  { "refused names are answered", refused_names_are_answered },
	  { "allowed names", allowed }, { "others do not exist", others_do_not_exist },
	  { "a dot inside a label", dot_in_a_label }, { "types", types },
	  { "localhost", localhost }, { "addresses back to names", reverse },
	  { "odd messages", odd_messages }, { "records of repeated questions", records_once },
	  { "too many queries", paced }, { "over UDP", over_udp }, { "over TCP", over_tcp },
	  { "connections are bounded", tcp_is_bounded },
	  { "a socket that cries wolf", socket_that_cries_wolf },
	  { "datagrams are counted", datagrams_are_counted },
	  { "datagrams that are no queries", datagrams_that_are_no_queries })
