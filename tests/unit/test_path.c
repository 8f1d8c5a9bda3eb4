/* Goal: what rules compare is what a server reads: one spelling for each path, none for those that
 * servers read differently; patterns are matched in bounded time. */
#include "test.h"

#include <time.h>

#include "lib/policy/path.h"

static const char *normal(const char *text)
{
	static char ret[PATH_NORMAL_MAX];
	const char *why = NULL;
	int n = path_normal((struct http1_span){ text, strlen(text) }, ret, sizeof(ret), &why);

	if (n < 0) {
		CHECK(why != NULL && *why != '\0');
		return "-";
	}
	CHECK((size_t)n == strlen(ret));
	return ret;
}

static void has_one_spelling(void)
{
	static const char *const rows[][2] = {
		{ "/", "/" },
		{ "/a/b", "/a/b" },
		{ "/%61%7e%2D", "/a~-" },
		{ "/%e2%82%ac", "/%E2%82%AC" },
		{ "/%40scope%2fpkg", "/@scope%2Fpkg" },
		{ "/{a}|\"b\"", "/%7Ba%7D%7C%22b%22" },
		{ "/%7ba%7D", "/%7Ba%7D" },
		{ "/a%20b", "/a%20b" },
		{ "/a/./b/../c", "/a/c" },
		{ "/a/b/..", "/a/" },
		{ "/a/.", "/a/" },
		{ "/%2e%2E/", "-" },
		{ "/a/%2e%2E/b", "/b" },
		{ "/..", "-" },
		{ "/a/../..", "-" },
		{ "//a//b", "//a//b" },
		{ "/a//../b", "-" },
		{ "/a//b/../c", "/a//c" },
		{ "/a/%2F/../c", "-" },
		{ "/a%252fb/../c", "-" },
		{ "/...", "/..." },
		{ "/a;b+c%3b%2b", "/a;b+c%3B%2B" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_STR(normal(rows[i][0]), rows[i][1]);
}

static void refuses_what_is_read_differently(void)
{
	static const char *const bad[] = {
		"",
		"a",
		"/a\\b",
		"/a%5cb",
		"/a%00",
		"/a%0d%0ab",
		"/a%7f",
		"/a%",
		"/a%2",
		"/a%zz",
		"/a%u002e",
		"/a b",
		"/a#b",
		"/a?b",
		"/\xc3\xbc",
		"/%c0%ae%c0%ae/",
		"/%c0%af",
		"/%e0%80%af",
		"/%f0%80%80%af",
		"/a%2f..%2fb",
		"/a%2F%2e%2E",
		"/x/..;/b",
		"/.;a/b",
		"/%252e%252e/a",
		"/a%252f..%252fb",
		"/a%2f.",
		"/..%2fa",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_STR(normal(bad[i]), "-");
}

static void keeps_its_bounds(void)
{
	const char *why = NULL;
	char small[8];

	CHECK(path_normal((struct http1_span){ "/aaaaaa", 7 }, small, 8, &why) == 7);
	CHECK(path_normal((struct http1_span){ "/aaaaaaa", 8 }, small, 8, &why) < 0);
	CHECK(path_normal((struct http1_span){ "/{{{", 4 }, small, 8, &why) < 0);
	CHECK(path_normal((struct http1_span){ "/aaaaaaaa/..", 12 }, small, 8, &why) < 0);
}

static void queries(void)
{
	char ret[64];
	const char *why = NULL;
	struct http1_span q = { "a=%62&c=%0a+{\\", 14 };

	CHECK(path_normal_query(q, ret, sizeof(ret), &why) > 0);
	CHECK_STR(ret, "a=b&c=%0A+%7B%5C");
	CHECK(path_normal_query((struct http1_span){ "a=%00", 5 }, ret, sizeof(ret), &why) < 0);
	CHECK(path_normal_query((struct http1_span){ "a=100%", 6 }, ret, sizeof(ret), &why) < 0);
	CHECK(path_normal_query((struct http1_span){ "", 0 }, ret, sizeof(ret), &why) == 0);
}

static void patterns(void)
{
	static const struct {
		const char *pattern, *path;
		bool fits;
	} rows[] = {
		{ "/a", "/a", true },
		{ "/a", "/a/", false },
		{ "/a/*", "/a/b", true },
		{ "/a/*", "/a/", false },
		{ "/a/*", "/a/b/c", false },
		{ "/a/**", "/a/", true },
		{ "/a/**", "/a/b/c", true },
		{ "/a/**", "/a", false },
		{ "/**/x", "/a/b/x", true },
		{ "/**/x", "/x", false },
		{ "/**x", "/x", true },
		{ "/*/b", "//b", false },
		{ "/*/*/c", "/a/b/c", true },
		{ "/*/*/c", "/a//c", false },
		{ "/a*", "/a", true },
		{ "/a*c", "/abbc", true },
		{ "/a*c", "/ab/c", false },
		{ "/a*b*c", "/axbxc", true },
		{ "/a*b*c", "/axc", false },
		{ "/**/a/**/b", "/x/a/y/z/b", true },
		{ "/**/a/**/b", "/x/c/y/z/b", false },
		{ "/**", "/", true },
		{ "/***", "/a/b", true },
		{ "/ab*ab", "/ab", false },
		{ "/x/*/y/**", "/x/1/y/", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (path_fits(rows[i].pattern, rows[i].path) != rows[i].fits)
			printf("# row %zu: %s %s\n", i, rows[i].pattern, rows[i].path);
		CHECK(path_fits(rows[i].pattern, rows[i].path) == rows[i].fits);
	}
}

static void patterns_are_checked(void)
{
	struct err e = { 0 };
	char long_one[PATH_PATTERN_MAX + 2];

	CHECK(path_pattern_check("/a/**", &e) == 0);
	CHECK(path_pattern_check("a", &e) < 0);
	CHECK(path_pattern_check("/%61", &e) < 0);
	CHECK(strstr(e.msg, "'/a'") != NULL);
	CHECK(path_pattern_check("/a/../b", &e) < 0);
	CHECK(path_pattern_check("/a?b=*", &e) < 0);
	memset(long_one, 'a', sizeof(long_one));
	long_one[0] = '/';
	long_one[sizeof(long_one) - 1] = '\0';
	CHECK(path_pattern_check(long_one, &e) < 0 && !path_fits(long_one, long_one));
}

/* The classic that takes for ever where a matcher goes back. */
static void no_pattern_is_slow(void)
{
	static char path[PATH_NORMAL_MAX];
	char pattern[PATH_PATTERN_MAX + 1] = "/";
	clock_t before = clock();

	for (size_t i = 1; i + 3 < sizeof(pattern); i += 3)
		memcpy(pattern + i, "**a", 4);
	pattern[strlen(pattern) - 1] = 'b';
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 2] = 'b';
	path[sizeof(path) - 3] = 'c';
	for (int i = 0; i < 10; i++)
		CHECK(path_fits(pattern, path));
	path[1] = 'b';
	pattern[1] = 'a';
	CHECK(!path_fits(pattern, path));
	CHECK(clock() - before < CLOCKS_PER_SEC * 2);
}

TEST_MAIN({ "has one spelling", has_one_spelling },
	  { "refuses what is read differently", refuses_what_is_read_differently },
	  { "keeps its bounds", keeps_its_bounds }, { "queries", queries },
	  { "patterns", patterns }, { "patterns are checked", patterns_are_checked },
	  { "no pattern is slow", no_pattern_is_slow })
