/* Goal: what a client chooses for a session's network becomes the document it means, or is refused
 * by name; "none" is known from everything else; a password is never shown. */
#include "lib/policy/policy_select.h"

#include <jansson.h>

#include "lib/json/json.h"
#include "lib/policy/policy_allow.h"
#include "lib/policy/policy_memo.h"
#include "support.h"

static struct err e;
static char *text;

static int take(const char *json, enum policy_layer layer)
{
	free(text);
	e = (struct err){ 0 };
	return policy_select_read(json, strlen(json), layer, &text, &e);
}

static const char *name_of(const char *json)
{
	static char name[POLICY_SELECT_NAME_MAX];

	if (take(json, POLICY_SESSION) < 0)
		return e.msg;
	policy_select_name(text, name);
	return name;
}

static void words(void)
{
	CHECK(take("\"pypi\"", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\"]}");
	CHECK(take("[\"pypi\",\"npm\"]", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\",\"npm\"]}");
	CHECK(take("{\"version\":1,\"extends\":\"pypi\"}", POLICY_SESSION) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\"]}");
	free(text);
	text = NULL;
	CHECK(policy_select_presets("pypi,npm", &text, &e) == 0);
	CHECK_STR(text, "{\"version\":1,\"extends\":[\"pypi\",\"npm\"]}");
	CHECK_STR(name_of("\"pypi\""), "pypi");
	CHECK_STR(name_of("[\"pypi\",\"npm\"]"), "pypi+npm");
	CHECK_STR(name_of("{\"version\":1,\"rules\":[\"a.example\"]}"), "custom");
	CHECK_STR(name_of("{\"version\":1,\"extends\":[\"pypi\"],\"rules\":[\"a.example\"]}"),
		  "pypi+custom");
	CHECK_STR(name_of("{\"version\":1,\"extends\":[\"pypi\"],"
			  "\"proxy\":{\"address\":\"p.example:1080\"}}"),
		  "pypi+custom");
}

/* A name that is cut would be the name of less than the document permits. */
static void long_names(void)
{
	char json[512] = "[\"deny\"";

	for (int i = 0; i < 23; i++)
		(void)snprintf(json + strlen(json), sizeof(json) - strlen(json), ",\"deny\"");
	(void)snprintf(json + strlen(json), sizeof(json) - strlen(json),
		       ",\"debian\",\"internet\"]");
	CHECK_STR(name_of(json), "custom");
}

static void refused(void)
{
	static const char *const bad[] = { "",
					   "null",
					   "5",
					   "[]",
					   "[5]",
					   "\"nothing-of-that-name\"",
					   "[\"pypi\",\"\"]",
					   "{\"version\":2}",
					   "{\"version\":1,\"version\":1}",
					   "{\"version\":1,\"unheard\":1}",
					   "{\"version\":1,\"private\":[\"10.0.0.0/8\"]}",
					   "{\"version\":1,\"rules\":[{\"host\":\"a b\"}]}" };

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], take(bad[i], POLICY_SESSION) < 0 && text == NULL &&
					   e.code == ERR_INVALID && e.msg[0] != '\0');
	CHECK(take("{\"version\":1,\"private\":[\"10.0.0.0/8\"]}", POLICY_NODE) == 0);
	free(text);
	text = NULL;
	CHECK(policy_select_presets("", &text, &e) < 0);
	CHECK(policy_select_presets("pypi,,npm", &text, &e) < 0);
}

static void too_long(void)
{
	static char long_one[POLICY_SELECT_SESSION_MAX + 64];

	memset(long_one, ' ', sizeof(long_one) - 1);
	memcpy(long_one, "{\"version\":1}", 13);
	CHECK(take(long_one, POLICY_SESSION) < 0 && strstr(e.msg, "longer than") != NULL);
	CHECK(take(long_one, POLICY_TENANT) == 0);
	free(text);
	text = NULL;
}

/* Pins may be many; the rest of a session's document may not be longer for that. */
static void packages_may_be_long(void)
{
	static char words[POLICY_SELECT_PACKAGES_MAX];
	size_t len = (size_t)snprintf(words, sizeof(words), "{\"packages\":{\"pins\":{");

	for (int i = 0; i < 5000; i++)
		len += (size_t)snprintf(words + len, sizeof(words) - len,
					"%s\"npm:p%d\":[\"1.0.0 sha256:%064d\"]", i > 0 ? "," : "",
					i, i);
	(void)snprintf(words + len, sizeof(words) - len, "}}}");
	CHECK(take(words, POLICY_SESSION) == 0 && strstr(text, "npm:p4999") != NULL);
	CHECK_STR(name_of(words), "custom");
	len = (size_t)snprintf(words, sizeof(words), "{\"packages\":{},\"rules\":[\"a.test\"");
	for (int i = 0; i < 13 * 250; i++)
		len += (size_t)snprintf(
			words + len, sizeof(words) - len, "%s\"h%d.test\"",
			i % 250 == 0 ? (i == 0 ? ",{\"host\":[" : "]},{\"host\":[") : ",", i);
	(void)snprintf(words + len, sizeof(words) - len, "]}]}");
	CHECK(take(words, POLICY_SESSION) < 0 && strstr(e.msg, "without packages") != NULL);
}

/* How often the parser asked for memory: the work, whatever the machine. */
static size_t allocations;

static void *count_allocation(size_t n)
{
	allocations++;
	return malloc(n);
}

static char *many_rules(size_t n)
{
	json_t *rules = json_array(), *root = json_pack("{s:i, s:o}", "version", 1, "rules", rules);
	char host[32], *json;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(host, sizeof(host), "h%zu.example", i);
		CHECK(json_array_append_new(rules, json_pack("{s:s}", "host", host)) == 0);
	}
	json = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return json;
}

static void many(void)
{
	char *most = many_rules(POLICY_SELECT_SESSION_RULES),
	     *more = many_rules(POLICY_SELECT_SESSION_RULES + 1);
	size_t parsed;
	json_t *root;

	json_set_alloc_funcs(count_allocation, free);
	root = json_loads(most, 0, NULL);
	parsed = allocations;
	json_decref(root);
	allocations = 0;
	CHECK(take(most, POLICY_SESSION) == 0);
	CHECK(allocations < parsed + parsed / 4); /* parsed once */
	allocations = 0;
	CHECK(!policy_select_is_none(text));
	CHECK(allocations == 0);
	json_set_alloc_funcs(malloc, free);
	CHECK(take(more, POLICY_SESSION) < 0 && strstr(e.msg, "more than 1000 rules") != NULL);
	CHECK(take(more, POLICY_TENANT) == 0);
	free(text);
	text = NULL;
	free(most);
	free(more);
}

static void merged_once(void)
{
	struct policy_memo *m = policy_memo_new();
	const char *layers[POLICY_LAYERS] = { NULL, "{\"default\":\"deny\"}",
					      "{\"rules\":[\"a.example\"]}" };
	char *one = NULL, *two = NULL;

	CHECK(policy_memo_merge(m, layers, &one, &e) == 0);
	CHECK(policy_memo_merge(m, layers, &two, &e) == 0);
	CHECK(policy_memo_merges(m) == 1 && strcmp(one, two) == 0);
	free(two);
	layers[POLICY_TENANT] = "{\"default\":\"allow\"}";
	CHECK(policy_memo_merge(m, layers, &two, &e) == 0);
	CHECK(policy_memo_merges(m) == 2 && strcmp(one, two) != 0);
	layers[POLICY_TENANT] = "{";
	free(two);
	CHECK(policy_memo_merge(m, layers, &two, &e) < 0);
	free(one);
	policy_memo_free(m);
}

/* A document of any layer, and none, make another result, also if the others are the same; earlier
 * results are found again. */
static void each_layer_decides(void)
{
	static const char *const sets[][POLICY_LAYERS] = {
		{ NULL, NULL, "{\"rules\":[\"a.example\"]}" },
		{ NULL, NULL, "{\"rules\":[\"b.example\"]}" },
		{ NULL, "{\"limits\":{\"requests_per_minute\":5}}", "{\"rules\":[\"a.example\"]}" },
		{ NULL, "{\"limits\":{\"requests_per_minute\":6}}", "{\"rules\":[\"a.example\"]}" },
		{ "{\"limits\":{\"requests_per_minute\":5}}", NULL, "{\"rules\":[\"a.example\"]}" },
		{ "{\"limits\":{\"requests_per_minute\":7}}", NULL, "{\"rules\":[\"a.example\"]}" },
		{ "{\"limits\":{\"requests_per_minute\":7}}", NULL, "{\"rules\":[\"b.example\"]}" },
	};
	struct policy_memo *m = policy_memo_new();
	char *seen[COUNT(sets)] = { NULL };

	for (size_t i = 0; i < 2 * COUNT(sets); i++) {
		const char *layers[POLICY_LAYERS];
		size_t k = i % COUNT(sets);
		char *got = NULL, *want = NULL;

		memcpy(layers, sets[k], sizeof(layers));
		CHECK(policy_memo_merge(m, layers, &got, &e) == 0);
		CHECK(policy_merge(layers, &want, &e) == 0);
		CHECK_STR(got, want);
		free(want);
		CHECK(policy_memo_merges(m) == (i < COUNT(sets) ? i + 1 : COUNT(sets)));
		if (i < COUNT(sets))
			seen[k] = got;
		else
			free(got);
	}
	for (size_t i = 0; i < COUNT(sets); i++)
		free(seen[i]);
	policy_memo_free(m);
}

/* What is no JSON is not repeated: it may hold a secret. */
static void not_repeated(void)
{
	static const char *const bad[] = { "{\"a\":\"qq\\u0000qqqqq\"}", "{\"qq\":qqqq}", "qqqq",
					   "{\"a\":\"\\uqqqq\"}" };

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], take(bad[i], POLICY_SESSION) < 0 && strchr(e.msg, 'q') == NULL &&
					   strstr(e.msg, "line 1, column") != NULL);
}

static void none(void)
{
	CHECK(take("\"none\"", POLICY_SESSION) == 0 && policy_select_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"]}", POLICY_SESSION) == 0);
	CHECK(policy_select_is_none(text));
	CHECK(take("\"deny\"", POLICY_SESSION) == 0 && !policy_select_is_none(text));
	CHECK(take("[\"none\",\"pypi\"]", POLICY_SESSION) == 0 && !policy_select_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"],\"rules\":[\"a.example\"]}",
		   POLICY_SESSION) == 0);
	CHECK(!policy_select_is_none(text));
	CHECK(take("{\"version\":1,\"extends\":[\"none\"],\"default\":\"allow\"}",
		   POLICY_SESSION) == 0);
	CHECK(!policy_select_is_none(text));
	CHECK(!policy_select_is_none("") && !policy_select_is_none("{}"));
}

static void shown(void)
{
	OWN_MEM char *seen = NULL, *all = NULL, *less = NULL;

	CHECK(take("{\"version\":1,\"proxy\":{\"address\":\"p.example:1080\",\"username\":\"u\","
		   "\"password\":\"hunter2\"}}",
		   POLICY_SESSION) == 0);
	seen = policy_select_shown(text, true);
	CHECK(seen != NULL && strstr(seen, "hunter2") == NULL && strstr(seen, "p.example") != NULL);
	CHECK(strstr(text, "hunter2") != NULL);
	all = policy_select_shown("{\"private\":[\"10.0.0.0/8\"]}", true);
	less = policy_select_shown("{\"private\":[\"10.0.0.0/8\"]}", false);
	CHECK_STR(all, "{\"private\":[\"10.0.0.0/8\"]}");
	CHECK_STR(less, "{}");
	free(less);
	less = policy_select_shown(
		"{\"rules\":[{\"layer\":\"node\",\"set_headers\":{\"A\":\"hunter2\"}},"
		"{\"layer\":\"session\",\"set_headers\":{\"A\":\"own\"}}]}",
		false);
	CHECK_STR(less, "{\"rules\":[{\"layer\":\"node\",\"set_headers\":{\"A\":\"(not shown)\"}},"
			"{\"layer\":\"session\",\"set_headers\":{\"A\":\"own\"}}]}");
	free(text);
	text = NULL;
}

static const char *allow_of(const char *name)
{
	static char written[512];
	struct json j;

	json_init(&j, written, sizeof(written));
	json_open(&j, NULL, '{');
	policy_allow_write(&j, name);
	json_close(&j, '}');
	return written;
}

/* What a refused host needs, as a document takes it. */
static void what_allows_a_host(void)
{
	static const char *const no[] = { "", "-a", "a b", "a*", "$(id)", "\x1b[2J", "a/b" };

	CHECK_STR(allow_of("registry.npmjs.org"), "{\"allow\":{\"extends\":[\"npm\"]}}");
	CHECK_STR(allow_of("PyPI.org"), "{\"allow\":{\"extends\":[\"pypi\"]}}");
	CHECK_STR(allow_of("a.example"), "{\"allow\":{\"rules\":[{\"host\":\"a.example\"}]}}");
	CHECK_STR(allow_of("192.0.2.1"), "{\"allow\":{\"rules\":[{\"cidr\":\"192.0.2.1\"}]}}");
	CHECK_STR(allow_of("2001:db8::1"), "{\"allow\":{\"rules\":[{\"cidr\":\"2001:db8::1\"}]}}");
	for (size_t i = 0; i < COUNT(no); i++)
		CHECK_STR(allow_of(no[i]), "{\"allow\":null}");
}

/* Each is a document that a session may have, and allows the host. */
static void what_allows_is_a_policy(void)
{
	static const char *const names[] = { "registry.npmjs.org", "a.example", "192.0.2.1" };

	for (size_t i = 0; i < COUNT(names); i++) {
		const char *member = allow_of(names[i]) + strlen("{\"allow\":");
		char *document = NULL;

		CHECK(policy_select_read(member, strlen(member) - 1, POLICY_SESSION, &document,
					 &e) == 0);
		free(document);
	}
}

TEST_MAIN({ "what allows a host", what_allows_a_host },
	  { "what allows is a policy", what_allows_is_a_policy }, { "presets by name", words },
	  { "names that are too long", long_names }, { "what is wrong is refused", refused },
	  { "a session's is not long", too_long }, { "packages may be long", packages_may_be_long },
	  { "a session has so many rules, read once", many },
	  { "layers are merged once", merged_once }, { "each layer decides", each_layer_decides },
	  { "texts are not repeated", not_repeated }, { "none is nothing else", none },
	  { "passwords and private addresses stay here", shown })
