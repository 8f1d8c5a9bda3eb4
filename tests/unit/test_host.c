/* Goal: every name has one spelling, and nothing that a resolver could read as an address, or as
 * two names, has any. */
#include "test.h"

#include "lib/policy/host.h"

static const char *normal(const char *text)
{
	static char ret[HOST_MAX];

	return host_normal(text, strlen(text), ret) < 0 ? "-" : ret;
}

static void has_one_spelling(void)
{
	CHECK_STR(normal("Example.COM"), "example.com");
	CHECK_STR(normal("example.com."), "example.com");
	CHECK_STR(normal("_dmarc.x-y.org"), "_dmarc.x-y.org");
	CHECK_STR(normal("xn--bcher-kva.example"), "xn--bcher-kva.example");
	CHECK_STR(normal("localhost"), "localhost");
	CHECK_STR(normal("1.2.3.4.example"), "1.2.3.4.example");
	CHECK_STR(normal("0xg"), "0xg");
}

static void refuses_addresses(void)
{
	static const char *const bad[] = { "127.0.0.1",
					   "2852039166",
					   "0xA9FEA9FE",
					   "0xa9.254.169.254",
					   "0251.0376.0251.0376",
					   "127.1",
					   "0",
					   "0x",
					   "1.2.3.4.",
					   "a.0x1",
					   "a.b.017",
					   "::1",
					   "[::1]",
					   "fe80::1%eth0",
					   "::ffff:169.254.169.254" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_STR(normal(bad[i]), "-");
}

static void refuses_what_is_no_name(void)
{
	static const char *const bad[] = { "",
					   ".",
					   "..",
					   ".example.com",
					   "a..b",
					   "example.com..",
					   "a b",
					   "allowed.com@evil",
					   "a%2eb",
					   "a\r\nb",
					   "b\xc3\xbc.de",
					   "a/b",
					   "a:80",
					   "*",
					   "a*b.c",
					   "a\\b",
					   "a\343\200\202b", /* U+3002 */
					   "a,b" };
	char label[80], longest[300];
	static const char nul[] = "allowed.com\0.evil.com";
	char ret[HOST_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_STR(normal(bad[i]), "-");
	CHECK(host_normal(nul, sizeof(nul) - 1, ret) < 0);
	memset(label, 'a', sizeof(label));
	CHECK(host_normal(label, 63, ret) == 0);
	CHECK(host_normal(label, 64, ret) < 0);
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = i % 50 == 49 ? '.' : 'a';
	CHECK(host_normal(longest, 253, ret) == 0 && strlen(ret) == 253);
	CHECK(host_normal(longest, 254, ret) < 0);
}

static bool fits(const char *pattern, const char *host)
{
	struct host_pattern p;

	CHECK(host_pattern_read(pattern, &p) == 0);
	return host_pattern_fits(&p, host, strlen(host));
}

static void patterns_fit_whole_labels(void)
{
	CHECK(fits("Example.com", "example.com"));
	CHECK(!fits("example.com", "www.example.com"));
	CHECK(!fits("example.com", "example.com.evil.com"));
	CHECK(fits("*.example.com", "www.example.com"));
	CHECK(fits("*.example.com", "a.b.example.com"));
	CHECK(!fits("*.example.com", "example.com"));
	CHECK(!fits("*.example.com", "evilexample.com"));
	CHECK(!fits("*.example.com", "x.example.com.evil.com"));
	CHECK(fits("*", "anything"));
}

static void patterns_are_checked(void)
{
	struct host_pattern p;

	CHECK(host_pattern_read("*.", &p) < 0);
	CHECK(host_pattern_read("**.a.com", &p) < 0);
	CHECK(host_pattern_read("a.*.com", &p) < 0);
	CHECK(host_pattern_read("*.1.2.3.4", &p) < 0);
	CHECK(host_pattern_read("", &p) < 0);
}

static void knows_this_machine(void)
{
	CHECK(host_is_localhost("localhost") && host_is_localhost("a.localhost"));
	CHECK(!host_is_localhost("alocalhost") && !host_is_localhost("localhost.a"));
	CHECK(!host_is_localhost(".localhost") && !host_is_localhost("a"));
}

TEST_MAIN({ "has one spelling", has_one_spelling }, { "refuses addresses", refuses_addresses },
	  { "refuses what is no name", refuses_what_is_no_name },
	  { "patterns fit whole labels", patterns_fit_whole_labels },
	  { "patterns are checked", patterns_are_checked },
	  { "knows this machine", knows_this_machine })
