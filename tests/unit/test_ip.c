#include "test.h"

#include <string.h>

#include "lib/base/ip.h"

static bool reads(const char *text)
{
	struct ip ip;

	return ip_read(text, strlen(text), &ip) == 0;
}

static enum ip_kind kind(const char *text)
{
	struct ip ip = { 0 };

	CHECK(ip_read(text, strlen(text), &ip) == 0);
	return ip_kind(&ip);
}

static void one_spelling_of_an_address(void)
{
	static const char *const bad[] = { "2852039166",   "0xA9FEA9FE", "0251.0376.0251.0376",
					   "127.1",	   "127.0.0.01", "1.2.3",
					   "1.2.3.4.5",	   "1.2.3.256",	 "1.2.3.4 ",
					   " 1.2.3.4",	   "",		 "::1%lo",
					   "fe80::1%1",	   "[::1]",	 "1.2.3.4/8",
					   ":::",	   "1::2::3",	 "12345::",
					   "localhost",	   "01.2.3.4",	 "1.2.3.0x4",
					   "::ffff:1.2.3", "1.2.3.4\n" };

	for (size_t i = 0; i < COUNT(bad); i++) {
		if (reads(bad[i]))
			printf("# case: %s\n", bad[i]);
		CHECK(!reads(bad[i]));
	}
	CHECK(reads("0.0.0.0") && reads("1.2.3.4") && reads("::") && reads("::ffff:1.2.3.4"));
}

static void every_kind(void)
{
	static const struct {
		const char *text;
		enum ip_kind kind;
	} rows[] = {
		{ "8.8.8.8", IP_PUBLIC },
		{ "1.1.1.1", IP_PUBLIC },
		{ "2606:4700::1111", IP_PUBLIC },
		{ "172.15.255.255", IP_PUBLIC },
		{ "172.32.0.0", IP_PUBLIC },
		{ "100.63.0.1", IP_PUBLIC },
		{ "100.128.0.1", IP_PUBLIC },
		{ "169.253.1.1", IP_PUBLIC },
		{ "11.0.0.1", IP_PUBLIC },
		{ "0.0.0.0", IP_UNSPECIFIED },
		{ "0.1.2.3", IP_UNSPECIFIED },
		{ "::", IP_UNSPECIFIED },
		{ "127.0.0.1", IP_LOOPBACK },
		{ "127.255.255.254", IP_LOOPBACK },
		{ "::1", IP_LOOPBACK },
		{ "::ffff:127.0.0.1", IP_LOOPBACK },
		{ "10.0.0.1", IP_PRIVATE },
		{ "172.16.0.1", IP_PRIVATE },
		{ "172.31.255.255", IP_PRIVATE },
		{ "192.168.1.1", IP_PRIVATE },
		{ "fc00::1", IP_PRIVATE },
		{ "fdff::1", IP_PRIVATE },
		{ "fec0::1", IP_PRIVATE },
		{ "169.254.1.1", IP_LINK_LOCAL },
		{ "fe80::1", IP_LINK_LOCAL },
		{ "febf::1", IP_LINK_LOCAL },
		{ "169.254.169.254", IP_METADATA },
		{ "::ffff:169.254.169.254", IP_METADATA },
		{ "::ffff:a9fe:a9fe", IP_METADATA },
		{ "100.100.100.200", IP_METADATA },
		{ "fd00:ec2::254", IP_METADATA },
		{ "168.63.129.16", IP_METADATA },
		{ "100.64.0.1", IP_CGNAT },
		{ "224.0.0.1", IP_MULTICAST },
		{ "ff02::1", IP_MULTICAST },
		{ "255.255.255.255", IP_MULTICAST },
		{ "198.18.0.1", IP_RESERVED },
		{ "203.0.113.1", IP_RESERVED },
		{ "240.0.0.1", IP_RESERVED },
		{ "2001:db8::1", IP_RESERVED },
		{ "2001::1", IP_RESERVED },
		/* IPv4 inside IPv6 */
		{ "64:ff9b::8.8.8.8", IP_PUBLIC },
		{ "64:ff9b::10.0.0.1", IP_PRIVATE },
		{ "64:ff9b::a9fe:a9fe", IP_METADATA },
		{ "2002:0a00:0001::1", IP_PRIVATE },
		{ "2002:0808:0808::1", IP_RESERVED },
		{ "::8.8.8.8", IP_RESERVED },
		{ "::127.0.0.1", IP_LOOPBACK },
		{ "::169.254.169.254", IP_METADATA },
		{ "64:ff9b:1::10.0.0.1", IP_PRIVATE },
		{ "64:ff9b:1::8.8.8.8", IP_RESERVED },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (kind(rows[i].text) != rows[i].kind)
			printf("# case: %s is %s\n", rows[i].text,
			       ip_kind_name(kind(rows[i].text)));
		CHECK(kind(rows[i].text) == rows[i].kind);
	}
}

static bool holds(const char *net, const char *text)
{
	struct ip_net n = { 0 };
	struct ip ip = { 0 };

	CHECK(ip_net_read(net, strlen(net), &n) == 0);
	CHECK(ip_read(text, strlen(text), &ip) == 0);
	return ip_net_holds(&n, &ip);
}

static void blocks(void)
{
	static const char *const bad[] = {
		"10.0.0.1/8",  "10.0.0.0/33",  "10.0.0.0/", "10.0.0.0/08",
		"10.0.0.0/-1", "10.0.0.0/8/8", "/8",	    "::1/64",
		"::/129",      "10.0.0.0/8 ",  ""
	};
	struct ip_net n;

	CHECK(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.0"));
	CHECK(holds("0.0.0.0/0", "255.1.2.3") && !holds("0.0.0.0/0", "2001:db8::1"));
	CHECK(holds("::/0", "2001:db8::1") && holds("::/0", "1.2.3.4"));
	CHECK(holds("1.2.3.4", "1.2.3.4") && !holds("1.2.3.4", "1.2.3.5"));
	CHECK(holds("100.64.0.0/10", "100.127.255.255") && !holds("100.64.0.0/10", "100.128.0.0"));
	CHECK(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(ip_net_read(bad[i], strlen(bad[i]), &n) < 0);
}

static void to_the_kernel_and_back(void)
{
	static const char *const texts[] = { "1.2.3.4", "2001:db8::7", "::1" };

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct sockaddr_storage at;
		struct ip ip = { 0 }, again = { 0 };
		char text[IP_TEXT_MAX];
		uint16_t port = 0;

		CHECK(ip_read(texts[i], strlen(texts[i]), &ip) == 0);
		CHECK(ip_to_sockaddr(&ip, 443, &at) > 0);
		CHECK(at.ss_family == (ip_is_v4(&ip) ? AF_INET : AF_INET6));
		CHECK(ip_of_sockaddr((const struct sockaddr *)&at, &again, &port) == 0);
		CHECK(ip_same(&ip, &again) && port == 443);
		ip_format(&again, text);
		CHECK(strcmp(text, texts[i]) == 0);
	}
}

TEST_MAIN({ "one spelling of an address", one_spelling_of_an_address },
	  { "every kind", every_kind }, { "blocks", blocks },
	  { "to the kernel and back", to_the_kernel_and_back })
