/* Goal: what python3's zlib packs comes out as it was, however it arrives; whatever is cut off,
 * changed or put behind is noticed; and nothing malformed leads out of a buffer. */
#include "lib/base/inflate.h"

#include "support.h"

/* Made with zlib.compressobj(level, DEFLATED, 31, 9, strategy). */
static const char empty[] =
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00";

/* level 0 */
static const char stored[] =
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\x03\x01\x4f\x00\xb0\xff\x49\x74\x20"
	"\x69\x73\x20\x73\x61\x69\x64\x20\x74\x68\x61\x74\x20\x63\x6f\x6e\x74\x65"
	"\x6e\x74\x20\x72\x65\x70\x65\x61\x74\x73\x20\x69\x74\x73\x65\x6c\x66\x2c"
	"\x20\x74\x68\x61\x74\x20\x63\x6f\x6e\x74\x65\x6e\x74\x20\x72\x65\x70\x65"
	"\x61\x74\x73\x2c\x20\x74\x68\x61\x74\x20\x69\x74\x20\x69\x73\x20\x73\x61"
	"\x69\x64\x2e\x0a\x29\x0d\x11\xd3\x4f\x00\x00\x00";

/* Z_FIXED */
static const char fixed[] =
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xf3\x2c\x51\xc8\x2c\x56\x28\x4e"
	"\xcc\x4c\x51\x28\xc9\x48\x2c\x51\x48\xce\xcf\x2b\x49\xcd\x2b\x51\x28\x4a"
	"\x2d\x48\x4d\x2c\x29\x56\xc8\x2c\x29\x4e\xcd\x49\xd3\xc1\x2a\x09\x15\xcd"
	"\x84\x1b\xa1\xc7\x05\x00\x29\x0d\x11\xd3\x4f\x00\x00\x00";

/* level 9, of the numbers of squares() */
static const char dynamic[] =
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcd\x90\xc9\x0d\x04\x21\x0c\x04"
	"\x13\xaa\xc7\xd8\x06\x03\xf9\x27\xb6\x05\x51\xac\x84\x10\x47\x9f\xfe\x08"
	"\x06\x87\x68\x72\x52\xcd\x38\xf4\x60\x07\x45\x0e\xc6\x62\x25\x49\x05\x9d"
	"\x1c\x11\xc5\xfa\x88\x64\x16\x47\xb4\x5c\x05\x3c\x0f\xe6\xc7\xa6\x27\xb9"
	"\xd8\x9b\x39\xc8\x64\xab\xa6\xd4\x24\x82\xdd\xb4\x8c\x4d\x25\x21\x92\x53"
	"\xec\xc9\x3a\x2c\xf7\x7a\xeb\x5d\x7d\xf4\xab\x2f\x48\xa8\x04\x69\x92\xe3"
	"\x09\x29\xa7\xa8\xd2\x1a\x68\xa3\x99\x96\xfb\x9a\x1b\xe1\x06\x89\x17\xaa"
	"\x6f\x40\x63\x1a\xd6\xc8\x06\xef\x57\x22\x6f\x1d\x4b\x59\xad\x6e\x49\xab"
	"\x5a\xb8\x5e\x79\x47\x70\x9c\x45\xf0\xfd\xe7\x4c\x7e\x15\x45\x11\x84\xab"
	"\x01\x00\x00";

/* level 9, 200,000 zeros: the ring goes round */
static const char zeros[] =
	"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc1\x31\x01\x00\x00\x00\xc2"
	"\xa0\xf5\x4f\x6d\x06\x7f\xa0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	"\x00\x00\x80\xd7\x00\x7b\x58\xe0\x5c\x40\x0d\x03\x00";

#define TEXT "It is said that content repeats itself, that content repeats, that it is said.\n"
#define LEN(packed) (sizeof(packed) - 1)

struct sse_stream {
	const uint8_t *bytes;
	size_t len, at, step; /* step: how many bytes at once */
	uint8_t *piece;	      /* exactly what was given last */
	char *out;
	size_t out_len, out_max;
};

static ssize_t more(void *arg, const uint8_t **ret, struct err *e)
{
	struct sse_stream *f = arg;
	size_t n = f->len - f->at < f->step ? f->len - f->at : f->step;

	free(f->piece);
	f->piece = exact_copy(f->bytes + f->at, n);
	f->at += n;
	*ret = f->piece;
	return (ssize_t)n;
}

static int take(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	struct sse_stream *f = arg;

	if (len > f->out_max - f->out_len)
		return err_set(e, ERR_LIMIT, "full");
	memcpy(f->out + f->out_len, bytes, len);
	f->out_len += len;
	return 0;
}

/* Returns the length of what comes out into `out`, or -1 if it is refused as malformed. */
static ssize_t unpack(const void *bytes, size_t len, size_t step, char *out, size_t max)
{
	struct sse_stream f = {
		.bytes = bytes, .len = len, .step = step, .out = out, .out_max = max
	};
	const struct inflate_io io = { .read = more, .write = take, .arg = &f };
	struct err e = { 0 };
	int rc = inflate_gzip(&io, &e);

	free(f.piece);
	CHECK(rc == 0 || (rc == -1 && e.code == ERR_INVALID && strncmp(e.msg, "gzip: ", 6) == 0));
	return rc < 0 ? -1 : (ssize_t)f.out_len;
}

static char out[1 << 18];

static void check_out(const char *name, const void *packed, size_t len, const char *want, size_t n)
{
	static const size_t steps[] = { 1, 2, 3, 7, 64, 1 << 20 };

	for (size_t i = 0; i < COUNT(steps); i++) {
		memset(out, 'x', sizeof(out));
		CHECK_CASE(name, unpack(packed, len, steps[i], out, sizeof(out)) == (ssize_t)n);
		CHECK_CASE(name, memcmp(out, want, n) == 0);
	}
}

static size_t squares(char *ret, size_t cap)
{
	size_t n = 0;

	for (int i = 0; i < 150; i++)
		n += (size_t)snprintf(ret + n, cap - n, "%d,", i * i % 97);
	return n;
}

static void unpacks(void)
{
	static char nothing[200000];
	char numbers[1024];
	size_t n = squares(numbers, sizeof(numbers));

	check_out("empty", empty, LEN(empty), "", 0);
	check_out("stored", stored, LEN(stored), TEXT, sizeof(TEXT) - 1);
	check_out("fixed", fixed, LEN(fixed), TEXT, sizeof(TEXT) - 1);
	check_out("dynamic", dynamic, LEN(dynamic), numbers, n);
	check_out("zeros", zeros, LEN(zeros), nothing, sizeof(nothing));
}

static void members(void)
{
	static char two[LEN(zeros) + LEN(fixed) + LEN(empty) + LEN(fixed)];
	char *p = two;

	p = (char *)memcpy(p, fixed, LEN(fixed)) + LEN(fixed);
	p = (char *)memcpy(p, empty, LEN(empty)) + LEN(empty);
	p = (char *)memcpy(p, fixed, LEN(fixed)) + LEN(fixed);
	check_out("three", two, (size_t)(p - two), TEXT TEXT, 2 * (sizeof(TEXT) - 1));
	for (size_t n = 1; n < LEN(fixed); n++) /* the third cut off */
		CHECK(unpack(two, (size_t)(p - two) - n, 64, out, sizeof(out)) == -1);
	*p = '\0';
	CHECK(unpack(two, (size_t)(p - two) + 1, 64, out, sizeof(out)) == -1);
	*p = 'x';
	CHECK(unpack(two, (size_t)(p - two) + 1, 1, out, sizeof(out)) == -1);
	CHECK(unpack("", 0, 1, out, sizeof(out)) == -1);
}

static void cut_off(void)
{
	for (size_t n = 0; n < LEN(dynamic); n++)
		CHECK(unpack(dynamic, n, 1 << 20, out, sizeof(out)) == -1);
	for (size_t n = 0; n < LEN(stored); n++)
		CHECK(unpack(stored, n, 3, out, sizeof(out)) == -1);
}

/* Every bit counts, but for time, kind of packing and system in the header, one flag, and the less
 * than 8 that fill a byte up: and those change nothing. */
static void changed(const char *packed, size_t len)
{
	static char want[1024];
	ssize_t size = unpack(packed, len, 1 << 20, want, sizeof(want));
	uint8_t *copy = exact_copy(packed, len);
	int spare = 0;

	for (size_t i = 0; i < 8 * len; i++) {
		size_t at = i / 8;
		ssize_t n;

		copy[at] ^= (uint8_t)(1U << i % 8);
		n = unpack(copy, len, 1 << 20, out, sizeof(out));
		if (at < 4)
			CHECK((n == -1) == (i != 24));
		else if (at < 10)
			CHECK(n == size);
		if (n >= 0)
			CHECK(n == size && memcmp(out, want, (size_t)n) == 0);
		spare += n >= 0 && at >= 10;
		copy[at] ^= (uint8_t)(1U << i % 8);
	}
	CHECK(size > 0 && spare < 8);
	free(copy);
}

static void bits_changed(void)
{
	changed(stored, LEN(stored));
	changed(fixed, LEN(fixed));
	changed(dynamic, LEN(dynamic));
}

static void headers(void)
{
	static const struct {
		const char *name;
		const char *head;
		size_t len;
		bool good;
	} cases[] = {
#define HEAD(flags) "\x1f\x8b\x08" flags "\0\0\0\0\0\x03"
		{ "plain", HEAD("\x00"), 10, true },
		{ "text", HEAD("\x01"), 10, true },
		{ "extra", HEAD("\x04") "\x02\0ab", 14, true },
		{ "extra, cut off", HEAD("\x04") "\xff\xff", 12, false },
		{ "name and comment", HEAD("\x18") "a\0", 13, true },
		{ "name without end", HEAD("\x08") "aaaa", 14, false },
		{ "checksum", HEAD("\x02") "\xa7\x77", 12, true },
		{ "wrong checksum", HEAD("\x02") "\xa6\x77", 12, false },
		{ "reserved", HEAD("\x20"), 10, false },
		{ "reserved, too", HEAD("\x80"), 10, false },
		{ "another method", "\x1f\x8b\x07\0\0\0\0\0\0\x03", 10, false },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char bytes[128];
		size_t n = cases[i].len;

		memcpy(bytes, cases[i].head, n);
		/* A name or comment that does not end swallows what follows. */
		memcpy(bytes + n, fixed + 10, LEN(fixed) - 10);
		n = (size_t)unpack(bytes, n + LEN(fixed) - 10, 5, out, sizeof(out));
		CHECK_CASE(cases[i].name, n == (cases[i].good ? sizeof(TEXT) - 1 : (size_t)-1));
	}
}

/* Blocks written bit by bit; the header is in front. */
struct bits {
	uint8_t bytes[256];
	size_t n;
};

static void put(struct bits *b, unsigned value, unsigned count)
{
	for (unsigned i = 0; i < count; i++, b->n++)
		if ((value >> i & 1) != 0)
			b->bytes[10 + b->n / 8] |= (uint8_t)(1U << b->n % 8);
}

/* A code is written with its highest bit first. */
static void put_code(struct bits *b, unsigned code, unsigned count)
{
	while (count-- > 0)
		put(b, code >> count & 1, 1);
}

static void refuse(const char *name, const struct bits *b)
{
	struct bits whole = *b;

	memcpy(whole.bytes, "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
	CHECK_CASE(name, unpack(whole.bytes, sizeof(whole.bytes), 1 << 20, out, sizeof(out)) == -1);
}

static void bad_blocks(void)
{
	struct bits b = { .n = 0 };

	put(&b, 7, 3);
	refuse("a kind of block that does not exist", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 3, 3);
	put_code(&b, 1, 7);
	put_code(&b, 0, 5);
	refuse("a match before the first byte", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 3, 3);
	put_code(&b, 0x30, 8);
	put_code(&b, 1, 7);
	put_code(&b, 1, 5);
	refuse("a match one byte before the first", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 3, 3);
	put_code(&b, 0xc6, 8);
	refuse("length 286", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 3, 3);
	put_code(&b, 0x30, 8);
	put_code(&b, 1, 7);
	put_code(&b, 30, 5);
	refuse("distance 30", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 5, 3);
	put(&b, 30, 5);
	refuse("287 literals", &b);
	b = (struct bits){ .n = 0 };
	put(&b, 5, 3);
	put(&b, 0, 5);
	put(&b, 30, 5);
	refuse("31 distances", &b);
}

/* A dynamic block of 257 literals and 1 distance whose codes of lengths are for 16 (if given), 17,
 * 18, 0 in that order. */
static struct bits lengths(unsigned l16, unsigned l17, unsigned l18, unsigned l0)
{
	struct bits b = { .n = 0 };

	put(&b, 5, 3);
	put(&b, 0, 14);
	put(&b, l16, 3);
	put(&b, l17, 3);
	put(&b, l18, 3);
	put(&b, l0, 3);
	return b;
}

static void bad_codes(void)
{
	struct bits b = lengths(1, 1, 1, 0);

	refuse("more codes than bits", &b);
	b = lengths(2, 2, 2, 0);
	refuse("fewer codes than bits", &b);
	b = lengths(0, 0, 1, 0);
	refuse("a single code of a length", &b);
	b = lengths(0, 0, 0, 0);
	refuse("no codes at all", &b);
	b = lengths(1, 0, 1, 0);
	put_code(&b, 0, 1);
	refuse("repeats the length before the first", &b);
	b = lengths(0, 0, 1, 1); /* 0: "0", 18: "1" */
	for (int i = 0; i < 2; i++) {
		put_code(&b, 1, 1);
		put(&b, 127, 7);
	}
	refuse("too many lengths", &b);
	b = lengths(0, 0, 1, 1);
	put_code(&b, 1, 1);
	put(&b, 127, 7);
	put_code(&b, 1, 1);
	put(&b, 258 - 138 - 11, 7);
	refuse("no end of block", &b);
}

static int fail_out(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	return err_set(e, ERR_LIMIT, "enough");
}

static ssize_t fail_more(void *arg, const uint8_t **ret, struct err *e)
{
	return err_set(e, ERR_CONFLICT, "gone");
}

static void errors_of_the_caller(void)
{
	struct sse_stream f = { .bytes = (const uint8_t *)fixed, .len = LEN(fixed), .step = 10 };
	struct inflate_io io = { .read = more, .write = fail_out, .arg = &f };
	struct err e = { 0 };

	CHECK(inflate_gzip(&io, &e) == -1 && e.code == ERR_LIMIT);
	CHECK_STR(e.msg, "enough");
	free(f.piece);
	io.read = fail_more;
	CHECK(inflate_gzip(&io, &e) == -1 && e.code == ERR_CONFLICT);
	CHECK_STR(e.msg, "gone");
}

TEST_MAIN({ "unpacks", unpacks }, { "members in a row", members }, { "cut off", cut_off },
	  { "every bit counts", bits_changed }, { "headers", headers },
	  { "malformed blocks", bad_blocks }, { "malformed codes", bad_codes },
	  { "errors of the caller", errors_of_the_caller })
