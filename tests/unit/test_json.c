/* Goal: whatever is written comes out as JSON, or is known not to have. */
#include "lib/json/json.h"

#include "json_check.h"
#include "support.h"

static void check_json(const struct json *j, const char *want)
{
	CHECK(json_ok(j));
	CHECK(j->len == strlen(j->text));
	CHECK_STR(j->text, want);
	CHECK(json_check_valid(j->text, j->len));
}

/* The checker itself must refuse what is wrong, or the tests below mean nothing. */
static void the_checker_checks(void)
{
	static const char *const good[] = {
		"{}",	   "[]",
		" [ ] ",   "0",
		"-0.5e+3", "\"\\u00e9\\ud83d\\ude00\"",
		"true",	   "{\"a\":[1,{\"b\":null}],\"c\":\"\xc3\xa9\"}"
	};
	static const char *const bad[] = { "",
					   " ",
					   "{",
					   "}",
					   "[1,]",
					   "[,1]",
					   "{\"a\"}",
					   "{\"a\":}",
					   "{a:1}",
					   "{\"a\":1,}",
					   "01",
					   "1.",
					   ".5",
					   "+1",
					   "1e",
					   "-",
					   "tru",
					   "nul",
					   "\"",
					   "\"\\x\"",
					   "\"\\u12\"",
					   "\"\\ud800\"",
					   "\"\\udc00\"",
					   "\"\\ud800\\u0041\"",
					   "\"\n\"",
					   "\"\xff\"",
					   "\"\xc0\x80\"",
					   "\"\xed\xa0\x80\"",
					   "[1 2]",
					   "1 2",
					   "{}{}",
					   "'a'",
					   "[1}",
					   "\"\\u\x11\x11\x11\x11\"" };
	char text[16];

	for (size_t i = 0; i < COUNT(good); i++)
		CHECK_CASE(good[i], json_check_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], !json_check_valid(bad[i], strlen(bad[i])));
	CHECK(json_check_get("{\"a\":{\"b\":7}}", 13, "a.b", text, sizeof(text)));
	CHECK_STR(text, "7");
	CHECK(!json_check_get("{\"a\":1,\"a\":2}", 13, "a", text, sizeof(text)));
	CHECK(!json_check_get("{\"a\":1}", 7, "b", text, sizeof(text)));
}

static void begins_empty(void)
{
	char text[8] = "garbage";
	struct json j;

	json_init(&j, text, sizeof(text));
	CHECK(json_ok(&j) && j.len == 0 && text[0] == '\0');
}

static void writes_single_values(void)
{
	char text[64];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_text(&j, NULL, "word");
	check_json(&j, "\"word\"");
	json_init(&j, text, sizeof(text));
	json_text(&j, NULL, NULL);
	check_json(&j, "null");
	json_init(&j, text, sizeof(text));
	json_none(&j, NULL);
	check_json(&j, "null");
	json_init(&j, text, sizeof(text));
	json_bool(&j, NULL, false);
	check_json(&j, "false");
	json_init(&j, text, sizeof(text));
	json_uint(&j, NULL, UINT64_MAX);
	check_json(&j, "18446744073709551615");
	json_init(&j, text, sizeof(text));
	json_uint(&j, NULL, 0);
	check_json(&j, "0");
	json_init(&j, text, sizeof(text));
	json_text(&j, NULL, "");
	check_json(&j, "\"\"");
}

static void write_document(struct json *j)
{
	json_open(j, NULL, '{');
	json_text(j, "s", "v");
	json_open(j, "empty", '{');
	json_close(j, '}');
	json_open(j, "list", '[');
	json_uint(j, NULL, 1);
	json_open(j, NULL, '[');
	json_close(j, ']');
	json_open(j, NULL, '{');
	json_bool(j, "t", true);
	json_none(j, "n");
	json_close(j, '}');
	json_text(j, NULL, "\xff\x01\"");
	json_close(j, ']');
	json_text(j, "last", NULL);
	json_close(j, '}');
}

#define DOCUMENT                                                            \
	"{\"s\":\"v\",\"empty\":{},\"list\":[1,[],{\"t\":true,\"n\":null}," \
	"\"\\ufffd\\u0001\\\"\"],\"last\":null}"

static void places_the_commas(void)
{
	char text[256];
	struct json j;

	json_init(&j, text, sizeof(text));
	write_document(&j);
	check_json(&j, DOCUMENT);
}

static const struct {
	const char *name, *value, *want;
} escapes[] = {
	{ "plain", "az AZ 09 ~!/'", "\"az AZ 09 ~!/'\"" },
	{ "quote", "\"", "\"\\\"\"" },
	{ "backslash", "\\", "\"\\\\\"" },
	{ "both", "\\\"", "\"\\\\\\\"\"" },
	{ "first control", "\x01", "\"\\u0001\"" },
	{ "newline and tab", "a\n\tb", "\"a\\n\\tb\"" },
	{ "escape", "\x1b[2J", "\"\\u001b[2J\"" },
	{ "last control", "\x1f", "\"\\u001f\"" },
	{ "space is none", " ", "\" \"" },
	{ "delete", "\x7f", "\"\\u007f\"" },
	{ "two bytes", "\xc3\xa9", "\"\xc3\xa9\"" },
	{ "three bytes", "\xe2\x82\xac", "\"\xe2\x82\xac\"" },
	{ "four bytes", "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"" },
	{ "a byte that is none", "a\377b", "\"a\\ufffdb\"" },
	{ "a tail alone", "\x80", "\"\\ufffd\"" },
	{ "overlong", "\xc0\x80", "\"\\ufffd\\ufffd\"" },
	{ "surrogate", "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" },
	{ "cut short", "\xe2\x82", "\"\\ufffd\\ufffd\"" },
	{ "cut short before a quote", "\xe2\x82\"", "\"\\ufffd\\ufffd\\\"\"" },
	{ "cut short before text", "\xf0\x9f\x98z", "\"\\ufffd\\ufffd\\ufffdz\"" },
};

static void escapes_what_must_be(void)
{
	for (size_t i = 0; i < COUNT(escapes); i++) {
		char text[128], named[160];
		char *exact = exact_copy(escapes[i].value, strlen(escapes[i].value) + 1);
		struct json j;

		json_init(&j, text, sizeof(text));
		json_text(&j, NULL, exact);
		if (strcmp(text, escapes[i].want) != 0)
			printf("# case: %s\n", escapes[i].name);
		check_json(&j, escapes[i].want);
		json_init(&j, text, sizeof(text));
		json_open(&j, NULL, '{');
		json_bool(&j, exact, true); /* names are no different */
		json_close(&j, '}');
		(void)snprintf(named, sizeof(named), "{%s:true}", escapes[i].want);
		check_json(&j, named);
		free(exact);
	}
}

static void every_byte_is_json(void)
{
	for (int c = 1; c < 256; c++) {
		const char value[] = { 'a', (char)c, 'b', '\0' };
		char text[32];
		struct json j;

		json_init(&j, text, sizeof(text));
		json_text(&j, NULL, value);
		CHECK(json_ok(&j) && json_check_valid(text, j.len));
		for (size_t i = 0; i < j.len; i++)
			CHECK((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
	}
}

/* With one byte too few the end is missing, json_ok() says so, and nothing is written beyond. */
static void knows_when_it_is_full(void)
{
	const size_t whole = sizeof(DOCUMENT) - 1;

	for (size_t cap = 1; cap <= whole + 2; cap++) {
		char *text = malloc(cap);
		struct json j;

		CHECK(text != NULL);
		memset(text, '#', cap);
		json_init(&j, text, cap);
		write_document(&j);
		CHECK(json_ok(&j) == (cap > whole));
		CHECK(j.len < cap && text[j.len] == '\0' && strlen(text) == j.len);
		CHECK(strncmp(text, DOCUMENT, j.len) ==
		      0); /* the rest is dropped, not the middle */
		CHECK(!json_ok(&j) || json_check_valid(text, j.len));
		free(text);
	}
}

/* A short value that would still fit must not follow one that did not. */
static void full_stays_full(void)
{
	char text[8];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '[');
	json_text(&j, NULL, "much too long for it");
	CHECK(!json_ok(&j));
	size_t len = j.len;
	json_uint(&j, NULL, 1);
	json_close(&j, ']');
	CHECK(!json_ok(&j) && j.len == len);
}

static void grows_up_to_its_bound(void)
{
	struct json j;

	json_init_heap(&j, 5000);
	json_open(&j, NULL, '[');
	for (int i = 0; i < 1000; i++)
		json_uint(&j, NULL, 7);
	json_close(&j, ']');
	CHECK(json_ok(&j) && j.len == 2001 && j.cap <= 5000);
	CHECK(json_check_valid(j.text, j.len));
	for (int i = 0; i < 3000; i++)
		json_uint(&j, NULL, 7);
	CHECK(!json_ok(&j) && j.cap <= 5000 && j.len < 5000);
	json_release(&j);
	CHECK(!json_ok(&j));
}

static void bytes_may_hold_nuls(void)
{
	struct json j;

	json_init_heap(&j, 1000);
	json_open(&j, NULL, '{');
	json_bytes(&j, "a", "x\0y\xff\"\xc3\xa9", 7);
	json_int(&j, "b", -5);
	json_raw(&j, "c", "{\"d\":[]}");
	json_close(&j, '}');
	check_json(&j, "{\"a\":\"x\\u0000y\\ufffd\\\"\xc3\xa9\",\"b\":-5,\"c\":{\"d\":[]}}");
	json_release(&j);
}

TEST_MAIN({ "grows up to its bound", grows_up_to_its_bound },
	  { "bytes may hold NULs", bytes_may_hold_nuls },
	  { "the checker checks", the_checker_checks }, { "begins empty", begins_empty },
	  { "writes single values", writes_single_values },
	  { "places the commas", places_the_commas },
	  { "escapes what must be", escapes_what_must_be },
	  { "every byte is JSON", every_byte_is_json },
	  { "knows when it is full", knows_when_it_is_full },
	  { "full stays full", full_stays_full })
