/* Goal: nothing of a known value is shown, whatever its encoding and wherever a stream is cut; and
 * nothing else is touched. */
#include "mask.h"

#include "base64.h"
#include "support.h"

#define SECRET "s3cr3t/Va-lue+42"

static struct mask *one(const char *value, const char *pattern)
{
	size_t len = value == NULL ? 0 : strlen(value);
	struct err e;
	struct mask *m = mask_new(&value, &len, value != NULL, &pattern, pattern != NULL, &e);

	CHECK(m != NULL);
	return m;
}

/* Whole, then cut at every place, then in pieces of every size. */
static void check(const char *value, const char *pattern, const char *text, const char *want)
{
	struct mask *m = one(value, pattern);
	size_t len = strlen(text);
	char *whole = exact_copy(text, len + 1);
	uint8_t *out = malloc(2 * len + mask_reach(m) + 1);

	CHECK(out != NULL && strlen(want) == len);
	(void)mask_text(m, (uint8_t *)whole, len);
	CHECK_STR(whole, want);
	for (size_t step = 1; step <= len + 1; step++) {
		struct mask_stream s = { 0 };
		size_t n = 0;

		for (size_t i = 0; i < len; i += step) {
			size_t piece = len - i < step ? len - i : step;
			char *data = exact_copy(text + i, piece);

			n += mask_feed(m, &s, (const uint8_t *)data, piece, out + n);
			free(data);
		}
		n += mask_end(m, &s, out + n);
		CHECK_CASE(text, n == len && memcmp(out, want, len) == 0);
	}
	free(out);
	free(whole);
	mask_free(m);
}

static void covers_the_value(void)
{
	check(SECRET, NULL, "a " SECRET " b", "a **************** b");
	check(SECRET, NULL, SECRET, "****************");
	check(SECRET, NULL, SECRET SECRET, "********************************");
	check(SECRET, NULL, "s3cr3t/Va-lue+4",
	      "***************"); /* a long beginning, at the end */
	check(SECRET, NULL, "s3cr3t/Va-lue+43", "s3cr3t/Va-lue+43");
	check(SECRET, NULL, "s3cr3", "s3cr3");
	check("aaaaaaab", NULL, "aaaaaaaaaaaaaab.", "aaaaaaa********.");
	check("ababababab", NULL, "xabababababababy", "x**************y");
	check("tiny", NULL, "tiny", "tiny");
}

static void covers_base64(void)
{
	const char *fronts[] = { "", "x", "xy" };

	for (size_t i = 0; i < COUNT(fronts); i++) {
		char plain[64], text[128], want[128];
		size_t first = (8 * i + 5) / 6, end = 8 * (i + strlen(SECRET)) / 6;

		(void)snprintf(plain, sizeof(plain), "%s%s and more", fronts[i], SECRET);
		base64_encode(plain, strlen(plain), text);
		(void)snprintf(want, sizeof(want), "%s", text);
		memset(want + first, '*', end - first);
		check(SECRET, NULL, text, want);
		for (char *at = text; *at != '\0'; at++)
			*at = (char)(*at == '+' ? '-' : *at == '/' ? '_' : *at);
		check(SECRET, NULL, text, want);
	}
	/* "\xfb\xff\xfe..." has the characters in which the alphabets differ. */
	check("\xfb\xff\xfe\xfb\xff\xfe", NULL, "<-__--__->", "<********>");
	check("\xfb\xff\xfe\xfb\xff\xfe", NULL, "<+//++//+>", "<********>");
	/* base64(1) breaks lines. */
	check(SECRET, NULL, "[czNjcjN0L1ZhLW\r\nx1ZSs0Mg==]", "[***********************g==]");
}

static void covers_percent(void)
{
	check(SECRET, NULL, "?k=s3cr3t%2FVa-lue%2B42&x", "?k=********************&x");
	check(SECRET, NULL, "?k=s3cr3t%2fVa%2Dlue%2b42&x", "?k=**********************&x");
	check(SECRET, NULL, "%73%33%63%72%33%74%2F%56%61%2D%6C%75%65%2B%34%32.",
	      "************************************************.");
	check("two words", NULL, "q=two+words&", "q=*********&");
	check("two words", NULL, "q=two%20words&", "q=***********&");
	check("100%41abc", NULL, "[100%41abc] [100%2541abc]", "[*********] [***********]");
	check("Asecret", NULL, "%%41secret%4", "%*********%4");
	check("abc-secret", NULL, "100%abc-secret", "100%**********");
	check("1b-secret", NULL, "100%41b-secret", "100%4*********");
}

static void covers_json(void)
{
	check("line\n\"two\"/", NULL, "{\"k\":\"line\\n\\\"two\\\"/\"}",
	      "{\"k\":\"**************\"}");
	check("line\n\"two\"/", NULL, "{\"k\":\"line\\n\\\"two\\\"\\/\"}",
	      "{\"k\":\"***************\"}");
	check("line\n\"two\"/", NULL, "line\n\"two\"/.", "***********.");
}

static void breaks_end_a_match(void)
{
	check(SECRET, NULL, "s3cr3t/V\na-lue+42.", "*****************.");
	check(SECRET, NULL, "s3cr3t/V\n\n\na-lue+42.", "s3cr3t/V\n\n\na-lue+42.");
}

static void covers_patterns(void)
{
	const char *card = "[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{4}";

	check(NULL, card, "card 1234-5678-9012-3456!", "card *******************!");
	check(NULL, card, "card 1234-5678-9012-345", "card 1234-5678-9012-345");
	check(NULL, card, "91234-5678-9012-3456", "9*******************");
	check(NULL, "sk-[A-Za-z0-9]{4,8}", "sk-abc sk-abcd sk-abcdefghij",
	      "sk-abc ******* ***********ij");
	check(NULL, "[^ ]{2}\\[x.{0,2}\\]", "ab[x] ab[xyz] ab[xyzz]", "***** ******* ab[xyzz]");
	check(NULL, "%4[0-9]{3,4}", "%4123%41234", "***********");
	check("Asecret", "1[a-z]{3}", "%41sec", "%4****");
	check(SECRET, "lue.42[a-z]{4}", SECRET "abcd", "********************");
}

static void refuses_bad_patterns(void)
{
	static const char *const bad[] = { "",
					   "abc",
					   "a*bcd",
					   "a+bcd",
					   "(abcd)",
					   "ab|cd",
					   "[abcd",
					   "abcd[",
					   "abcd{2",
					   "abcd{3,2}",
					   "[]abcd",
					   "abcd\\",
					   "a{300}",
					   "[a-z]{200}[a-z]{57}",
					   "a{0,5}bcde",
					   "[z-a]bcd",
					   "a{0}bcde",
					   "abcd{}",
					   "{3}abc",
					   "abcd{,3}",
					   "a{1,3}b{0,9}c" };
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i], mask_pattern_check(bad[i], &e) < 0);
	CHECK(mask_pattern_check("abc", &e) < 0);
	CHECK(mask_pattern_check("a{1,3}b{0,9}cde", &e) == 0);
	CHECK(mask_pattern_check("[]-a]", &e) < 0);
	CHECK(mask_pattern_check("[\\]a-]{4}", &e) == 0);
}

/* What was shown since somebody waited is not shown again, and what follows is covered. */
static void flushes(void)
{
	struct mask *m = one(SECRET, NULL);
	struct mask_stream s = { 0 };
	uint8_t out[512];

	CHECK(mask_feed(m, &s, (const uint8_t *)"$ s3", 4, out) == 2 && memcmp(out, "$ ", 2) == 0);
	CHECK(mask_flush(m, &s, out) == 2 && memcmp(out, "s3", 2) == 0);
	CHECK(mask_flush(m, &s, out) == 0);
	CHECK(mask_feed(m, &s, (const uint8_t *)"cr3t/Va", 7, out) == 0);
	CHECK(mask_flush(m, &s, out) == 7 && memcmp(out, "*******", 7) == 0);
	CHECK(mask_feed(m, &s, (const uint8_t *)"-lue+42 b", 9, out) == 9);
	CHECK(memcmp(out, "******* b", 9) == 0);
	CHECK(mask_end(m, &s, out) == 0 && s.held == NULL);
	mask_free(m);
}

/* Nothing takes long: values made to be slow, in texts made for them. */
static void is_linear(void)
{
	size_t n = MASK_VALUE_MAX, text_n = 4U << 20;
	char *value = malloc(n + 1);
	uint8_t *text = malloc(text_n);
	struct mask *m;

	CHECK(value != NULL && text != NULL);
	memset(value, 'a', n);
	value[n] = '\0';
	memset(text, 'a', text_n);
	value[n - 1] = 'b';
	m = one(value, "a[a-z]{3,200}1");
	CHECK(mask_text(m, text, text_n) == 1); /* the beginning at its end */
	CHECK(text[0] == 'a' && text[text_n - 1] == '*');
	mask_free(m);
	value[n - 1] = 'a';
	m = one(value, NULL);
	CHECK(mask_text(m, text, text_n - n) == 1 && text[0] == '*');
	mask_free(m);
	free(value);
	free(text);
}

static void finds_many(void)
{
	const char *values[] = { "abcdef", "defghi", "cdefgh", "short" };
	size_t lens[] = { 6, 6, 6, 5 };
	char text[] = "abcdefghi abcdefgh short defghi";
	struct err e;
	struct mask *m = mask_new(values, lens, 4, NULL, 0, &e);

	CHECK(m != NULL);
	CHECK(mask_text(m, (uint8_t *)text, strlen(text)) == 3);
	CHECK_STR(text, "********* ******** short ******");
	mask_free(m);
	lens[0] = MASK_VALUE_MAX + 1;
	CHECK(mask_new(values, lens, 1, NULL, 0, &e) == NULL && e.code == ERR_LIMIT);
}

TEST_MAIN({ "covers the value", covers_the_value }, { "covers base64", covers_base64 },
	  { "covers percent-encoding", covers_percent }, { "covers JSON", covers_json },
	  { "breaks end a match", breaks_end_a_match }, { "covers patterns", covers_patterns },
	  { "refuses bad patterns", refuses_bad_patterns }, { "flushes", flushes },
	  { "is linear", is_linear }, { "finds many", finds_many })
