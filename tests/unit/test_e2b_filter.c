/* Goal: what a list is asked for is understood exactly as clients encode it, and a page's token
 * leads back to its row and nowhere else. */
#include <jansson.h>

#include "front/e2b/control/sandbox_filter.h"
#include "front/e2b/base/rfc3339.h"

#include "support.h"

static struct err e;

/* Does a list with this parameter show a row with this metadata? -1: it is refused. */
static int shows(const char *parameter, const char *metadata)
{
	struct sandbox_filter f;
	int shown;

	memset(&e, 0, sizeof(e));
	if (sandbox_filter_read(parameter, &f, &e) < 0)
		shown = -1;
	else
		shown = sandbox_filter_matches(&f, metadata);
	sandbox_filter_release(&f);
	return shown;
}

static void metadata(void)
{
	static const struct {
		const char *parameter, *metadata;
		int want;
	} cases[] = {
		{ "", "{}", 1 },
		{ "", "", 1 },
		{ "a=b", "{\"a\":\"b\"}", 1 },
		{ "a=b", "{\"a\":\"bb\"}", 0 },
		{ "a=b", "{\"aa\":\"b\"}", 0 },
		{ "a=b", "{}", 0 },
		{ "a=b", "", 0 },
		{ "a=b", "{\"x\":\"y\",\"a\":\"b\",\"z\":\"\"}", 1 },
		/* What JS sends for {a: "b c"} is a%3Db%252520c: here decoded once. */
		{ "a=b%2520c", "{\"a\":\"b c\"}", 1 },
		{ "a%3Db%2520c", "{\"a\":\"b c\"}", 1 },
		{ "a=b%252520c", "{\"a\":\"b%20c\"}", 1 },
		{ "a=b&x=y", "{\"a\":\"b\",\"x\":\"y\"}", 1 },
		{ "a=b&x=y", "{\"a\":\"b\",\"x\":\"n\"}", 0 },
		{ "a=b%26x=y", "{\"a\":\"b\",\"x\":\"y\"}", 1 },
		/* '&' and '=' in a value */
		{ "a=b%2526c%253Dd", "{\"a\":\"b&c=d\"}", 1 },
		{ "a=", "{\"a\":\"\"}", 1 },
		{ "=b", "{\"\":\"b\"}", 1 },
		{ "a=1&a=2", "{\"a\":\"2\"}", 1 },
		{ "a=1&a=2", "{\"a\":\"1\"}", 0 },
		/* As jansson writes them. */
		{ "a=%2522q%2522", "{\"a\":\"\\\"q\\\"\"}", 1 },
		{ "a=%255C", "{\"a\":\"\\\\\"}", 1 },
		{ "a=%C3%A9", "{\"a\":\"\303\251\"}", 1 },
		/* A value that looks like a pair is none. */
		{ "k=v", "{\"a\":\"\\\"k\\\":\\\"v\\\"\"}", 0 },
		{ "%2C=%3A", "{\"x\":\"foo,\",\":\":\":\"}", 0 },
		{ "a", "{}", -1 },
		{ "a=b&", "{}", -1 },
		{ "a=b=c", "{}", -1 },
		{ "a=%25zz", "{}", -1 },
		{ "a=%2500", "{}", -1 },
		{ "a=%25ff", "{}", -1 },
		/* Rows that are not as they should be show nothing and do no harm. */
		{ "a=b", "{\"a\":\"b", 0 },
		{ "a=b", "{\"a\":\"\\", 0 },
		{ "a=b", "[\"a\"]", 0 },
		{ "a=b", "{\"a\":1}", 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].parameter,
			   shows(cases[i].parameter, cases[i].metadata) == cases[i].want);
}

static void many_pairs(void)
{
	char text[SANDBOX_FILTER_TEXT_MAX] = "", more[SANDBOX_FILTER_TEXT_MAX + 8];

	for (unsigned i = 0; i < SANDBOX_FILTER_PAIRS_MAX; i++) {
		size_t used = strlen(text);

		(void)snprintf(text + used, sizeof(text) - used, "%sk%u=v", i == 0 ? "" : "&", i);
	}
	CHECK(shows(text, "{}") == 0);
	(void)snprintf(more, sizeof(more), "%s&k=v", text);
	CHECK(shows(more, "{}") == -1);
	CHECK_HAS("too many", e.msg, "32");
}

static void states(void)
{
	unsigned set = 0;

	CHECK(sandbox_filter_states("", &set, &e) == 0 &&
	      set == (SANDBOX_FILTER_RUNNING | SANDBOX_FILTER_PAUSED));
	CHECK(sandbox_filter_states("running", &set, &e) == 0 && set == SANDBOX_FILTER_RUNNING);
	CHECK(sandbox_filter_states("paused", &set, &e) == 0 && set == SANDBOX_FILTER_PAUSED);
	CHECK(sandbox_filter_states("paused,running", &set, &e) == 0 && set == 3);
	CHECK(sandbox_filter_states("stopped", &set, &e) < 0 && e.code == ERR_INVALID);
	CHECK(sandbox_filter_states("running,", &set, &e) < 0);
	CHECK(sandbox_filter_states(",", &set, &e) < 0);
	CHECK(sandbox_filter_states("runn", &set, &e) < 0);
	CHECK_HAS("state", e.msg, "state");
}

static void cursors(void)
{
	struct sandbox_filter_cursor c = { .ms = 1794718311123, .id = "i0123456789abcdef" }, back;
	char token[SANDBOX_FILTER_CURSOR_MAX];

	sandbox_filter_cursor_write(&c, token);
	/* printf '2026-11-15T04:51:51.123Z__i0123456789abcdef' | base64, as E2B's own */
	CHECK_STR(token, "MjAyNi0xMS0xNVQwNDo1MTo1MS4xMjNaX19pMDEyMzQ1Njc4OWFiY2RlZg==");
	CHECK(sandbox_filter_cursor_read(token, &back, &e) == 0);
	CHECK(back.ms == c.ms && strcmp(back.id, c.id) == 0 && !back.ascending);
	token[strlen(token) - 2] = '\0';
	CHECK(sandbox_filter_cursor_read(token, &back, &e) == 0 && back.ms == c.ms);
	c.ascending = true;
	sandbox_filter_cursor_write(&c, token);
	CHECK(sandbox_filter_cursor_read(token, &back, &e) == 0 && back.ascending &&
	      strcmp(back.id, c.id) == 0);
	memset(c.id, 'z', sizeof(c.id) - 1); /* the longest there can be */
	c.ms = UINT64_MAX;
	sandbox_filter_cursor_write(&c, token);
	CHECK(sandbox_filter_cursor_read(token, &back, &e) == 0 && strcmp(back.id, c.id) == 0);
}

static void bad_cursors(void)
{
	static const char *const bad[] = {
		"",
		"x",
		"!!!!",
		"MjAyNi0xMS0xNVQwNDo1MTo1MS4xMjNa",		    /* no id */
		"MjAyNi0xMS0xNVQwNDo1MTo1MS4xMjNaX18=",		    /* an empty one */
		"MjAyNi0xMy0xNVQwNDo1MTo1MS4xMjNaX19pMDEy",	    /* month 13 */
		"MjAyNi0xMS0xNVQwNDo1MTo1MS4xMjNaX19pMC4u",	    /* "i0.." */
		"MjAyNi0xMS0xNVQwNDo1MTo1MS4xMjNaX19pMF9fZGVzYw==", /* "__desc" */
		"AAAA",
	};
	struct sandbox_filter_cursor c;

	for (size_t i = 0; i < COUNT(bad); i++) {
		memset(&e, 0, sizeof(e));
		CHECK_CASE(bad[i], sandbox_filter_cursor_read(bad[i], &c, &e) < 0);
		CHECK_CASE(bad[i], e.code == ERR_INVALID && strstr(e.msg, "nextToken") != NULL);
	}
}

static void times(void)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2000-02-29T12:00:00Z", 951825600000000 },
		{ "2000-03-01T00:00:00Z", 951868800000000 },
		{ "2026-11-15T04:51:51.123Z", 1794718311123000 },
		{ "2026-11-15T04:51:51.123456789Z", 1794718311123456 },
		{ "2026-11-15T05:51:51.5+01:00", 1794718311500000 },
		{ "2026-11-14t20:51:51-08:00", 1794718311000000 },
		{ "2100-12-31T23:59:59Z", 4133980799000000 },
	};
	static const char *const bad[] = {
		"",
		"2026",
		"2026-11-15",
		"2026-11-15T04:51Z",
		"2026-02-29T00:00:00Z",
		"2100-02-29T00:00:00Z",
		"2026-11-15T24:00:00Z",
		"2026-11-15T04:51:51",
		"2026-11-15T04:51:51.Z",
		"2026-11-15T04:51:51+0100",
		"1969-12-31T23:59:59Z",
		"2026-11-15T04:51:51Zx",
		"1970-01-01T00:00:00+01:00",
		"2026-11-15T04:51:51.1234567890Z",
	};
	char text[RFC3339_MAX];
	uint64_t us = 0;

	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK_CASE(good[i].text, rfc3339_read(good[i].text, &us) == 0);
		CHECK_CASE(good[i].text, us == good[i].us);
		rfc3339_write(us / 1000, text);
		CHECK_CASE(text, rfc3339_read(text, &us) == 0 && us / 1000 == good[i].us / 1000);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], rfc3339_read(bad[i], &us) < 0);
	rfc3339_write(1794718311007, text);
	CHECK_STR(text, "2026-11-15T04:51:51.007Z");
	rfc3339_write(UINT64_MAX, text);
	CHECK_STR(text, "9999-12-31T23:59:59.999Z");
}

TEST_MAIN({ "metadata is decoded as often as clients encode it, and compared whole", metadata },
	  { "so many pairs and no more", many_pairs }, { "states", states },
	  { "a page's token leads back to its row", cursors },
	  { "what is no token is refused", bad_cursors }, { "times", times })
