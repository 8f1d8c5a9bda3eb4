/* Goal: json_read() accepts exactly JSON, and its walks give the values that stand in the text. */
#include "lib/json/json_read.h"

#include "json_check.h"
#include "lib/base/own.h"
#include "support.h"

static struct json_value read_text(const char *text)
{
	struct json_value v;
	struct err e;

	CHECK(json_read(text, strlen(text), 8, &v, &e) == 0);
	return v;
}

static bool accepts(const char *text, size_t n, unsigned depth)
{
	struct json_value v;
	struct err e;

	return json_read(text, n, depth, &v, &e) == 0;
}

static void malformed_texts_are_refused(void)
{
	static const char *const bad[] = { "",		 " ",	      "{",
					   "}",		 "[1,]",      "[,1]",
					   "{\"a\"}",	 "{\"a\":}",  "{a:1}",
					   "{\"a\":1,}", "01",	      "1.",
					   ".5",	 "+1",	      "1e",
					   "-",		 "tru",	      "nul",
					   "truex",	 "1 2",	      "\"",
					   "\"\\x\"",	 "\"\\u12\"", "\"\n\"",
					   "\"\xff\"",	 "\"\\",      "\"\\\"",
					   "[\"a\"",	 "'a'",	      "{}{}",
					   "NaN",	 "Infinity",  "\"\xed\xa0\x80\"" };
	static const char *const good[] = {
		"{}",	" [ ] ",       "-0.5e+3",
		"true", "\"\\u00e9\"", "{\"a\":[1,{\"b\":null}],\"c\":\"\xc3\xa9\"}"
	};

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(!accepts(bad[i], strlen(bad[i]), 8));
	for (size_t i = 0; i < COUNT(good); i++) {
		CHECK(accepts(good[i], strlen(good[i]), 8));
		CHECK(json_check_valid(good[i], strlen(good[i])));
	}
	CHECK(!accepts("\"\\\0\"", 4, 8));
}

static void depth_is_bounded(void)
{
	CHECK(accepts("[[1]]", 5, 2));
	CHECK(!accepts("[[1]]", 5, 1));
	CHECK(accepts("[1,[],[]]", 9, 2));
	CHECK(!accepts("[]", 2, 0));
}

static void members_are_found(void)
{
	struct json_value v =
		read_text("{ \"a\" : 1 , \"b\":{\"a\":\"]}\\\"\"},\"c\":[true,null],\"a\":2}");
	uint64_t n = 0;

	CHECK(json_read_uint(json_read_member(v, "a"), &n) && n == 1);
	CHECK(json_read_member(v, "b").kind == JSON_READ_OBJECT);
	CHECK(json_read_member(json_read_member(v, "b"), "a").kind == JSON_READ_TEXT);
	CHECK(json_read_member(v, "c").n == 11);
	CHECK(json_read_member(v, "d").kind == JSON_READ_NONE);
	CHECK(json_read_member(json_read_member(v, "c"), "a").kind == JSON_READ_NONE);
}

static void arrays_are_walked(void)
{
	struct json_value v = read_text("[1, \"x\" ,[2,3],{},-4.5e1]"), name, item;
	const enum json_kind want[] = { JSON_READ_NUMBER, JSON_READ_TEXT, JSON_READ_ARRAY,
					JSON_READ_OBJECT, JSON_READ_NUMBER };
	const char *at = NULL;
	size_t i = 0;

	for (; json_read_next(v, &at, &name, &item); i++) {
		CHECK(i < COUNT(want) && item.kind == want[i]);
		CHECK(name.kind == JSON_READ_NONE);
	}
	CHECK(i == COUNT(want));
	at = NULL;
	CHECK(!json_read_next(read_text("[ ]"), &at, &name, &item));
}

static void check_decoded(const char *text, const char *want, size_t n)
{
	struct buf b = BUF_INIT(100);
	struct err e;

	CHECK(json_read_text(read_text(text), &b, &e) == 0);
	CHECK(b.len == n && memcmp(b.data == NULL ? (const void *)"" : b.data, want, n) == 0);
	buf_release(&b);
}

static void texts_are_decoded(void)
{
	check_decoded("\"\"", "", 0);
	check_decoded("\"a\\n\\t\\\"\\\\\\/\\b\\f\\rz\"", "a\n\t\"\\/\b\f\rz", 10);
	check_decoded("\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		      9);
	check_decoded("\"x\\u0000y\"", "x\0y", 3);
	check_decoded("\"\\ud83d\"", "\xef\xbf\xbd", 3);
	check_decoded("\"\\ude00a\"",
		      "\xef\xbf\xbd"
		      "a",
		      4);
	check_decoded("\"\\ud83d\\u0041\"",
		      "\xef\xbf\xbd"
		      "A",
		      4);
}

static void a_text_beyond_the_cap_is_refused(void)
{
	struct buf b = BUF_INIT(3);
	struct err e;

	CHECK(json_read_text(read_text("\"abcd\""), &b, &e) < 0 && e.code == ERR_LIMIT);
	CHECK(json_read_text(read_text("1"), &b, &e) < 0 && e.code == ERR_INVALID);
	buf_release(&b);
}

static void numbers_are_whole(void)
{
	uint64_t n = 0;

	CHECK(json_read_uint(read_text("18446744073709551615"), &n) && n == UINT64_MAX);
	CHECK(!json_read_uint(read_text("18446744073709551616"), &n));
	CHECK(!json_read_uint(read_text("-1"), &n));
	CHECK(!json_read_uint(read_text("1.0"), &n));
	CHECK(!json_read_uint(read_text("\"1\""), &n));
}

static void check_without(const char *document, const char *want)
{
	OWN_MEM char *got = json_read_without(document, "p", "s");

	CHECK(got != NULL);
	CHECK_STR(got, want);
}

static void a_member_is_left_out(void)
{
	check_without("{\"a\":1,\"p\":{\"s\":\"x\",\"t\":{\"s\":2}},\"s\":3}",
		      "{\"a\":1,\"p\":{\"t\":{\"s\":2}},\"s\":3}");
	check_without("{\"p\":{\"t\":1,\"s\":2}}", "{\"p\":{\"t\":1}}");
	check_without("{\"p\":{\"s\":2}}", "{\"p\":{}}");
	check_without("{\"p\":[\"s\"]}", "{\"p\":[\"s\"]}");
	check_without("deny", "{}");
}

TEST_MAIN({ "malformed texts are refused", malformed_texts_are_refused },
	  { "depth is bounded", depth_is_bounded }, { "members are found", members_are_found },
	  { "arrays are walked", arrays_are_walked }, { "texts are decoded", texts_are_decoded },
	  { "a text beyond the cap is refused", a_text_beyond_the_cap_is_refused },
	  { "numbers are whole", numbers_are_whole },
	  { "a member is left out", a_member_is_left_out })
