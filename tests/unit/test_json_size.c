#include "lib/json/json_size.h"

#include <string.h>

#include "support.h"

static bool fits(const char *text, unsigned depth, size_t values)
{
	return json_size_fits(text, strlen(text), depth, values);
}

static void values_are_counted(void)
{
	CHECK(fits("{}", 4, 2));
	CHECK(fits("[1,2,3]", 4, 4));
	CHECK(!fits("[1,2,3]", 4, 3));
	CHECK(fits("{\"a\":1,\"b\":[2,3]}", 4, 5));
	CHECK(!fits("{\"a\":1,\"b\":[2,3]}", 4, 4));
	CHECK(!fits("[[],[],[]]", 4, 3));
}

static void texts_are_one_value(void)
{
	CHECK(fits("[\"a,b,c,[[[[{{{{\"]", 1, 2));
	CHECK(fits("[\"a\\\",b,c,[[[\"]", 1, 2));
	CHECK(!fits("[\"a\\\\\",1,2,3]", 1, 4));
}

static void depth_is_counted(void)
{
	CHECK(fits("[[[]]]", 3, 10));
	CHECK(!fits("[[[]]]", 2, 10));
	CHECK(fits("[[],[],[]]", 2, 10));
	CHECK(!fits("[[[[[[[[[[[[", 8, 100));
}

TEST_MAIN({ "values are counted", values_are_counted },
	  { "what is in a text does not count", texts_are_one_value },
	  { "depth is counted", depth_is_counted })
