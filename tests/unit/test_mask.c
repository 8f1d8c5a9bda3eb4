/* Goal: whole values are covered, whatever their encoding and wherever a stream is cut; nothing
 * else is touched; and neither what is shown nor when depends on a part of a value. */
#include "lib/mask/mask.h"

#include "lib/base/base64.h"
#include "lib/mask/mask_private.h"
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

/* In pieces of one size. Returns how much came out. */
static size_t in_pieces(const struct mask *m, const uint8_t *text, size_t len, size_t step,
			uint8_t *out)
{
	struct mask_stream s = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < len; i += step) {
		size_t piece = len - i < step ? len - i : step;
		uint8_t *data = exact_copy(text + i, piece);

		n += mask_feed(m, &s, data, piece, out + n);
		CHECK(mask_stream_held(&s) == i + piece - n);
		free(data);
	}
	n += mask_end(m, &s, out + n);
	return n;
}

/* In place, in steps of one size. */
static void by_steps(const struct mask *m, const char *text, size_t len, size_t step,
		     const char *want)
{
	char *copy = exact_copy(text, len + 1);
	struct mask_work w = { 0 };

	while (len > 0 && !mask_work_step(m, &w, (uint8_t *)copy, len, step))
		CHECK(w.at > 0 && w.at < len);
	CHECK_STR(copy, want);
	CHECK(w.scan == NULL && (w.places > 0) == (strcmp(text, want) != 0));
	free(copy);
}

/* Whole, then in pieces of every size. */
static void check(const char *value, const char *pattern, const char *text, const char *want)
{
	struct mask *m = one(value, pattern);
	size_t len = strlen(text);
	char *whole = exact_copy(text, len + 1);
	uint8_t *out = malloc(2 * len + mask_hold(m) + 1);

	CHECK(out != NULL && strlen(want) == len);
	(void)mask_text(m, NULL, (uint8_t *)whole, len);
	CHECK_STR(whole, want);
	for (size_t step = 1; step <= len + 1; step++) {
		CHECK_CASE(text, in_pieces(m, (const uint8_t *)text, len, step, out) == len &&
					 memcmp(out, want, len) == 0);
		by_steps(m, text, len, step, want);
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
	check(SECRET, NULL, "s3cr3t/Va-lue+43", "s3cr3t/Va-lue+43");
	check("aaaaaaab", NULL, "aaaaaaaaaaaaaab.", "aaaaaaa********.");
	check("ababababab", NULL, "xabababababababy", "x**************y");
	check("tiny", NULL, "tiny", "tiny");
}

/* No beginning, no end and no middle. */
static void shows_parts(void)
{
	size_t len = strlen(SECRET);

	for (size_t from = 0; from < len; from++)
		for (size_t to = from + 1; to <= len; to++) {
			char text[64];

			if (to - from == len)
				continue;
			(void)snprintf(text, sizeof(text), "%.*s", (int)(to - from), &SECRET[from]);
			check(SECRET, NULL, text, text);
		}
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
	check("secret%4", NULL, "%73ecret%4", "**********");
}

static void covers_json(void)
{
	check("line\n\"two\"/", NULL, "{\"k\":\"line\\n\\\"two\\\"/\"}",
	      "{\"k\":\"**************\"}");
	check("line\n\"two\"/", NULL, "{\"k\":\"line\\n\\\"two\\\"\\/\"}",
	      "{\"k\":\"***************\"}");
	check("line\n\"two\"/", NULL, "line\n\"two\"/.", "***********.");
	/* As Go and Rails write it, and as a writer may. */
	check("p<w>&q'r\"", NULL, "\"p\\u003cw\\u003e\\u0026q\\u0027r\\\"\"",
	      "\"******************************\"");
	check("secret", NULL, "\\u0073\\u0065\\u0063\\u0072\\u0065\\u0074!",
	      "************************************!");
	check("secr\xc3\xa9t", NULL, "\"secr\\u00e9t\"", "\"***********\"");
	check("nsecret", NULL, "C:\\nsecret", "C:\\*******");
	check("C:\\nsecret", NULL, "C:\\nsecret C:\\\\nsecret", "********** ***********");
	check("u0041secret", NULL, "\\u0041secret", "\\***********");
	check("secret", NULL, "\\secret\\u00 \\x73ecret", "\\******\\u00 *********");
}

/* Characters above U+FFFF, in JSON of ASCII and in Python's ascii(). */
static void covers_pairs(void)
{
	check("pass\xf0\x9f\x98\x80word", NULL, "\"pass\\ud83d\\ude00word\"",
	      "\"********************\"");
	check("pass\xf0\x9f\x98\x80word", NULL, "'pass\\U0001f600word'", "'******************'");
	check("\xf0\x9f\x98\x80\xf0\x9f\x98\x81", NULL, "\\uD83D\\uDE00\\ud83d\\ude01.",
	      "************************.");
	/* Halves that have no other one do not hide what is next to them. */
	check("\tsecret", NULL, "\\ud83d\\tsecret", "\\ud83d********");
	check("\tsecret", NULL, "\\ud83d\\u0009secret", "\\ud83d************");
	check("pass\xf0\x9f\x98\x80", NULL, "\\ud83dpass\\ud83d\\ude00", "\\ud83d****************");
	check("pass\xf0\x9f\x98\x80", NULL, "\\ud83d\\ud83dpass\\ud83d\\ude00",
	      "\\ud83d\\ud83d****************");
	check("secret", NULL, "\\ud83dsecret \\ud83d\\secret", "\\ud83d****** \\ud83d\\******");
}

/* An escape in an escape: repr() in JSON, JSON in JSON, a URL in HTML. */
static void covers_escapes_of_escapes(void)
{
	check("KEY\nMIIE\nEND", NULL, "{\"text\":\"'KEY\\\\nMIIE\\\\nEND'\"}",
	      "{\"text\":\"'****************'\"}");
	check("a\"b\\cdef", NULL, "\"'a\\\"b\\\\\\\\cdef'\"", "\"'************'\"");
	check("tab\there", NULL, "tab\\\\there tab\\u005cthere.", "********** **************.");
	check("del\x7f!!", NULL, "'del\\\\x7f!!'", "'**********'");
	check("pass\xf0\x9f\x98\x80word", NULL, "pass\\\\U0001f600word pass\\\\ud83d\\\\ude00word",
	      "******************* **********************");
	check("p<w>&q", NULL, "p&amp;lt;w&amp;gt;&amp;amp;q.", "****************************.");
	check("100%41abc", NULL, "[100%252541abc]", "[*************]");
	/* What was found without them is found with them in front, and the text after them, too. */
	check("secret", NULL, "\\\\nsecret \\\\n\\\\n secret", "\\\\n****** \\\\n\\\\n ******");
	check("two\\nlines", NULL, "two\\\\nlines \\\\n two\\nlines",
	      "*********** \\\\n **********");
}

static void covers_html(void)
{
	check("p<w>&q'r\"", NULL, "p&lt;w&gt;&amp;q&#39;r&quot;.", "****************************.");
	check("p<w>&q'r\"", NULL, "p&#60;w&#x3E;&#38;q&apos;r&#34;.",
	      "*******************************.");
	check("secret", NULL, "&#115;&#x65;&#00099;ret &#115ecret",
	      "*********************** &#115ecret");
	check("lt;secret", NULL, "&lt;secret", "&*********");
	check("secret", NULL, "&&lt&secret&amp", "&&lt&******&amp");
}

static void line_breaks_do_not_matter(void)
{
	check(SECRET, NULL, "s3cr3t/V\na-lue+42.", "*****************.");
	check(SECRET, NULL, "s3cr3t/V\n\n\na-lue+42\n.", "*******************\n.");
	check("a\n\n\n\nbcdefg", NULL, "a\n\n\n\nbcdefg", "***********");
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

static size_t feed(const struct mask *m, struct mask_stream *s, const char *text, uint8_t *out)
{
	return mask_feed(m, s, (const uint8_t *)text, strlen(text), out);
}

/* A byte is let go at the second tick; what follows is covered only if a value is completed. */
static void lets_go_by_ticks(void)
{
	struct mask *m = one(SECRET, NULL);
	struct mask_stream s = { 0 };
	uint8_t out[512];

	CHECK(feed(m, &s, "$ s3", out) == 0);
	CHECK(mask_tick(m, &s, false, out) == 0);
	CHECK(feed(m, &s, "cr3t/Va", out) == 0);
	CHECK(mask_tick(m, &s, false, out) == 4 && memcmp(out, "$ s3", 4) == 0);
	CHECK(mask_tick(m, &s, false, out) == 7 && memcmp(out, "cr3t/Va", 7) == 0);
	CHECK(mask_tick(m, &s, false, out) == 0 && mask_stream_held(&s) == 0);
	CHECK(feed(m, &s, "-lue+42 b", out) == 0);
	CHECK(mask_flush(m, &s, out) == 9 && memcmp(out, "******* b", 9) == 0);
	CHECK(s.places == 1);
	CHECK(mask_end(m, &s, out) == 0 && s.state == NULL);
	mask_free(m);
}

/* With whole words, the end of a word waits for the next, or for a long time. */
static void lets_words_go(void)
{
	struct mask *m = one(SECRET, NULL);
	struct mask_stream s = { 0 };
	uint8_t out[512];
	int ticks = 0;

	CHECK(feed(m, &s, "data: {\"x\"}\n\nnext", out) == 0 && mask_tick(m, &s, true, out) == 0);
	CHECK(mask_tick(m, &s, true, out) == 13 && mask_stream_held(&s) == 4);
	CHECK(mask_tick(m, &s, true, out) == 0 && mask_stream_held(&s) == 4);
	CHECK(feed(m, &s, " word", out) == 0 && mask_tick(m, &s, true, out) == 0);
	CHECK(mask_tick(m, &s, true, out) == 5 && memcmp(out, "next ", 5) == 0);
	while (mask_tick(m, &s, true, out) == 0)
		ticks++;
	CHECK(ticks == MASK_WORD_TICKS && mask_stream_held(&s) == 0);
	mask_stream_release(&s);
	mask_free(m);
	/* A value with a space in it: lines only. */
	m = one("correct horse", NULL);
	CHECK(feed(m, &s, "a\ncorrect ", out) == 0 && mask_tick(m, &s, true, out) == 0);
	CHECK(mask_tick(m, &s, true, out) == 2 && mask_stream_held(&s) == 8);
	mask_stream_release(&s);
	mask_free(m);
}

/* What came out of a stream and how much was held, after each of its pieces and ticks. */
static void play(const struct mask *m, const char *text, size_t step, uint8_t *out, size_t *held)
{
	struct mask_stream s = { 0 };
	size_t n = 0, len = strlen(text), k = 0;

	for (size_t i = 0; i < len; i += step) {
		size_t piece = len - i < step ? len - i : step;

		n += mask_feed(m, &s, (const uint8_t *)text + i, piece, out + n);
		held[k++] = mask_stream_held(&s);
		if (k % 3 == 0) {
			n += mask_tick(m, &s, k % 2 == 0, out + n);
			held[k++] = mask_stream_held(&s);
		}
	}
	n += mask_end(m, &s, out + n);
	CHECK(n == len && memcmp(out, text, len) == 0 && s.places == 0);
	held[k] = SIZE_MAX;
}

/* Of a right guess of a part and a wrong one the same is seen, at the same times. */
static void tells_nothing_of_parts(void)
{
	struct mask *m = one(SECRET, NULL);
	char right[512], wrong[512];
	uint8_t out[1024];
	size_t a[1024], b[1024];

	for (size_t known = 1; known < strlen(SECRET); known++)
		for (size_t step = 1; step < 20; step++) {
			(void)snprintf(right, sizeof(right), "~%.*s~%.*s", (int)known, SECRET,
				       (int)known, SECRET);
			(void)snprintf(wrong, sizeof(wrong), "%s", right);
			wrong[known] ^= 1;
			wrong[2 * known + 1] ^= 1;
			play(m, right, step, out, a);
			play(m, wrong, step, out, b);
			for (size_t k = 0; a[k] != SIZE_MAX || b[k] != SIZE_MAX; k++)
				CHECK(a[k] == b[k]);
		}
	mask_free(m);
}

/* A value that was found leaves as a whole: a daemon that dies in between would show the rest. */
static void is_not_parted(void)
{
	struct mask *m = one(SECRET, NULL);
	struct mask_stream s = { 0 };
	uint8_t text[1000], out[2000];
	size_t n = 0;

	memset(text, '.', sizeof(text));
	memcpy(text + 500, SECRET, strlen(SECRET));
	for (size_t i = 0; i < sizeof(text); i++) {
		n += mask_feed(m, &s, text + i, 1, out + n);
		CHECK(n <= 500 || n >= 500 + strlen(SECRET));
	}
	n += mask_end(m, &s, out + n);
	CHECK(n == sizeof(text) && out[499] == '.' && out[500] == '*' && s.places == 1);
	mask_free(m);
}

static void finds_many(void)
{
	const char *values[] = { "abcdef", "defghi", "cdefgh", "short" };
	size_t lens[] = { 6, 6, 6, 5 };
	char text[] = "abcdefghi abcdefgh short defghi", again[] = "abcdefghi defghi cdefgh";
	struct mask_pick only = { 0 };
	struct err e;
	struct mask *m = mask_new(values, lens, 4, NULL, 0, &e);

	CHECK(m != NULL);
	CHECK(mask_text(m, NULL, (uint8_t *)text, strlen(text)) == 3);
	CHECK_STR(text, "********* ******** short ******");
	mask_pick_add(&only, 1);
	CHECK(mask_text(m, &only, (uint8_t *)again, strlen(again)) == 2);
	CHECK_STR(again, "abc****** ****** cdefgh");
	mask_free(m);
	lens[0] = MASK_VALUE_MAX + 1;
	CHECK(mask_new(values, lens, 1, NULL, 0, &e) == NULL && e.code == ERR_LIMIT);
}

/* Another mask takes over in the middle of a value, and finds it. */
static void changes_masks(void)
{
	struct mask *a = one("first-value", NULL), *b = one("second-value", NULL);
	struct mask_stream s = { 0 };
	uint8_t out[512];

	CHECK(feed(a, &s, "first-value second-", out) == 0);
	CHECK(feed(b, &s, "value first-value", out) == 0);
	CHECK(mask_end(b, &s, out) == 36);
	CHECK(memcmp(out, "*********** ************ first-value", 36) == 0);
	mask_free(a);
	mask_free(b);
}

/* The beginning of a value was given out before another mask took over: the rest is covered, also
 * if the beginning ends inside of an escape or a line break is between, and if the new mask has a
 * longer value. */
static void changes_masks_inside_a_value(void)
{
	static const struct {
		const char *first, *rest, *want;
	} cases[] = {
		{ "x second-", "value y", "***** y" },
		{ "x seco", "nd-value y", "******** y" },
		{ "x second%", "2dvalue y", "******* y" },
		{ "x sec\\u006", "fnd-value y", "********* y" },
		{ "x second\n-", "val\nue y", "****** y" },
		{ "x seconds", "value y", "value y" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct mask *a = one("second-value", NULL), *b = one("second-value", NULL);
		const char *values[] = { "a value that is longer than that", "second-value" };
		size_t lens[] = { strlen(values[0]), strlen(values[1]) };
		struct err e;
		struct mask *c = mask_new(values, lens, 2, NULL, 0, &e);
		struct mask_stream s = { 0 };
		size_t n = strlen(cases[i].first), rest = strlen(cases[i].rest);
		uint8_t out[512];

		CHECK(c != NULL);
		CHECK(feed(a, &s, cases[i].first, out) == 0);
		CHECK(mask_tick(a, &s, false, out) == 0);
		CHECK(mask_tick(b, &s, false, out) == n);
		CHECK_CASE(cases[i].first, memcmp(out, cases[i].first, n) == 0);
		mask_free(a);
		CHECK(feed(c, &s, cases[i].rest, out) == 0);
		mask_free(b);
		CHECK(mask_end(c, &s, out) == rest);
		CHECK_CASE(cases[i].first, memcmp(out, cases[i].want, rest) == 0);
		mask_free(c);
	}
}

/* Steps are counted for values made to be slow, in a text made for them. */
static void check_steps(const char *const *values, const size_t *lens, size_t n,
			const uint8_t *text, size_t text_n)
{
	struct err e;
	struct mask *m = mask_new(values, lens, n, NULL, 0, &e);
	struct mask_scan *s;

	CHECK(m != NULL);
	CHECK(mask_cost(m) <= 3 * (MASK_WINDOWS + 4 * n) && mask_turn(m) >= 4096);
	s = mask_scan_new(m);
	CHECK(s != NULL);
	mask_scan_feed(s, text, text_n);
	CHECK(s->steps <= text_n * mask_cost(m));
	CHECK(s->cap <= text_n / MASK_VALUE_MIN + 16);
	mask_scan_free(s);
	mask_free(m);
}

/* Values that end alike, of many lengths: one after another in others, or with other beginnings. */
static size_t make_alike(char *to, unsigned *x)
{
	size_t n = 0, beginning, as;

	*x = *x * 1103515245 + 12345;
	beginning = *x / 65536 % 5;
	*x = *x * 1103515245 + 12345;
	as = 6 + *x / 65536 % (*x / 1048576 % 3 == 0 ? 400 : 70);
	for (size_t i = 0; i < beginning; i++) {
		*x = *x * 1103515245 + 12345;
		to[n++] = "abc"[*x / 65536 % 3];
	}
	memset(to + n, 'a', as);
	return n + as;
}

/* The search over lengths covers the same as a look at each value. */
static void finds_the_longest_of_many_lengths(void)
{
	enum { N = 200, TEXT = 4000, ROUNDS = 60 };
	static char values[N][512], text[TEXT + 1], copy[TEXT + 1];
	const char *at[N];
	size_t lens[N];
	struct mask_pick all = { 0 };
	unsigned x = 7;
	struct err e;

	for (size_t i = 0; i < N; i++)
		mask_pick_add(&all, i);
	for (int round = 0; round < ROUNDS; round++) {
		size_t n = 1 + (size_t)round * 5 % N;
		struct mask *m;

		for (size_t i = 0; i < n; i++) {
			lens[i] = make_alike(values[i], &x);
			at[i] = values[i];
		}
		m = mask_new(at, lens, n, NULL, 0, &e);
		CHECK(m != NULL);
		for (size_t used = 0; used + 512 < TEXT;) {
			used += make_alike(text + used, &x);
			memset(text + used, 'd', TEXT - used);
		}
		memcpy(copy, text, TEXT);
		CHECK(mask_text(m, NULL, (uint8_t *)text, TEXT) ==
		      mask_text(m, &all, (uint8_t *)copy, TEXT));
		CHECK(memcmp(text, copy, TEXT) == 0 && memchr(text, '*', TEXT) != NULL);
		mask_free(m);
	}
}

/* A dozen steps for a byte, not one for each value. */
static void many_values_that_end_alike_cost_little(void)
{
	enum { N = 1000, TEXT = 20000, STEPS = 3 * (MASK_WINDOWS + 4 * 11) };
	static char values[N][1200];
	static uint8_t text[TEXT];
	const char *at[N];
	size_t lens[N];
	struct mask_scan *s;
	struct mask *m;
	struct err e;

	for (size_t i = 0; i < N; i++) {
		memset(values[i], 'a', sizeof(values[i]));
		values[i][0] = 'b';
		at[i] = values[i];
		lens[i] = 60 + i;
	}
	memset(text, 'a', sizeof(text));
	m = mask_new(at, lens, N, NULL, 0, &e);
	CHECK(m != NULL);
	s = mask_scan_new(m);
	CHECK(s != NULL);
	mask_scan_feed(s, text, sizeof(text));
	CHECK(s->steps <= TEXT * (size_t)STEPS);
	mask_scan_free(s);
	mask_free(m);
}

static void is_linear(void)
{
	enum { N = 32, LEN = 20004, TEXT = 200000 };
	char *values[N];
	size_t lens[N];
	uint8_t *text = malloc(TEXT);

	CHECK(text != NULL);
	memset(text, 'a', TEXT);
	for (int i = 0; i < N; i++) {
		values[i] = malloc(LEN + 1);
		CHECK(values[i] != NULL);
		memset(values[i], 'a', LEN - 4);
		(void)snprintf(values[i] + LEN - 4, 5, "%04d", i);
		lens[i] = LEN;
	}
	check_steps((const char *const *)values, lens, N, text, TEXT);
	for (int i = 0; i < N; i++) { /* all end with what the text is of, with different lengths */
		memset(values[i], 'a', LEN);
		values[i][0] = 'b';
		lens[i] = LEN - (size_t)i;
	}
	check_steps((const char *const *)values, lens, N, text, TEXT);
	for (int i = 0; i < N; i++) /* one ends with each byte */
		values[i][0] = 'a';
	check_steps((const char *const *)values, lens, N, text, TEXT);
	for (int i = 0; i + 1 < TEXT; i += 2) /* escapes, so that all views differ */
		memcpy(text + i, i % 8 == 0 ? "\\\\" : "aa", 2);
	check_steps((const char *const *)values, lens, N, text, TEXT);
	for (int i = 0; i < N; i++)
		free(values[i]);
	free(text);
}

/* Of a long value the end is compared; all of it is covered that is still held. */
static void covers_long_values(void)
{
	size_t n = MASK_VALUE_MAX;
	char *value = malloc(n + 1);
	uint8_t *text = malloc(3 * n), *out = malloc(4 * n);
	char *coded = malloc(2 * n);
	struct mask *m;

	CHECK(value != NULL && text != NULL && out != NULL && coded != NULL);
	for (uint32_t i = 0, x = 1; i < n; i++, x = x * 1664525 + 1013904223)
		value[i] = (char)('!' + (x >> 16) % 89);
	value[n] = '\0';
	m = one(value, NULL);
	memset(text, '.', 3 * n);
	memcpy(text + n, value, n);
	CHECK(in_pieces(m, text, 3 * n, 1000, out) == 3 * n);
	for (size_t i = 0; i < 3 * n; i++)
		CHECK(out[i] == (i >= n && i < 2 * n ? '*' : '.'));
	for (size_t j = 0; j < 3; j++) { /* in base64 */
		size_t first = (8 * j + 5) / 6, end = 8 * (j + n) / 6;

		memset(text, '.', j);
		memcpy(text + j, value, n);
		base64_encode(text, n + j, coded);
		CHECK(in_pieces(m, (const uint8_t *)coded, strlen(coded), 1000, out) ==
		      strlen(coded));
		for (size_t i = 0; coded[i] != '\0'; i++)
			CHECK(out[i] == (i >= first && i < end ? '*' : (uint8_t)coded[i]));
	}
	free(coded);
	mask_free(m);
	free(value);
	free(text);
	free(out);
}

/* Two long values with the same end: where the longer one is, all of it is covered, whichever was
 * given first. */
static void covers_the_longer_value(void)
{
	const size_t n = 5000, more = 1000;
	char *longer = malloc(n + more + 1);
	uint8_t *text = malloc(n + more);
	struct err e;

	CHECK(longer != NULL && text != NULL);
	for (uint32_t i = 0, x = 7; i < n + more; i++, x = x * 1664525 + 1013904223)
		longer[i] = (char)('a' + (x >> 16) % 26);
	longer[n + more] = '\0';
	for (int first = 0; first < 2; first++) {
		const char *values[] = { longer + (first == 0 ? more : 0),
					 longer + (first == 0 ? 0 : more) };
		size_t lens[] = { strlen(values[0]), strlen(values[1]) };
		struct mask *m = mask_new(values, lens, 2, NULL, 0, &e);

		CHECK(m != NULL);
		memcpy(text, longer, n + more);
		CHECK(mask_text(m, NULL, text, n + more) > 0);
		for (size_t i = 0; i < n + more; i++)
			CHECK(text[i] == '*');
		mask_free(m);
	}
	free(longer);
	free(text);
}

/* What a stream holds is counted, also while its mask is gone. */
static void counts_memory(void)
{
	static char value[MASK_VALUE_MAX];
	static uint8_t data[16384], out[sizeof(data) + 2 * MASK_VALUE_MAX];
	struct mask_stream s = { 0 };
	struct mask *m;

	CHECK(mask_stream_memory(&s) == 0);
	memset(value, 'v', sizeof(value) - 1);
	m = one(value, NULL);
	for (int i = 0; i < 8; i++)
		(void)mask_feed(m, &s, data, sizeof(data), out);
	mask_free(m);
	CHECK(mask_stream_held(&s) > 65536 &&
	      mask_stream_memory(&s) > mask_stream_held(&s) + 65536);
	mask_stream_release(&s);
	CHECK(mask_stream_memory(&s) == 0);
}

/* A value of many steps is covered from its first byte, and another mask begins again. */
static void covers_long_texts_in_steps(void)
{
	size_t len = MASK_VALUE_MAX, all = len + 20;
	char *value = malloc(len + 1), *text = malloc(all + 1);
	struct mask_work w = { 0 };
	struct mask *m, *other;
	unsigned x = 1; /* no period */

	CHECK(value != NULL && text != NULL);
	for (size_t i = 0; i < len; i++)
		value[i] = (char)('a' + (x = x * 1103515245 + 12345) / 65536 % 26);
	value[len] = '\0';
	memset(text, '.', all);
	memcpy(text + 10, value, len);
	text[all] = '\0';
	m = one(value, NULL);
	other = one("another value", NULL);
	CHECK(!mask_work_step(other, &w, (uint8_t *)text, all, 1000));
	CHECK(!mask_work_step(m, &w, (uint8_t *)text, all, 16384) && w.at == 16384);
	while (!mask_work_step(m, &w, (uint8_t *)text, all, 16384))
		;
	CHECK(w.places == 1);
	for (size_t i = 0; i < all; i++)
		CHECK(text[i] == (i < 10 || i >= 10 + len ? '.' : '*'));
	mask_free(other);
	mask_free(m);
	free(value);
	free(text);
}

TEST_MAIN({ "covers the value", covers_the_value }, { "shows parts", shows_parts },
	  { "covers base64", covers_base64 }, { "covers percent-encoding", covers_percent },
	  { "covers JSON", covers_json }, { "covers HTML", covers_html },
	  { "covers pairs", covers_pairs },
	  { "covers escapes of escapes", covers_escapes_of_escapes },
	  { "line breaks do not matter", line_breaks_do_not_matter },
	  { "covers patterns", covers_patterns }, { "refuses bad patterns", refuses_bad_patterns },
	  { "lets go by ticks", lets_go_by_ticks }, { "lets words go", lets_words_go },
	  { "tells nothing of parts", tells_nothing_of_parts }, { "is not parted", is_not_parted },
	  { "finds many", finds_many }, { "changes masks", changes_masks },
	  { "changes masks inside a value", changes_masks_inside_a_value },
	  { "is linear", is_linear },
	  { "finds the longest of many lengths", finds_the_longest_of_many_lengths },
	  { "many values that end alike cost little", many_values_that_end_alike_cost_little },
	  { "covers long values", covers_long_values },
	  { "covers the longer value", covers_the_longer_value },
	  { "covers long texts in steps", covers_long_texts_in_steps },
	  { "counts memory", counts_memory })
