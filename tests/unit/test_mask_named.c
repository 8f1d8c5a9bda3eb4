/* Goal: things with a known form are covered, whole, wherever a stream is cut, and what only looks
 * like one is not. */
#include "lib/mask/mask.h"
#include "lib/mask/mask_private.h"

#include "support.h"

#define ALL ((1U << MASK_NAMES) - 1)

static struct mask *named(unsigned names)
{
	struct err e;
	struct mask *m = mask_new_named(NULL, NULL, 0, NULL, 0, names, &e);

	CHECK(m != NULL);
	return m;
}

/* Whole, then in pieces of every size. Stars in `want` are covered bytes. */
static void is_covered(unsigned names, const char *text, const char *want)
{
	struct mask *m = named(names);
	size_t len = strlen(text);
	char *whole = exact_copy(text, len + 1), *out = malloc(2 * len + 512);

	CHECK(strlen(want) == len && out != NULL);
	(void)mask_text(m, NULL, (uint8_t *)whole, len);
	CHECK_STR(whole, want);
	for (size_t step = 1; step <= len; step++) {
		struct mask_stream s = { 0 };
		uint64_t sum = 0;
		size_t n = 0;

		for (size_t i = 0; i < len; i += step)
			n += mask_feed(m, &s, (const uint8_t *)text + i,
				       len - i < step ? len - i : step, (uint8_t *)out + n);
		n += mask_end(m, &s, (uint8_t *)out + n);
		out[n] = '\0';
		CHECK_STR(out, want);
		for (size_t i = 0; i < MASK_COUNTS; i++)
			sum += s.counts[i];
		CHECK(sum == s.places);
	}
	free(whole);
	free(out);
	mask_free(m);
}

struct row {
	const char *text, *want;
};

static void rows(unsigned names, const struct row *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		is_covered(names, r[i].text, r[i].want == NULL ? r[i].text : r[i].want);
}

static void email(void)
{
	static const struct row r[] = {
		{ "to ann@example.com now", "to *************** now" },
		{ "ann.b+c@mail.example.co.uk", "**************************" },
		{ "<ann@example.com>, bob@x.org.", "<***************>, *********." },
		{ "\"a@b.io\"", "\"******\"" },
		{ "\033[1mann@example.com\033[0m", "\033[1m***************\033[0m" },
		{ "\033]0;a@b.io\007", "\033]0;******\007" },
		{ "ann@example", NULL },
		{ "@example.com", NULL },
		{ "ann@example..com", NULL },
		{ "ann@example.c", NULL },
		{ "ann@1.2", NULL },
		{ "git@@b.com x", NULL },
		{ "a @ b.com", NULL },
	};

	rows(1U << MASK_EMAIL, r, COUNT(r));
}

static void card(void)
{
	static const struct row r[] = {
		{ "4111111111111111", "****************" },
		{ "4111 1111 1111 1111 ok", "******************* ok" },
		{ "card:5500-0000-0000-0004,", "card:*******************," },
		{ "378282246310005", "***************" },
		{ "3782 822463 10005", "*****************" },
		{ "12 4111 1111 1111 1111", "12 *******************" },
		{ "4111111111111112", NULL },			  /* Luhn */
		{ "04111111111111111", NULL },			  /* longer, and 0 in front */
		{ "0.4111111111111111", NULL },			  /* a fraction */
		{ "a4111111111111111", NULL },			  /* inside of a word */
		{ "4111111111111111b", NULL },			  /* the same */
		{ "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", NULL },	  /* numbers */
		{ "6ba7b810-9dad-11d1-80b4-00c04fd430c8", NULL }, /* an id */
		{ "1763582400123", NULL },			  /* a time */
		{ "4111  1111 1111 1111", NULL },
	};

	rows(1U << MASK_CARD, r, COUNT(r));
}

static void iban(void)
{
	static const struct row r[] = {
		{ "DE89370400440532013000", "**********************" },
		{ "to DE89 3704 0044 0532 0130 00 today", "to *************************** today" },
		{ "GB82WEST12345698765432.", "**********************." },
		{ "NO9386011117947", "***************" },
		{ "DE88370400440532013000", NULL },  /* check digits */
		{ "DE8937040044053201300", NULL },   /* length */
		{ "XX89370400440532013000", NULL },  /* no such country */
		{ "aDE89370400440532013000", NULL }, /* inside of a word */
		{ "DE89 37 04 00 44 05 32 01 30 00", NULL },
	};

	rows(1U << MASK_IBAN, r, COUNT(r));
}

static void phone(void)
{
	static const struct row r[] = {
		{ "+491711234567", "*************" },
		{ "call +49 (0)30 123456-78!", "call *******************!" },
		{ "+1-555-123-4567", "***************" },
		{ "(555) 123-4567", "**************" },
		{ "555-123-4567,", "************," },
		{ "555.123.4567", "************" },
		{ "+1234567", NULL },	    /* too short */
		{ "1+123456789012", NULL }, /* a sum */
		{ "+0123456789", NULL },
		{ "2026-11-19", NULL },
		{ "1555-123-4567", NULL },
		{ "x-555-123-4567", NULL },
		{ "+1234567890123456", NULL }, /* too long */
	};

	rows(1U << MASK_PHONE, r, COUNT(r));
}

static void ip(void)
{
	static const struct row r[] = {
		{ "from 192.0.2.17.", "from **********." },
		{ "192.0.2.17:8080 x", "**********:8080 x" },
		{ "10.0.0.0/8", "********/8" },
		{ "[2001:db8::1]:80", "[***********]:80" },
		{ "fe80::1 up", "******* up" },
		{ "::ffff:192.0.2.1,", "****************," },
		{ "1.2.3", NULL },
		{ "256.1.1.1", NULL },
		{ "1.2.3.4.5", NULL },
		{ "v1.2.3.4", NULL },
		{ "12:34:56", NULL },
		{ "std::cafe", NULL },
		{ "01.02.03.04", NULL },
		{ "dead beef", NULL },
	};

	rows(1U << MASK_IP, r, COUNT(r));
}

static void token(void)
{
	static const struct row r[] = {
		{ "key=sk-abcdefghijklmnopqrst12", "key=*************************" },
		{ "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
		  "****************************************" },
		{ "AKIAIOSFODNN7EXAMPLE!", "********************!" },
		{ "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.x-_",
		  "Bearer ********************************************" },
		{ "sk-short1", NULL },
		{ "sk-learn-contrib-is-a-name-of-words-and-no-more", NULL },
		{ "task-abcdefghijklmnopqrst12345", NULL },
		{ "AKIA is a word", NULL },
	};

	rows(1U << MASK_TOKEN, r, COUNT(r));
}

/* A key that is longer than what a stream holds back. */
static void long_tokens(void)
{
	char text[1200] = "ya29.", want[sizeof(text)];

	for (size_t i = 5; i < sizeof(text) - 1; i++)
		text[i] = "abc9_"[i % 5];
	text[sizeof(text) - 1] = '\0';
	memset(want, '*', sizeof(want) - 1);
	want[sizeof(want) - 1] = '\0';
	is_covered(1U << MASK_TOKEN, text, want);
}

static void all_together(void)
{
	is_covered(ALL, "ann@x.org +491711234567 4111111111111111 DE89370400440532013000 10.0.0.1",
		   "********* ************* **************** ********************** ********");
	is_covered(ALL, "nothing of that: 12, a-b, c@d, 1.2.3, main.c:12:3",
		   "nothing of that: 12, a-b, c@d, 1.2.3, main.c:12:3");
	is_covered(0, "ann@x.org", "ann@x.org");
}

/* Names that are not wanted are not looked for. */
static void only_wanted_names(void)
{
	for (unsigned i = 0; i < MASK_NAMES; i++)
		for (unsigned k = 0; k < MASK_NAMES; k++) {
			static const char *const one[MASK_NAMES] = {
				"ann@x.org",	    "+491711234567",
				"4111111111111111", "DE89370400440532013000",
				"10.0.0.1",	    "sk-abcdefghijklmnopqrst12",
			};
			struct mask *m = named(1U << k);
			char text[64];

			(void)snprintf(text, sizeof(text), "%s", one[i]);
			CHECK(mask_text(m, NULL, (uint8_t *)text, strlen(text)) == (i == k));
			mask_free(m);
		}
}

/* What a program has printed is decided when its time is over, also without an end. */
static void at_ticks(void)
{
	struct mask *m = named(ALL);
	struct mask_stream s = { 0 };
	uint8_t out[256];
	size_t n = mask_feed(m, &s, (const uint8_t *)"4111111111111111", 16, out);

	CHECK(n == 0);
	n += mask_tick(m, &s, false, out);
	n += mask_tick(m, &s, false, out + n);
	CHECK(n == 16 && memcmp(out, "****************", 16) == 0);
	CHECK(s.counts[MASK_CARD] == 1 && s.places == 1);
	n = mask_feed(m, &s, (const uint8_t *)"\n", 1, out);
	n += mask_end(m, &s, out + n);
	CHECK(n == 1 && out[0] == '\n' && s.counts[MASK_CARD] == 1);
	mask_free(m);
}

static void names(void)
{
	enum mask_name got;

	for (unsigned i = 0; i < MASK_NAMES; i++)
		CHECK(mask_name_read(mask_name_words[i], &got) && got == i);
	CHECK(!mask_name_read("", &got) && !mask_name_read("e-mail", &got));
}

/* Text made to cost much: a bounded number of steps for each byte. */
static void cost(void)
{
	static const char *const worst[] = { "a.",    "1 ", "1-",  "1:", "AA ",
					     "0000 ", "@",  "sk-", "+1 " };
	struct mask *m = named(ALL);
	static uint8_t text[200000];

	for (size_t i = 0; i < COUNT(worst); i++) {
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = (uint8_t)worst[i][k % strlen(worst[i])];
		(void)mask_text(m, NULL, text, sizeof(text)); /* ends within the test's alarm */
	}
	mask_free(m);
}

TEST_MAIN({ "email", email }, { "card", card }, { "iban", iban }, { "phone", phone }, { "ip", ip },
	  { "token", token }, { "long tokens", long_tokens }, { "all together", all_together },
	  { "only wanted names", only_wanted_names }, { "at ticks", at_ticks }, { "names", names },
	  { "cost", cost })
