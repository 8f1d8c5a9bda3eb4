/* Goal: exactly the characters of Unicode are text, in exactly one form each. */
#include "lib/base/utf8.h"

#include "support.h"

/* The shortest form of a number, whether it is a character or not. */
static size_t encode(uint32_t code, uint8_t ret[4])
{
	if (code < 0x80) {
		ret[0] = (uint8_t)code;
		return 1;
	}
	if (code < 0x800) {
		ret[0] = (uint8_t)(0xc0 | code >> 6);
		ret[1] = (uint8_t)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		ret[0] = (uint8_t)(0xe0 | code >> 12);
		ret[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
		ret[2] = (uint8_t)(0x80 | (code & 0x3f));
		return 3;
	}
	ret[0] = (uint8_t)(0xf0 | code >> 18);
	ret[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
	ret[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
	ret[3] = (uint8_t)(0x80 | (code & 0x3f));
	return 4;
}

static void takes_every_character(void)
{
	for (uint32_t code = 0; code < 0x200000; code++) {
		uint8_t bytes[5] = { 0, 0, 0, 0, 'x' };
		size_t n = encode(code, bytes);
		size_t want = code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : n;

		if (utf8_length(bytes, n) != want || utf8_length(bytes, sizeof(bytes)) != want)
			printf("# U+%04X\n", code);
		CHECK(utf8_length(bytes, n) == want);
		CHECK(utf8_length(bytes, sizeof(bytes)) == want); /* what follows does not matter */
	}
}

/* Every lead byte with every tail at an edge: what is taken decodes to a number that needs as many
 * bytes. */
static void takes_nothing_else(void)
{
	static const uint8_t edges[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
					 0x9f, 0xa0, 0xbf, 0xc0, 0xff };
	const size_t n = COUNT(edges);

	for (unsigned lead = 0; lead < 256; lead++)
		for (size_t i = 0; i < n * n * n; i++) {
			const uint8_t bytes[4] = { (uint8_t)lead, edges[i % n], edges[i / n % n],
						   edges[i / n / n] };
			uint8_t again[4];
			size_t got = utf8_length(bytes, 4);
			uint32_t code = got == 1 ? lead : lead & (0xffU >> (got + 1));

			CHECK(got <= 4);
			for (size_t k = 1; k < got; k++)
				code = code << 6 | (bytes[k] & 0x3fU);
			if (got > 0)
				CHECK(encode(code, again) == got && memcmp(again, bytes, got) == 0);
			CHECK(got == 0 || (code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)));
		}
}

static const struct {
	const char *name, *bytes;
	size_t len, want;
} cases[] = {
	{ "NUL is a character", "\0", 1, 1 },
	{ "DEL", "\x7f", 1, 1 },
	{ "a tail alone", "\x80", 1, 0 },
	{ "the last tail alone", "\xbf", 1, 0 },
	{ "overlong NUL", "\xc0\x80", 2, 0 },
	{ "overlong slash", "\xc0\xaf", 2, 0 },
	{ "overlong DEL", "\xc1\xbf", 2, 0 },
	{ "first of two", "\xc2\x80", 2, 2 },
	{ "last of two", "\xdf\xbf", 2, 2 },
	{ "overlong in three", "\xe0\x80\xaf", 3, 0 },
	{ "last overlong in three", "\xe0\x9f\xbf", 3, 0 },
	{ "first of three", "\xe0\xa0\x80", 3, 3 },
	{ "before the surrogates", "\xed\x9f\xbf", 3, 3 },
	{ "first surrogate", "\xed\xa0\x80", 3, 0 },
	{ "last surrogate", "\xed\xbf\xbf", 3, 0 },
	{ "after the surrogates", "\xee\x80\x80", 3, 3 },
	{ "last of three", "\xef\xbf\xbf", 3, 3 },
	{ "overlong in four", "\xf0\x80\x80\xaf", 4, 0 },
	{ "last overlong in four", "\xf0\x8f\xbf\xbf", 4, 0 },
	{ "first of four", "\xf0\x90\x80\x80", 4, 4 },
	{ "last character", "\xf4\x8f\xbf\xbf", 4, 4 },
	{ "one beyond", "\xf4\x90\x80\x80", 4, 0 },
	{ "far beyond", "\xf5\x80\x80\x80", 4, 0 },
	{ "five bytes", "\xf8\x88\x80\x80\x80", 5, 0 },
	{ "six bytes", "\xfc\x84\x80\x80\x80\x80", 6, 0 },
	{ "FE", "\xfe", 1, 0 },
	{ "FF", "\xff", 1, 0 },
	{ "two, then a letter", "\xc3z", 2, 0 },
	{ "three, broken at the second", "\xe2z\xac", 3, 0 },
	{ "three, broken at the third", "\xe2\x82z", 3, 0 },
	{ "four, broken at the fourth", "\xf0\x9f\x98z", 4, 0 },
	{ "a lead after a lead", "\xc3\xc3", 2, 0 },
};

static void knows_the_edges(void)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint8_t *exact = exact_copy(cases[i].bytes, cases[i].len);

		CHECK_CASE(cases[i].name, utf8_length(exact, cases[i].len) == cases[i].want);
		free(exact);
	}
}

/* Cut short, each is no character, and nothing beyond the cut is looked at. */
static void stays_within_the_bytes(void)
{
	static const uint32_t codes[] = { 0x80,	  0x7ff,   0x800,   0x20ac,
					  0xffff, 0x10000, 0x1f600, 0x10ffff };

	for (size_t i = 0; i < COUNT(codes); i++) {
		uint8_t bytes[4];
		size_t n = encode(codes[i], bytes);

		for (size_t cut = 1; cut < n; cut++) {
			uint8_t *exact = exact_copy(bytes, cut);

			CHECK(utf8_length(exact, cut) == 0);
			free(exact);
		}
	}
}

static bool is_hidden(uint32_t code)
{
	uint8_t bytes[4];
	size_t n = encode(code, bytes);

	return utf8_is_control(bytes, n);
}

/* What a reader cannot see, among them all of the tag block; what is next to it can be seen. */
static void hidden_characters_are_known(void)
{
	static const uint32_t hidden[] = { 0x00,   0x1f,   0x7f,    0x80,    0x9f,    0xad,
					   0x61c,  0x115f, 0x180e,  0x200b,  0x200d,  0x200f,
					   0x2028, 0x202e, 0x2060,  0x2064,  0x2065,  0x2066,
					   0x206a, 0x206f, 0x3164,  0xfe00,  0xfeff,  0xffa0,
					   0xfff9, 0xfffb, 0xe0001, 0xe0041, 0xe007f, 0xe0100,
					   0xe01ef };
	static const uint32_t seen[] = { 0x20,	    0x7e,   0xa0,   0xac,   0xae,
					 0x600 - 1, 0x2010, 0x2027, 0x202f, 0x205f,
					 0x2070,    0xfe0f, 0xfffc, 0xfffd, 0x1f600 };
	for (size_t i = 0; i < COUNT(hidden); i++)
		CHECK(is_hidden(hidden[i]));
	for (size_t i = 0; i < COUNT(seen); i++)
		CHECK(!is_hidden(seen[i]));
}

TEST_MAIN({ "hidden characters are known", hidden_characters_are_known },
	  { "takes every character", takes_every_character },
	  { "takes nothing else", takes_nothing_else }, { "knows the edges", knows_the_edges },
	  { "stays within the bytes", stays_within_the_bytes })
