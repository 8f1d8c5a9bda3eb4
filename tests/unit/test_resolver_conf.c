/* resolv.conf and hosts as they are found on machines. */
#include "test.h"

#include "lib/outbound/resolver_conf.h"

static const char *text_of(const struct ip *ip)
{
	static char text[IP_TEXT_MAX];

	ip_format(ip, text);
	return text;
}

static void usual(void)
{
	struct resolver_conf c;

	resolver_conf_read("# made by something\n; and a comment\nsearch corp.example\n"
			   "nameserver 192.0.2.53\nnameserver\t2001:db8::53  # second\n"
			   "options ndots:5 timeout:3 attempts:1 edns0 rotate\n",
			   &c);
	CHECK(c.nservers == 2 && c.timeout_ms == 3000 && c.attempts == 1 && c.rotate && !c.use_vc);
	CHECK_STR(text_of(&c.servers[0]), "192.0.2.53");
	CHECK_STR(text_of(&c.servers[1]), "2001:db8::53");
}

static void defaults(void)
{
	struct resolver_conf c;

	resolver_conf_read("", &c);
	CHECK(c.nservers == 1 && c.timeout_ms == 2000 && c.attempts == 2 && !c.rotate && !c.use_vc);
	CHECK_STR(text_of(&c.servers[0]), "127.0.0.1");
}

static void unknown_lines_are_skipped(void)
{
	struct resolver_conf c;

	resolver_conf_read(
		"nameserver\nnameserver 010.0.0.1\nnameserver 192.0.2.1:53\n"
		"nameserver fe80::1%eth0\nnameservers 192.0.2.2\nNAMESERVER 192.0.2.3\n"
		"options timeout:0 attempts:x timeout: attempts:99 use-vc timeout:9999999\n"
		"nameserver 192.0.2.4",
		&c);
	CHECK(c.nservers == 1 && c.timeout_ms == 2000 && c.attempts == 3 && c.use_vc);
	CHECK_STR(text_of(&c.servers[0]), "192.0.2.4");
}

static void three_at_most(void)
{
	struct resolver_conf c;

	resolver_conf_read("nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
			   "nameserver 192.0.2.4\noptions timeout:60\n",
			   &c);
	CHECK(c.nservers == 3 && c.timeout_ms == 5000);
	CHECK_STR(text_of(&c.servers[2]), "192.0.2.3");
}

static void hosts(void)
{
	struct resolver_hosts *h =
		resolver_conf_hosts("127.0.0.1 localhost\n::1 localhost ip6-localhost\n\n"
				    "10.1.2.3\tDB.Internal.Example. db # the database\n"
				    "0x7f.1 hex.example\n300.1.1.1 bad.example\n192.0.2.9 1.2.3.4 "
				    "b\xc3\xa9.example ok.example\n"
				    "192.0.2.10#x comment.example\n192.0.2.11");
	struct ip ips[4];

	CHECK(h);
	CHECK(resolver_conf_hosts_find(h, "localhost", ips, 4) == 2);
	CHECK_STR(text_of(&ips[1]), "::1");
	CHECK(resolver_conf_hosts_find(h, "localhost", ips, 1) == 1);
	CHECK(resolver_conf_hosts_find(h, "db.internal.example", ips, 4) == 1);
	CHECK_STR(text_of(&ips[0]), "10.1.2.3");
	CHECK(resolver_conf_hosts_find(h, "db", ips, 4) == 1);
	CHECK(resolver_conf_hosts_find(h, "ok.example", ips, 4) == 1);
	CHECK(resolver_conf_hosts_find(h, "hex.example", ips, 4) == 0);
	CHECK(resolver_conf_hosts_find(h, "bad.example", ips, 4) == 0);
	CHECK(resolver_conf_hosts_find(h, "comment.example", ips, 4) == 0);
	CHECK(resolver_conf_hosts_find(h, "the", ips, 4) == 0);
	resolver_conf_hosts_free(h);
}

static void many_hosts(void)
{
	size_t lines = RESOLVER_HOSTS_MAX + 10, cap = lines * 40, n = 0;
	char *text = malloc(cap);
	struct resolver_hosts *h;
	struct ip ip;

	CHECK(text);
	for (size_t i = 0; i < lines; i++)
		n += (size_t)snprintf(text + n, cap - n, "192.0.2.1 h%zu.example\n", i);
	h = resolver_conf_hosts(text);
	CHECK(h && resolver_conf_hosts_find(h, "h8191.example", &ip, 1) == 1);
	CHECK(resolver_conf_hosts_find(h, "h8192.example", &ip, 1) == 0);
	resolver_conf_hosts_free(h);
	free(text);
}

TEST_MAIN({ "the usual file", usual }, { "nothing said", defaults },
	  { "what is not understood is skipped", unknown_lines_are_skipped },
	  { "three servers at most", three_at_most }, { "hosts", hosts },
	  { "hosts are bounded", many_hosts })
