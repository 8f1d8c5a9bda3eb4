/* Goal: a chunked body is decoded the same however it is cut into pieces, and ends in one place. */
#include "lib/http/chunk.h"

#include "support.h"

#define NO_LIMIT UINT64_MAX

/* Feeds it in pieces of `step` bytes, taking at most `take` at once. Returns how it ended; *used is
 * how much of it was read, out (NUL-terminated) what was decoded. */
static bool of_answer; /* what is decoded is the body of an answer */

static enum chunk_result decode(const char *text, size_t step, size_t take, uint64_t max,
				size_t *used, char out[256])
{
	enum chunk_result r = CHUNK_MORE;
	size_t len = strlen(text), n = 0;
	struct chunk c;

	if (of_answer)
		chunk_init_answer(&c, max);
	else
		chunk_init(&c, max);
	*used = 0;
	while (r == CHUNK_MORE || r == CHUNK_DATA) {
		size_t piece = len - *used < step ? len - *used : step, one;
		char *bytes = exact_copy(text + *used, piece);
		struct http1_span data;

		r = chunk_read(&c, bytes, piece, &one, &data);
		CHECK(one <= piece && (r == CHUNK_DATA) == (data.n > 0));
		*used += one;
		if (r == CHUNK_DATA) {
			CHECK(data.p == bytes + one && data.n <= piece - one);
			one = data.n < take ? data.n : take;
			CHECK(n + one < 256);
			memcpy(out + n, data.p, one);
			n += one;
			*used += one;
			chunk_took(&c, one);
		}
		free(bytes);
		if (r == CHUNK_MORE && *used == len)
			break;
	}
	out[n] = '\0';
	CHECK(c.total == n);
	return r;
}

static const struct {
	const char *text, *out;
	enum chunk_result result;
	size_t after; /* bytes behind the end */
} cases[] = {
	{ "0\r\n\r\n", "", CHUNK_END, 0 },
	{ "000\r\n\r\n", "", CHUNK_END, 0 },
	{ "5\r\nhello\r\n0\r\n\r\n", "hello", CHUNK_END, 0 },
	{ "5\r\nhello\r\n0\r\n\r\nGET", "hello", CHUNK_END, 3 },
	{ "1\r\na\r\n2\r\nbc\r\n00\r\n\r\n", "abc", CHUNK_END, 0 },
	{ "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", CHUNK_END, 0 },
	{ "000000000000005\r\n\r\n\r\n\n\r\n0\r\n\r\n", "\r\n\r\n\n", CHUNK_END, 0 },
	{ "1\r\na\r\n0\r\nA: b\r\nC:\td\r\n\r\n", "a", CHUNK_END, 0 },
	{ "0\r\nX:\r\nContent-Lengths: 1\r\n\r\nx", "", CHUNK_END, 1 },
	{ "0\r\nTransfer-Encoding-And-More: 1\r\n\r\n", "", CHUNK_END, 0 },
	{ "0\r\n \r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\n:\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA : b\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: b\r\n c\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: b\r\nCONTENT-length: 1\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nTransfer-Encoding: chunked\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nhost: y\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nConnection: close\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "", "", CHUNK_MORE, 0 },
	{ "5", "", CHUNK_MORE, 0 },
	{ "5\r\nhel", "hel", CHUNK_MORE, 0 },
	{ "5\r\nhello\r\n", "hello", CHUNK_MORE, 0 },
	{ "0\r\n", "", CHUNK_MORE, 0 },
	{ "0\r\nA: b\r\n", "", CHUNK_MORE, 0 },
	{ "\r\n", "", CHUNK_BAD, 0 },
	{ " 5\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "5 \r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "+5\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0x5\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "g\r\n", "", CHUNK_BAD, 0 },
	{ "5\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "5\rhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "5;a=b\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "5;a\nb\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0000000000000005\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD, 0 }, /* 16 digits */
	{ "fffffffffffffffff\r\n", "", CHUNK_BAD, 0 },
	{ "5\r\nhello0\r\n\r\n", "hello", CHUNK_BAD, 0 },
	{ "5\r\nhello\n0\r\n\r\n", "hello", CHUNK_BAD, 0 },
	{ "5\r\nhello\rx0\r\n\r\n", "hello", CHUNK_BAD, 0 },
	{ "4\r\nhello\r\n0\r\n\r\n", "hell", CHUNK_BAD, 0 },
	{ "0\r\n\n", "", CHUNK_BAD, 0 },
	{ "0\r\n\rx", "", CHUNK_BAD, 0 },
	{ "0\n\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: b\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: b\rc\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: \x01\r\n\r\n", "", CHUNK_BAD, 0 },
	{ "0\r\nA: \x7f\r\n\r\n", "", CHUNK_BAD, 0 },
};

static void decodes_whatever_the_pieces(void)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *text = cases[i].text;

		for (size_t step = 1; step < 40; step++) {
			for (size_t take = 1; take < 12; take++) {
				char out[256];
				size_t used;

				CHECK_CASE(text, decode(text, step, take, NO_LIMIT, &used, out) ==
							 cases[i].result);
				CHECK_CASE(text, strcmp(out, cases[i].out) == 0);
				CHECK_CASE(text, cases[i].result != CHUNK_END ||
							 used == strlen(text) - cases[i].after);
			}
		}
	}
}

/* Extensions are legal in answers, and dropped; nothing in them ends a line. */
static const struct {
	const char *text, *out;
	enum chunk_result result;
} answers[] = {
	{ "5;ext=1\r\nhello\r\n0;last\r\n\r\n", "hello", CHUNK_END },
	{ "5 ; a=\"b;c\"\t\r\nhello\r\n0\r\nT: x\r\n\r\n", "hello", CHUNK_END },
	{ "5  \r\nhello\r\n0\r\n\r\n", "hello", CHUNK_END },
	{ ";a\r\n", "", CHUNK_BAD },
	{ " 5\r\n", "", CHUNK_BAD },
	{ "5;a\nb\r\nhello\r\n0\r\n\r\n", "", CHUNK_BAD },
	{ "5;a\rb\r\n", "", CHUNK_BAD },
	{ "5;\x01\r\n", "", CHUNK_BAD },
	{ "5;\x7f\r\n", "", CHUNK_BAD },
};

static void skips_extensions_of_answers(void)
{
	char out[256], *longest = malloc(CHUNK_EXTENSION_MAX + 32);
	size_t used;

	of_answer = true;
	for (size_t i = 0; i < COUNT(answers); i++) {
		for (size_t step = 1; step < 40; step++) {
			CHECK_CASE(answers[i].text, decode(answers[i].text, step, 3, NO_LIMIT,
							   &used, out) == answers[i].result);
			CHECK_CASE(answers[i].text, strcmp(out, answers[i].out) == 0);
		}
	}
	for (size_t n = CHUNK_EXTENSION_MAX; n <= CHUNK_EXTENSION_MAX + 1; n++) {
		memcpy(longest, "1;", 2);
		memset(longest + 2, 'x', n);
		memcpy(longest + 2 + n, "\r\na\r\n0\r\n\r\n", sizeof("\r\na\r\n0\r\n\r\n"));
		CHECK((decode(longest, 99, 99, NO_LIMIT, &used, out) == CHUNK_END) ==
		      (n == CHUNK_EXTENSION_MAX));
	}
	free(longest);
	of_answer = false;
}

static void bounds_the_body(void)
{
	static const char text[] = "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
	char out[256];
	size_t used;

	CHECK(decode(text, 99, 99, 6, &used, out) == CHUNK_END);
	CHECK(decode(text, 99, 99, 5, &used, out) == CHUNK_TOO_LONG);
	CHECK_STR(out, "abc");
	CHECK(decode(text, 99, 99, 2, &used, out) == CHUNK_TOO_LONG && out[0] == '\0');
	CHECK(decode("0\r\n\r\n", 99, 99, 0, &used, out) == CHUNK_END);
	CHECK(decode("1\r\n", 99, 99, 0, &used, out) == CHUNK_TOO_LONG);
	CHECK(decode("fffffffffffffff\r\n", 99, 99, INT64_MAX, &used, out) == CHUNK_MORE);
}

static enum chunk_result with_trailer(size_t n)
{
	struct chunk c;
	struct http1_span data;
	size_t used;
	char *text = malloc(n + 7);
	enum chunk_result r;

	CHECK(text != NULL && n >= 4);
	memcpy(text, "0\r\n", 3);
	memset(text + 3, 'a', n);
	text[4] = ':';
	memcpy(text + 3 + n - 2, "\r\n", 2); /* ends a line: n bytes, of which LF is not counted */
	memcpy(text + 3 + n, "\r\n", 2);
	chunk_init(&c, NO_LIMIT);
	r = chunk_read(&c, text, n + 5, &used, &data);
	free(text);
	return r;
}

static void bounds_the_trailers(void)
{
	CHECK(with_trailer(CHUNK_TRAILER_MAX) == CHUNK_END);
	CHECK(with_trailer(CHUNK_TRAILER_MAX + 1) == CHUNK_BAD);
}

static void stays_where_it_ended(void)
{
	static const char *const ends[] = { "0\r\n\r\n", "x", "f\r\n" };
	static const enum chunk_result want[] = { CHUNK_END, CHUNK_BAD, CHUNK_TOO_LONG };

	for (size_t i = 0; i < COUNT(ends); i++) {
		struct chunk c;
		struct http1_span data;
		size_t used;

		chunk_init(&c, 1);
		CHECK(chunk_read(&c, ends[i], strlen(ends[i]), &used, &data) == want[i]);
		CHECK(chunk_read(&c, "0\r\n\r\n", 5, &used, &data) == want[i] && used == 0);
	}
}

static void encodes_heads(void)
{
	char head[CHUNK_HEAD_MAX];

	CHECK(chunk_head(head, 1) == 3 && memcmp(head, "1\r\n", 3) == 0);
	CHECK(chunk_head(head, 0x1a2b) == 6 && memcmp(head, "1a2b\r\n", 6) == 0);
	CHECK(chunk_head(head, SIZE_MAX) == CHUNK_HEAD_MAX);
}

TEST_MAIN({ "decodes whatever the pieces", decodes_whatever_the_pieces },
	  { "skips extensions of answers", skips_extensions_of_answers },
	  { "bounds the body", bounds_the_body }, { "bounds the trailers", bounds_the_trailers },
	  { "stays where it ended", stays_where_it_ended }, { "encodes heads", encodes_heads })
