/* Goal: what is denied by its address is denied under any name, unless the name was allowed before.
 */
#include "policy.h"

#include "support.h"

static bool may(const char *rules, const char *host, uint16_t port, const char *address)
{
	const struct policy_target to = { .host = host, .port = port };
	const struct policy_rule *rule = NULL;
	struct policy *p = NULL;
	char text[1024];
	struct ip ip;
	struct err e;
	bool result;

	(void)snprintf(text, sizeof(text), "{\"version\":1,\"default\":\"allow\",\"rules\":[%s]}",
		       rules);
	CHECK(policy_read(text, strlen(text), POLICY_SESSION, &p, &e) == 0);
	CHECK(ip_read(address, strlen(address), &ip) == 0);
	result = policy_resolved(p, &to, &ip, &rule);
	CHECK(result || rule != NULL);
	policy_free(p);
	return result;
}

#define DENY "{\"cidr\":\"9.0.0.0/8\",\"ports\":\"any\",\"action\":\"deny\"}"
#define DENY6 "{\"cidr\":\"2001:db8::/32\",\"ports\":[443],\"action\":\"deny\"}"
#define ALLOW "{\"cidr\":\"9.9.9.9\",\"ports\":\"any\",\"protocol\":\"tcp\"}"
#define HOST "{\"host\":\"*.example\",\"ports\":\"any\"}"
#define LOOKS "{\"host\":\"*.example\",\"ports\":\"any\",\"methods\":[\"GET\"]}"

static void blocks(void)
{
	CHECK(may("", "a.example", 443, "9.1.2.3"));
	CHECK(!may(DENY, "a.example", 443, "9.1.2.3"));
	CHECK(may(DENY, "a.example", 443, "10.1.2.3"));
	CHECK(!may(DENY6, "a.example", 443, "2001:db8::1"));
	CHECK(may(DENY6, "a.example", 80, "2001:db8::1")); /* another port */
}

static void order(void)
{
	CHECK(may(HOST "," DENY, "a.example", 443, "9.1.2.3"));
	CHECK(!may(HOST "," DENY, "a.test", 443, "9.1.2.3"));
	CHECK(!may(DENY "," HOST, "a.example", 443, "9.1.2.3"));
	CHECK(may(ALLOW "," DENY, "a.example", 443, "9.9.9.9"));
	CHECK(!may(ALLOW "," DENY, "a.example", 443, "9.9.9.8"));
	/* a rule that looks at requests may not be the one that allowed */
	CHECK(!may(LOOKS "," DENY, "a.example", 443, "9.1.2.3"));
}

/* A gateway of the network connects to the IPv4 address that is inside. */
static void behind_a_gateway(void)
{
	CHECK(!may(DENY, "a.example", 443, "64:ff9b::9.1.2.3"));
	CHECK(may(DENY, "a.example", 443, "64:ff9b::8.1.2.3"));
	CHECK(!may(ALLOW "," DENY, "a.example", 443, "64:ff9b::9.9.9.9"));
}

static void without_a_name(void)
{
	CHECK(!may(HOST "," DENY, NULL, 443, "9.1.2.3"));
	CHECK(may(ALLOW "," DENY, NULL, 443, "9.9.9.9"));
	CHECK(may("{\"ports\":\"any\"}," DENY, NULL, 443, "9.1.2.3"));
}

TEST_MAIN({ "a denied block is denied by name", blocks }, { "rules count in order", order },
	  { "a gateway is no way around", behind_a_gateway },
	  { "an address without a name", without_a_name })
