/* Goal: what is denied by its address is denied under any name, unless the name was allowed before.
 */
#include "lib/policy/policy.h"

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

static bool may_below(const char *node, const char *session, const char *host, const char *address)
{
	const char *const layers[POLICY_LAYERS] = {
		[POLICY_NODE] = node, [POLICY_SESSION] = session
	};
	const struct policy_target to = { .host = host, .port = 443 };
	const struct policy_rule *rule = NULL;
	struct policy *p = NULL;
	char *text = NULL;
	struct ip ip;
	struct err e;
	bool result;

	CHECK(policy_merge(layers, &text, &e) == 0);
	CHECK(policy_read(text, strlen(text), POLICY_LAYERS, &p, &e) == 0);
	CHECK(ip_read(address, strlen(address), &ip) == 0);
	result = policy_resolved(p, &to, &ip, &rule);
	CHECK(result || (rule != NULL && rule->layer == POLICY_NODE));
	policy_free(p);
	free(text);
	return result;
}

#define NODE(more) "{\"version\":1,\"ceiling\":[" DENY ",\"*.example\"]" more "}"
#define SESSION(rules) "{\"version\":1,\"rules\":[" rules "]}"

static void ceilings(void)
{
	CHECK(!may_below(NODE(""), SESSION(HOST), "a.example", "9.1.2.3"));
	CHECK(may_below(NODE(""), SESSION(HOST), "a.example", "8.1.2.3"));
	CHECK(!may_below(NODE(""), SESSION(LOOKS), "a.example", "9.1.2.3"));
	CHECK(!may_below(NODE(""), "{\"version\":1,\"default\":\"allow\"}", "a.example",
			 "9.1.2.3"));
	/* its own rules a ceiling does not bind */
	CHECK(may_below(NODE(",\"rules\":[" HOST "]"), SESSION(HOST), "a.example", "9.1.2.3"));
}

/* A rule that allows all of IPv6 does not mean IPv4; a rule that denies it may. */
static void wide_blocks(void)
{
	CHECK(!may("{\"cidr\":\"::/0\"}," DENY, "a.example", 443, "9.1.2.3"));
	CHECK(may("{\"cidr\":\"::/0\"}," DENY6, "a.example", 443, "2001:db8::1"));
	CHECK(may("{\"cidr\":\"0.0.0.0/0\"}," DENY, "a.example", 443, "9.1.2.3"));
	CHECK(!may("{\"cidr\":\"::/0\",\"action\":\"deny\"}", "a.example", 443, "9.1.2.3"));
}

TEST_MAIN({ "a denied block is denied by name", blocks }, { "rules count in order", order },
	  { "a gateway is no way around", behind_a_gateway },
	  { "an address without a name", without_a_name }, { "ceilings count, too", ceilings },
	  { "IPv6 is not IPv4", wide_blocks })
