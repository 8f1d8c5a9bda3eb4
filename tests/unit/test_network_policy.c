/* Goal: what E2B's clients say of the network becomes the policy that E2B's own servers would
 * enforce: allowed wins over denied, a transform allows nothing, and nothing said is nothing said.
 */
#include "front/e2b/control/network_policy.h"

#include <jansson.h>

#include "lib/policy/policy.h"

#include "support.h"

static struct err e;
static char *text;

static const char *of(const char *network, bool open)
{
	struct policy *p = NULL;

	free(text);
	text = NULL;
	e = (struct err){ 0 };
	if (network_policy_write(network, open, &text, &e) < 0)
		return e.msg;
	if (text[0] != '\0') {
		if (policy_read(text, strlen(text), POLICY_SESSION, &p, &e) < 0)
			return e.msg;
		policy_free(p);
	}
	return text;
}

#define DOC(default, rules) "{\"version\":1,\"default\":\"" default "\",\"rules\":[" rules "]}"
#define CIDR(net) \
	"{\"cidr\":\"" net "\",\"ports\":\"any\",\"action\":\"allow\",\"protocol\":\"tcp\"}"
#define NO_CIDR(net) "{\"cidr\":\"" net "\",\"ports\":\"any\",\"action\":\"deny\"}"
#define HOST(name) "{\"host\":\"" name "\",\"ports\":\"any\",\"action\":\"allow\"}"

static void unsaid(void)
{
	CHECK_STR(of("", false), "");
	CHECK_STR(of("{\"httpsPorts\":[443],\"maskRequestHost\":\"x\"}", false), "");
	CHECK_STR(of("{\"allowOut\":[],\"denyOut\":[],\"rules\":{}}", true), "");
}

static void internet(void)
{
	CHECK_STR(of("{\"allowInternetAccess\":true}", false), DOC("allow", ""));
	CHECK_STR(of("{\"allowInternetAccess\":false}", true), DOC("deny", ""));
	CHECK_STR(of("{\"allowInternetAccess\":true,\"denyOut\":[\"0.0.0.0/0\"]}", true),
		  DOC("deny", ""));
}

static void entries(void)
{
	CHECK_STR(of("{\"allowOut\":[\"1.1.1.1\",\"a.example\",\"*.b.example\"],"
		     "\"denyOut\":[\"0.0.0.0/0\"]}",
		     true),
		  DOC("deny", CIDR("1.1.1.1") "," HOST("a.example") "," HOST("*.b.example")));
	/* only denied: the rest is as the node's default says; denying opens nothing */
	CHECK_STR(of("{\"denyOut\":[\"8.8.8.8\",\"9.0.0.0/8\"]}", true),
		  DOC("allow", NO_CIDR("8.8.8.8") "," NO_CIDR("9.0.0.0/8")));
	CHECK_STR(of("{\"denyOut\":[\"8.8.8.8\"]}", false), DOC("deny", NO_CIDR("8.8.8.8")));
	/* allowed comes first: it wins */
	CHECK_STR(of("{\"allowOut\":[\"9.9.9.9\"],\"denyOut\":[\"9.0.0.0/8\"]}", true),
		  DOC("allow", CIDR("9.9.9.9") "," NO_CIDR("9.0.0.0/8")));
	CHECK_STR(of("{\"allowOut\":[\"0.0.0.0/0\"],\"denyOut\":[\"0.0.0.0/0\"]}", false),
		  DOC("allow", ""));
	/* who speaks of IPv6, too, means each by itself */
	CHECK_STR(of("{\"allowOut\":[\"::/0\"],\"denyOut\":[\"0.0.0.0/0\"]}", true),
		  DOC("deny", CIDR("::/0") "," NO_CIDR("0.0.0.0/0")));
	CHECK_STR(of("{\"allowOut\":[\"0.0.0.0/0\"],\"denyOut\":[\"::/0\"]}", false),
		  DOC("allow", CIDR("0.0.0.0/0") "," NO_CIDR("::/0")));
	CHECK_STR(of("{\"denyOut\":[\"::/0\"]}", true), DOC("deny", NO_CIDR("::/0")));
	/* only allowed, and nothing denied: as the node's default */
	CHECK_STR(of("{\"allowOut\":[\"1.1.1.1\"]}", true), DOC("allow", CIDR("1.1.1.1")));
	CHECK_STR(of("{\"allowOut\":[\"1.1.1.1\"]}", false), DOC("deny", CIDR("1.1.1.1")));
}

#define RULES(host, value) \
	"\"rules\":{\"" host "\":[{\"transform\":{\"headers\":{\"X-K\":\"" value "\"}}}]}"
#define SET(host, value) \
	"{\"host\":\"" host "\",\"ports\":\"any\",\"set_headers\":{\"X-K\":\"" value "\"}}"

static void transforms(void)
{
	CHECK_STR(of("{" RULES("a.example", "v") ",\"allowInternetAccess\":true}", false),
		  DOC("allow", SET("a.example", "v")));
	/* allowed by name, or by a name above it */
	CHECK_STR(of("{\"allowOut\":[\"*.example\"],\"denyOut\":[\"0.0.0.0/0\"]," RULES(
			     "a.example", "Bearer ${e2b.secrets.KEY} and ${e2b.secrets.B}") "}",
		     false),
		  DOC("deny", SET("a.example",
				  "Bearer ${secret.KEY} and ${secret.B}") "," HOST("*.example")));
	/* a transform allows nothing */
	CHECK_STR(of("{\"denyOut\":[\"0.0.0.0/0\"]," RULES("a.example", "v") "}", true),
		  DOC("deny", ""));
	CHECK_STR(of("{\"allowOut\":[\"*.a.example\"],\"denyOut\":[\"0.0.0.0/0\"]," RULES(
			     "a.example", "v") "}",
		     true),
		  DOC("deny", HOST("*.a.example")));
	/* nor does it open what is denied */
	CHECK_STR(of("{\"denyOut\":[\"9.9.9.9\"]," RULES("a.example", "v") "}", true),
		  DOC("allow", NO_CIDR("9.9.9.9") "," SET("a.example", "v")));
	CHECK_STR(of("{\"denyOut\":[\"9.9.9.9\"],\"rules\":{\"9.9.9.9\":[{\"transform\":{"
		     "\"headers\":{\"X-K\":\"v\"}}}]}}",
		     true),
		  DOC("allow", NO_CIDR("9.9.9.9") ",{\"cidr\":\"9.9.9.9\",\"ports\":\"any\","
						  "\"set_headers\":{\"X-K\":\"v\"}}"));
	/* of all below a name it is for those that are allowed */
	CHECK_STR(of("{\"allowOut\":[\"a.example\",\"b.test\",\"c.example\"],"
		     "\"denyOut\":[\"0.0.0.0/0\"]," RULES("*.example", "v") "}",
		     true),
		  DOC("deny", "{\"host\":[\"a.example\",\"c.example\"],\"ports\":\"any\","
			      "\"set_headers\":{\"X-K\":\"v\"}}," HOST("a.example") "," HOST(
				      "b.test") "," HOST("c.example")));
	CHECK(strstr(of("{" RULES("a.example", "${e2b.identity.tokens.X}") "}", true),
		     "identity") != NULL);
	CHECK(text == NULL && e.code == ERR_INVALID);
}

static int collect(const char *name, void *arg)
{
	char *to = arg;

	(void)snprintf(to + strlen(to), 64 - strlen(to), "%s ", name);
	return strcmp(name, "STOP") == 0 ? 7 : 0;
}

static void secrets(void)
{
	char names[64] = "";

	CHECK(network_policy_secrets("{" RULES("a.example", "${e2b.secrets.A}${e2b.secrets.B}") "}",
				     collect, names) == 0);
	CHECK_STR(names, "A B ");
	names[0] = '\0';
	CHECK(network_policy_secrets(
		      "{" RULES("a.example", "${e2b.secrets.STOP}${e2b.secrets.B}") "}", collect,
		      names) == 7);
	CHECK_STR(names, "STOP ");
	names[0] = '\0';
	CHECK(network_policy_secrets("{" RULES("a.example", "${e2b.secrets.") "}", collect,
				     names) == 0);
	CHECK_STR(names, "");
}

static void proxy(void)
{
	CHECK_STR(of("{\"egressProxy\":{\"address\":\"p.example:1080\",\"username\":\"u\","
		     "\"password\":\"p\"}}",
		     true),
		  "{\"version\":1,\"default\":\"allow\",\"rules\":[],\"proxy\":{\"address\":"
		  "\"p.example:1080\",\"username\":\"u\",\"password\":\"p\"}}");
	free(text);
	text = NULL;
}

TEST_MAIN({ "nothing was said", unsaid }, { "allow_internet_access", internet },
	  { "allowOut and denyOut", entries }, { "header transforms", transforms },
	  { "secrets in headers", secrets }, { "egressProxy", proxy })
