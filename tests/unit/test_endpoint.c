/* Goal: where a program wants to go is read in one way only, and written so that it is read back as
 * the same. */
#include "egress/flow/endpoint.h"

#include <string.h>

#include "egress/dns/synthetic_names.h"
#include "support.h"

static struct synthetic_names *names;

static int aim(const char *text, uint16_t port, struct endpoint *ret)
{
	const char *why = NULL;
	int got;

	if (names == NULL)
		names = synthetic_names_new();
	CHECK(names != NULL);
	got = endpoint_read(names, (struct http1_span){ text, strlen(text) }, port, ret, &why);

	CHECK(got == 0 || why != NULL);
	return got;
}

static void reads_hosts(void)
{
	static const struct {
		const char *text, *name, *host;
		uint16_t given, port;
	} cases[] = {
		{ "Example.COM", "example.com", "example.com", 80, 80 },
		{ "example.com.:8080", "example.com", "example.com:8080", 80, 8080 },
		{ "192.0.2.1", "192.0.2.1", "192.0.2.1", 80, 80 },
		{ "192.0.2.1:81", "192.0.2.1", "192.0.2.1:81", 0, 81 },
		{ "[2001:db8::1]", "2001:db8::1", "[2001:db8::1]", 80, 80 },
		{ "[2001:db8::1]:8443", "2001:db8::1", "[2001:db8::1]:8443", 0, 8443 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char name[HOST_MAX], host[ENDPOINT_HOST_MAX];
		struct endpoint a, again;

		CHECK_CASE(cases[i].text, aim(cases[i].text, cases[i].given, &a) == 0);
		endpoint_name(&a, name);
		endpoint_host(&a, false, host);
		CHECK_CASE(cases[i].text, strcmp(name, cases[i].name) == 0);
		CHECK_CASE(cases[i].text, strcmp(host, cases[i].host) == 0);
		CHECK_CASE(cases[i].text, a.port == cases[i].port);
		CHECK_CASE(cases[i].text, aim(host, 80, &again) == 0 && endpoint_same(&a, &again));
	}
}

static void refuses_others(void)
{
	static const char *const cases[] = {
		"",
		":80",
		"example.com:",
		"example.com:0",
		"example.com:65536",
		"example.com:8x",
		"example.com:+80",
		"example.com:080000",
		"user@example.com",
		"[192.0.2.1]",
		"[::1",
		"::1",
		"0177.0.0.1",
		"2130706433",
		"0x7f.0.0.1",
		"127.1",
		"[fe80::1%25lo]:80",
		"exa mple.com",
		"ex\xc3\xa4.com",
		"a..b",
	};
	struct endpoint a;

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i], aim(cases[i], 80, &a) == -1);
	CHECK(aim("example.com", 0, &a) == -1); /* CONNECT names a port */
}

static void knows_our_own_addresses(void)
{
	struct policy_target to;
	struct ip v4, v6;
	char text[IP_TEXT_MAX];
	struct endpoint a;

	CHECK(aim("192.0.2.1", 80, &a) == 0);
	CHECK(synthetic_names_give(names, "example.com", &v4, &v6) == 0);
	ip_format(&v4, text);
	CHECK(aim(text, 80, &a) == 0 && strcmp(a.host, "example.com") == 0 && !a.no_name);
	endpoint_at(names, &v6, 443, &a);
	to = endpoint_target(&a);
	CHECK(strcmp(to.host, "example.com") == 0 && to.port == 443);
	CHECK(aim("198.19.255.254", 80, &a) == 0 && a.no_name);
	CHECK(aim(SYNTHETIC_NAMES_LISTENER_V4, 80, &a) == 0 && a.no_name);
	CHECK(aim("192.0.2.1", 80, &a) == 0 && endpoint_target(&a).host == NULL);
}

TEST_MAIN({ "reads_hosts", reads_hosts }, { "refuses_others", refuses_others },
	  { "knows_our_own_addresses", knows_our_own_addresses })
