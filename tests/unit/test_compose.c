/* Goal: options become the JSON they mean, and a mistake names its option. */
#include "cmd/client/compose.h"

#include "cmd/client/member.h"
#include "support.h"

static struct err e;

static void check_json(const json_t *j, const char *want)
{
	OWN_MEM char *text = json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);

	CHECK_STR(text, want);
}

static void composes(void)
{
	OWN_JSON *j = json_object();
	struct option_list pairs = { .items = { "A=1", "B=x=y", "A=2", "C=" }, .n = 4 };
	struct option_list none = { .n = 0 };
	const char *const words[] = { "a", "" };

	CHECK(compose_text(j, "t", "--t", "x\"\n", &e) == 0);
	CHECK(compose_text(j, "none", "--t", NULL, &e) == 0);
	CHECK(compose_time(j, "ms", 1500, &e) == 0 && compose_time(j, "zero", 0, &e) == 0);
	CHECK(compose_time_text(j, "time", "--x", "1.5m", &e) == 0);
	CHECK(compose_time_text(j, "never", "--x", "0", &e) == 0);
	CHECK(compose_number(j, "n", 7, &e) == 0 && compose_number(j, "no", 0, &e) == 0);
	CHECK(compose_pairs(j, "pairs", "--p", &pairs, &e) == 0);
	CHECK(compose_pairs(j, "empty", "--p", &none, &e) == 0);
	CHECK(compose_list(j, "list", "--l", words, 2, &e) == 0);
	check_json(j, "{\"list\":[\"a\",\"\"],\"ms\":\"1500ms\",\"n\":7,\"never\":0,"
		      "\"pairs\":{\"A\":\"2\",\"B\":\"x=y\",\"C\":\"\"},\"t\":\"x\\\"\\n\","
		      "\"time\":\"90000ms\"}");
}

static void mounts(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "/a:/b", "{\"mode\":\"ro\",\"source\":\"/a\",\"target\":\"/b\"}" },
		{ "/a:/b:rw", "{\"mode\":\"rw\",\"source\":\"/a\",\"target\":\"/b\"}" },
		{ "a:b:/c:d:ro", "{\"mode\":\"ro\",\"source\":\"a:b\",\"target\":\"/c:d\"}" },
		{ "/a", NULL },
		{ ":/b", NULL },
		{ "/a:b", NULL },
		{ "/\xff:/b", NULL },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		OWN_JSON *j = json_object();
		struct option_list list = { .items = { cases[i].text }, .n = 1 };
		int rc = compose_mounts(j, "m", &list, &e);

		CHECK_CASE(cases[i].text, rc == (cases[i].want == NULL ? -1 : 0));
		if (rc == 0)
			check_json(json_array_get(json_object_get(j, "m"), 0), cases[i].want);
		else
			CHECK(strncmp(e.msg, "--mount: ", 9) == 0);
	}
}

static void refuses(void)
{
	OWN_JSON *j = json_object();
	static const char *const bad[] = { "x", "=x", "", "A=\xff", "\xff=a" };

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct option_list list = { .items = { bad[i] }, .n = 1 };

		CHECK_CASE(bad[i], compose_pairs(j, "p", "--env", &list, &e) < 0);
		CHECK(strncmp(e.msg, "--env: ", 7) == 0);
	}
	CHECK(compose_text(j, "t", "--user", "\xc3", &e) < 0 && strncmp(e.msg, "--user: ", 8) == 0);
	CHECK(compose_time_text(j, "t", "--timeout", "soon", &e) < 0);
	CHECK(strncmp(e.msg, "--timeout: ", 11) == 0);
}

static int network(json_t *body, const char *const *policy, size_t npolicy,
		   const char *const *allow, size_t nallow)
{
	struct option_list p = { .n = npolicy }, a = { .n = nallow };

	memcpy(p.items, policy, npolicy * sizeof(policy[0]));
	memcpy(a.items, allow, nallow * sizeof(allow[0]));
	return compose_network(body, "network", &p, &a, &e);
}

static void networks(void)
{
	static const char *const presets[] = { "pypi", "npm" };
	static const char *const hosts[] = { "a.example/x/**", "b.example:8443" };
	static const char *const both[] = { "pypi,npm" };
	static const char *const missing[] = { "./nowhere.json" };
	json_t *body = json_object(), *want;

	CHECK(network(body, presets, 0, hosts, 0) == 0 && json_object_size(body) == 0);
	CHECK(network(body, presets, 2, hosts, 2) == 0);
	want = json_pack("{s:{s:i, s:[s, s], s:[s, s]}}", "network", "version", 1, "extends",
			 "pypi", "npm", "rules", "a.example/x/**", "b.example:8443");
	CHECK(json_equal(body, want));
	json_decref(body);
	body = json_object();
	CHECK(network(body, both, 1, hosts, 2) == 0 && json_equal(body, want));
	json_decref(want);
	json_decref(body);
	body = json_object();
	CHECK(network(body, missing, 1, hosts, 0) < 0 && strstr(e.msg, "--policy") != NULL);
	json_decref(body);
}

struct table {
	const char *text, *span;
	uint64_t count, millis;
	struct option_list list, pairs;
	bool flag, word;
};

#define ROW(name, kind, field, sent)                                                     \
	{                                                                                \
		name, "X", kind, offsetof(struct table, field), 0, 0, "", .member = sent \
	}

static const struct option table[] = {
	ROW("text", OPTION_TEXT, text, "text"),
	ROW("span", OPTION_SPAN, span, "span"),
	ROW("count", OPTION_COUNT, count, "limits.count"),
	ROW("millis", OPTION_MILLIS, millis, "limits.millis"),
	ROW("list", OPTION_LIST, list, "rules.list"),
	ROW("pairs", OPTION_PAIRS, pairs, "pairs"),
	ROW("flag", OPTION_FLAG, flag, "flag"),
	ROW("word", OPTION_FLAG, word, "root=read-only"),
	ROW("local", OPTION_TEXT, text, NULL),
};

/* An option that was not given adds no member, and no empty object around it. */
static void options_become_members(void)
{
	struct table f = { 0 };
	json_t *body = json_object(), *want;

	CHECK(compose_options(body, table, COUNT(table), &f, &e) == 0);
	CHECK(json_object_size(body) == 0);
	f = (struct table){ .text = "t",
			    .span = "0",
			    .count = 3,
			    .millis = 1500,
			    .list = { { "a", "b" }, 2 },
			    .pairs = { { "k=v" }, 1 },
			    .flag = true,
			    .word = true };
	CHECK(compose_options(body, table, COUNT(table), &f, &e) == 0);
	want = json_pack("{s:s, s:i, s:{s:i, s:f}, s:{s:[s, s]}, s:{s:s}, s:b, s:s}", "text", "t",
			 "span", 0, "limits", "count", 3, "millis", 1.5, "rules", "list", "a", "b",
			 "pairs", "k", "v", "flag", 1, "root", "read-only");
	CHECK(json_equal(body, want));
	json_decref(want);
	f.span = "soon";
	CHECK(compose_options(body, table, COUNT(table), &f, &e) < 0);
	CHECK(strncmp(e.msg, "--span: ", 8) == 0);
	json_decref(body);
}

TEST_MAIN({ "options become members of a request", options_become_members },
	  { "whom a session may contact", networks }, { "composes", composes },
	  { "mounts", mounts }, { "refuses", refuses })
