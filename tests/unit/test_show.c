/* Goal: nothing a server says can move a terminal, and what is cut is cut between characters. */
#include "cmd/client/show.h"

#include "support.h"

static void escapes(void)
{
	static const struct {
		const char *text, *want;
		size_t columns;
	} cases[] = {
		{ "", "", 0 },
		{ "plain text, 100%", "plain text, 100%", 16 },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		  3 },
		{ "a\nb\tc\r", "a\\nb\\tc\\r", 9 },
		{ "\x1b[31m", "\\x1b[31m", 8 },
		{ "\x07\x7f", "\\x07\\x7f", 8 },
		{ "\xc2\x9b\xc2\x80", "\\u009b\\u0080", 12 }, /* C1: CSI in eight bits */
		{ "\xc2\xa0", "\xc2\xa0", 1 },
		/* marks of direction: "exe.txt" that is "txt.exe" */
		{ "a\xe2\x80\xaetxt.exe", "a\\u202etxt.exe", 14 },
		{ "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "\\u200e\\u200f\\u061c", 18 },
		{ "\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069", 12 },
		{ "\xe2\x80\xa8", "\\u2028", 6 },
		{ "\xe2\x80\x90\xe2\x80\xaf", "\xe2\x80\x90\xe2\x80\xaf", 2 },
		{ "\xe2\x81\xa5", "\\u2065", 6 }, /* not assigned, and shown as nothing */
		{ "\x9b\xff\xc3", "\\x9b\\xff\\xc3", 12 },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80", 12 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[64];
		size_t columns = show_escape(cases[i].text, text, sizeof(text));

		CHECK_STR(text, cases[i].want);
		CHECK_CASE(cases[i].want, columns == cases[i].columns);
	}
}

static void cuts_between_characters(void)
{
	char text[64];

	CHECK(show_escape("ab", text, 3) == 2);
	CHECK(show_escape("ab", text, 2) == 1);
	CHECK_STR(text, "a");
	CHECK(show_escape("a\xe2\x82\xac", text, 4) == 1);
	CHECK_STR(text, "a");
	CHECK(show_escape("a\x1b", text, 5) == 1);
	CHECK_STR(text, "a");
	CHECK(show_escape("a\x1b", text, 6) == 5);
	CHECK(show_escape("a", text, 1) == 0);
	CHECK_STR(text, "");
}

static void prints_the_same(void)
{
	char text[64], escaped[64];
	FILE *to = fmemopen(text, sizeof(text), "w");

	CHECK(to != NULL);
	show_text("x\x1b\xc2\x9b\xff\xc3\xa4", to);
	(void)fclose(to);
	(void)show_escape("x\x1b\xc2\x9b\xff\xc3\xa4", escaped, sizeof(escaped));
	CHECK_STR(text, escaped);
}

static void spans(void)
{
	static const struct {
		int64_t ms;
		const char *want;
	} cases[] = { { -1, "-" },	 { 0, "0s" },	       { 999, "0s" },
		      { 99999, "99s" },	 { 100000, "1m" },     { 5999999, "99m" },
		      { 6000000, "1h" }, { 172799999, "47h" }, { 172800000, "2d" } };
	char text[24];

	for (size_t i = 0; i < COUNT(cases); i++) {
		show_span(cases[i].ms, text, sizeof(text));
		CHECK_STR(text, cases[i].want);
	}
}

TEST_MAIN({ "escapes", escapes }, { "cuts between characters", cuts_between_characters },
	  { "prints the same", prints_the_same }, { "spans", spans })
