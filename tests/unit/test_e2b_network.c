/* Goal: network options are taken as the contract says or refused by name, kept as they were given,
 * and shown again without the password. */
#include <jansson.h>

#include "front/e2b/control/netname.h"
#include "front/e2b/control/network.h"

#include "support.h"

static struct err e;
static struct network n;

static int take(const char *text, enum network_internet internet)
{
	json_t *network = json_loads(text, JSON_DECODE_ANY, NULL);
	int read;

	CHECK(network != NULL);
	memset(&e, 0, sizeof(e));
	network_release(&n);
	read = network_read(network, internet, &n, &e);
	json_decref(network);
	return read;
}

static const char *shown(const char *text)
{
	static char out[4096];
	struct json j;

	json_init(&j, out, sizeof(out));
	json_open(&j, NULL, '{');
	network_shape(&j, text);
	json_close(&j, '}');
	CHECK(json_ok(&j));
	return out;
}

static void nothing(void)
{
	CHECK(network_read(NULL, NETWORK_UNSET, &n, &e) == 0);
	CHECK_STR(n.text, "");
	CHECK(n.public_traffic && n.mask_host[0] == '\0');
	CHECK_STR(shown(n.text), "{\"allowInternetAccess\":null}");
	CHECK(take("{}", NETWORK_YES) == 0);
	CHECK_STR(shown(n.text), "{\"allowInternetAccess\":true}");
	CHECK(take("{\"unheardOf\":[1]}", NETWORK_NO) == 0);
	CHECK_STR(shown(n.text), "{\"allowInternetAccess\":false}");
	network_release(&n);
}

#define WHOLE                                                                                     \
	"{\"allowOut\":[\"1.2.3.4\",\"10.0.0.0/8\",\"fd00::/8\",\"api.example.com\","             \
	"\"*.example.org\"],\"denyOut\":[\"0.0.0.0/0\"],\"egressProxy\":{\"address\":"            \
	"\"proxy.example:1080\",\"username\":\"me\"},\"rules\":{\"api.example.com\":[{"           \
	"\"transform\":{\"headers\":{\"X-Key\":\"${e2b.secrets.X}\"}}}]},\"allowPublicTraffic\":" \
	"false,\"maskRequestHost\":\"localhost:${PORT}\",\"httpsPorts\":[443,8443]}"

static void whole(void)
{
	char with_password[2048];
	const char *at = strstr(WHOLE, "\"username\"");

	(void)snprintf(with_password, sizeof(with_password), "%.*s\"password\":\"hush\",%s",
		       (int)(at - WHOLE), WHOLE, at);
	CHECK(take(with_password, NETWORK_UNSET) == 0);
	CHECK(!n.public_traffic);
	CHECK_STR(n.mask_host, "localhost:${PORT}");
	CHECK(strstr(n.text, "hush") != NULL);
	CHECK_STR(shown(n.text), "{\"allowInternetAccess\":null,\"network\":" WHOLE "}");
	network_release(&n);
}

static void update(void)
{
	json_t *some =
		json_loads("{\"denyOut\":[\"8.8.8.8\"],\"allow_internet_access\":false}", 0, NULL);
	json_t *none = json_object(), *bad = json_loads("{\"denyOut\":[\"x.com\"]}", 0, NULL);
	char *text = NULL;

	CHECK(take(WHOLE, NETWORK_YES) == 0);
	CHECK(network_update(n.text, some, &text, &e) == 0);
	CHECK_STR(shown(text), "{\"allowInternetAccess\":false,\"network\":{\"allowPublicTraffic\":"
			       "false,\"maskRequestHost\":\"localhost:${PORT}\",\"httpsPorts\":"
			       "[443,8443],\"denyOut\":[\"8.8.8.8\"]}}");
	free(text);
	CHECK(network_update("", none, &text, &e) == 0);
	CHECK_STR(text, "");
	free(text);
	CHECK(network_update(n.text, bad, &text, &e) < 0 && text == NULL);
	CHECK_HAS("bad", e.msg, "denyOut");
	json_decref(some);
	json_decref(none);
	json_decref(bad);
	network_release(&n);
}

static void refused(void)
{
	static const struct {
		const char *text, *part;
	} bad[] = {
		{ "[]", "network" },
		{ "{\"allowOut\":\"x\"}", "network.allowOut" },
		{ "{\"allowOut\":[1]}", "network.allowOut" },
		{ "{\"allowOut\":[\"a b\"]}", "'a b'" },
		{ "{\"allowOut\":[\"1.2.3.400\"]}", "1.2.3.400" },
		{ "{\"allowOut\":[\"1.2.3.4/33\"]}", "1.2.3.4/33" },
		{ "{\"allowOut\":[\"a.*.com\"]}", "allowOut" },
		{ "{\"allowOut\":[\"example.com\"]}", "ALL_TRAFFIC" },
		{ "{\"allowOut\":[\"example.com\"],\"denyOut\":[\"10.0.0.0/8\"]}", "ALL_TRAFFIC" },
		{ "{\"denyOut\":[\"example.com\"]}", "network.denyOut" },
		{ "{\"denyOut\":{}}", "network.denyOut" },
		{ "{\"allowPublicTraffic\":1}", "network.allowPublicTraffic" },
		{ "{\"maskRequestHost\":\"a\\r\\nb\"}", "network.maskRequestHost" },
		{ "{\"maskRequestHost\":\"${HOST}\"}", "network.maskRequestHost" },
		{ "{\"httpsPorts\":[0]}", "network.httpsPorts" },
		{ "{\"httpsPorts\":[49983]}", "network.httpsPorts" },
		{ "{\"httpsPorts\":[443,443]}", "twice" },
		{ "{\"httpsPorts\":[\"443\"]}", "network.httpsPorts" },
		{ "{\"egressProxy\":{}}", "egressProxy.address" },
		{ "{\"egressProxy\":{\"address\":\"host\"}}", "egressProxy.address" },
		{ "{\"egressProxy\":{\"address\":\"host:0\"}}", "egressProxy.address" },
		{ "{\"egressProxy\":{\"address\":\"h:1\",\"password\":\"x\"}}", "username" },
		{ "{\"rules\":{\"a b\":[]}}", "network.rules" },
		{ "{\"rules\":{\"a.com\":{}}}", "network.rules" },
		{ "{\"rules\":{\"a.com\":[{},{}]}}", "network.rules" },
		{ "{\"rules\":{\"a.com\":[{\"transform\":1}]}}", "network.rules" },
		{ "{\"rules\":{\"a.com\":[{\"transform\":{\"headers\":{\"a b\":\"c\"}}}]}}",
		  "network.rules" },
		{ "{\"rules\":{\"a.com\":[{\"transform\":{\"headers\":{\"a\":\"c\\n\"}}}]}}",
		  "network.rules" },
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_CASE(bad[i].text, take(bad[i].text, NETWORK_UNSET) < 0);
		CHECK_CASE(bad[i].text, e.code == ERR_INVALID);
		CHECK_HAS(bad[i].text, e.msg, bad[i].part);
	}
	/* No internet is all traffic denied. */
	CHECK(take("{\"allowOut\":[\"example.com\"]}", NETWORK_NO) == 0);
	network_release(&n);
}

static void many_rules(void)
{
	json_t *network = json_object(), *rules = json_object(), *headers = json_object();
	char name[32];

	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof(name), "h%d.example", i);
		CHECK(json_object_set_new(rules, name, json_array()) == 0);
	}
	CHECK(json_object_set(network, "rules", rules) == 0);
	CHECK(network_read(network, NETWORK_UNSET, &n, &e) == 0);
	network_release(&n);
	for (int i = 0; i < 21; i++) {
		(void)snprintf(name, sizeof(name), "X-%d", i);
		CHECK(json_object_set_new(headers, name, json_string("v")) == 0);
	}
	CHECK(json_object_set_new(rules, "h0.example",
				  json_pack("[{s:{s:O}}]", "transform", "headers", headers)) == 0);
	CHECK(network_read(network, NETWORK_UNSET, &n, &e) < 0);
	network_release(&n);
	CHECK(json_object_del(headers, "X-0") == 0);
	CHECK(network_read(network, NETWORK_UNSET, &n, &e) == 0);
	network_release(&n);
	CHECK(json_object_set_new(rules, "eleventh.example", json_array()) == 0);
	CHECK(network_read(network, NETWORK_UNSET, &n, &e) < 0);
	network_release(&n);
	json_decref(headers);
	json_decref(rules);
	json_decref(network);
}

static void names(void)
{
	static const char *const addresses[] = { "1.2.3.4", "0.0.0.0/0", "::1", "fe80::/10" };
	static const char *const good[] = { "a", "a.b", "*.a.b", "xn--e1a.example", "_x.y", "1.a" };
	static const char *const bad[] = { "",	   "*",	    "*.",  ".a",  "a.",	 "a..b", "-a.b",
					   "a-.b", "a b.c", "a/b", "1.2", "a:b", "*.*.a" };
	static const char *const ends[] = { "a:1", "1.2.3.4:65535", "[::1]:80", "a.b.c:1080" };
	static const char *const no_ends[] = { "a",	":1",	       "a:",	      "a:65536",
					       "a:x",	"*.a:1",       "::1:80",      "[::1/8]:1",
					       "[a]:1", "1.0.0.0/8:1", "[1.2.3.4]:80" };

	for (size_t i = 0; i < COUNT(addresses); i++)
		CHECK_CASE(addresses[i], netname_is_address(addresses[i]));
	for (size_t i = 0; i < COUNT(good); i++)
		CHECK_CASE(good[i], netname_is_name(good[i], NETNAME_MAX));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i],
			   !netname_is_name(bad[i], NETNAME_MAX) && !netname_is_address(bad[i]));
	for (size_t i = 0; i < COUNT(ends); i++)
		CHECK_CASE(ends[i], netname_is_endpoint(ends[i]));
	for (size_t i = 0; i < COUNT(no_ends); i++)
		CHECK_CASE(no_ends[i], !netname_is_endpoint(no_ends[i]));
}

TEST_MAIN({ "nothing was said", nothing },
	  { "all of it is kept, and shown without the password", whole },
	  { "an update says anew whom it may contact", update },
	  { "what is wrong is refused by name", refused },
	  { "so many rules and headers and no more", many_rules }, { "names and addresses", names })
