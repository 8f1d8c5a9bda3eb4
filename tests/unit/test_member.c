/* Goal: an answer that is not as promised is no more than a missing value. */
#include "cmd/client/member.h"

#include "support.h"

static void takes_what_fits(void)
{
	OWN_JSON *j =
		json_loads("{\"t\":\"x\",\"n\":5,\"neg\":-5,\"r\":2.9,\"huge\":1e300,\"b\":true,"
			   "\"o\":{\"k\":1},\"a\":[1],\"z\":null}",
			   0, NULL);

	CHECK(j != NULL);
	CHECK_STR(member_text(j, "t", "-"), "x");
	CHECK_STR(member_text(j, "n", "-"), "-");
	CHECK_STR(member_text(j, "z", "-"), "-");
	CHECK_STR(member_text(NULL, "t", "-"), "-");
	CHECK(member_number(j, "n", 9) == 5 && member_number(j, "r", 9) == 2);
	CHECK(member_number(j, "neg", 9) == 9 && member_number(j, "huge", 9) == 9);
	CHECK(member_number(j, "t", 9) == 9 && member_number(j, "missing", 9) == 9);
	CHECK(member_bool(j, "b") && !member_bool(j, "n") && !member_bool(j, "missing"));
	CHECK(json_object_size(member_group(j, "o")) == 1);
	CHECK(json_array_size(member_group(j, "a")) == 1);
	CHECK(json_array_size(member_group(j, "t")) == 0);
	CHECK(json_object_get(member_group(NULL, "t"), "x") == NULL);
}

static void reads_times(void)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = { { "1970-01-01T00:00:00Z", 0 },
		      { "1970-01-01T00:00:00.001Z", 1 },
		      { "2026-11-15T04:51:51.123Z", 1794718311123 },
		      { "2026-11-15T04:51:51.123", -1 },
		      { "2026-11-15T04:51:51.12Z", -1 },
		      { "2026-11-15T04:51:51.123+01:00", -1 },
		      { "2026-11-15 04:51:51Z", -1 },
		      { "2026-13-15T04:51:51Z", -1 },
		      { "2026-00-15T04:51:51Z", -1 },
		      { "2026-11-15T04:51", -1 },
		      { "2026-11-15T04:51:51.", -1 },
		      { "", -1 },
		      { "now", -1 } };

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].text, member_parse_time(cases[i].text) == cases[i].want);
}

TEST_MAIN({ "takes what fits", takes_what_fits }, { "reads times", reads_times })
