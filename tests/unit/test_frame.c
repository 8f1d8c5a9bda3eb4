/* Goal: a frame is read when it is all there, and one that is wrong is known by its head alone. */
#include "lib/wire/frame.h"

#include <limits.h>

#include "support.h"

#define MAX 16

/* Every way a peer can be slow or wrong, one line each. */
static const struct {
	const char *name, *bytes;
	size_t len;
	int want;
	uint16_t type;
} cases[] = {
	{ "nothing yet", "", 0, 0, 0 },
	{ "one byte", "\x02", 1, 0, 0 },
	{ "head incomplete", "\x01\0\0\0\x02\0\0", 7, 0, 0 },
	{ "body not begun", "\x02\0\0\0\x01\0\0\0", 8, 0, 0 },
	{ "body incomplete", "\x02\0\0\0\x01\0\0\0A", 9, 0, 0 },
	{ "exactly one", "\x02\0\0\0\x01\0\0\0AB", 10, 10, 1 },
	{ "no body", "\0\0\0\0\x07\0\0\0", 8, 8, 7 },
	{ "next one untouched", "\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0", 16, 8, 1 },
	{ "part of the next", "\x01\0\0\0\x01\0\0\0A\xff\xff", 11, 9, 1 },
	{ "type of two bytes", "\0\0\0\0\x34\x12\0\0", 8, 8, 0x1234 },
	{ "largest type", "\0\0\0\0\xff\xff\0\0", 8, 8, 0xffff },
	{ "as long as allowed",
	  "\x10\0\0\0\x01\0\0\0"
	  "0123456789abcdef",
	  24, 24, 1 },
	{ "one too long", "\x11\0\0\0\x01\0\0\0", 8, -1, 0 },
	{ "too long by the second byte", "\0\x01\0\0\x01\0\0\0", 8, -1, 0 },
	{ "too long by the fourth byte", "\0\0\0\x01\x01\0\0\0", 8, -1, 0 },
	{ "would be negative", "\xff\xff\xff\xff\x01\0\0\0", 8, -1, 0 },
	{ "would wrap with the head", "\xf8\xff\xff\xff\x01\0\0\0", 8, -1, 0 },
	{ "first zero is not", "\0\0\0\0\x01\0\x01\0", 8, -1, 0 },
	{ "second zero is not", "\0\0\0\0\x01\0\0\x01", 8, -1, 0 },
	{ "zeros looked at before the body", "\x01\0\0\0\x01\0\0\x80", 8, -1, 0 },
};

static void reads_what_is_there(void)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct frame f = { .type = 0xbeef };
		struct err e = { 0 };
		uint8_t *exact = exact_copy(cases[i].bytes, cases[i].len);
		int got = frame_read(exact, cases[i].len, MAX, &f, &e);

		CHECK_CASE(cases[i].name, got == cases[i].want);
		CHECK_CASE(cases[i].name, (got < 0) == (e.code != ERR_NONE));
		CHECK_CASE(cases[i].name, f.type == (got > 0 ? cases[i].type : 0xbeef));
		CHECK_CASE(cases[i].name, got <= 0 || (f.body == exact + FRAME_HEAD &&
						       f.len == (uint32_t)got - FRAME_HEAD));
		free(exact);
	}
}

static void names_the_bound_it_enforces(void)
{
	struct frame f;
	struct err e = { 0 };

	CHECK(frame_read((const uint8_t *)"\x11\0\0\0\x01\0\0\0", 8, MAX, &f, &e) == -1);
	CHECK(e.code == ERR_LIMIT);
	CHECK_STR(e.msg, "frame of 17 bytes, at most 16");
	CHECK(frame_read((const uint8_t *)"\0\0\0\0\x01\0\x01\0", 8, MAX, &f, &e) == -1);
	CHECK(e.code == ERR_INVALID);
}

static void takes_any_bound(void)
{
	struct frame f;
	struct err e = { 0 };

	CHECK(frame_read((const uint8_t *)"\0\0\0\0\x01\0\0\0", 8, 0, &f, &e) == 8);
	CHECK(frame_read((const uint8_t *)"\x01\0\0\0\x01\0\0\0x", 9, 0, &f, &e) == -1);
	CHECK(frame_read((const uint8_t *)"\xf7\xff\xff\x7f\x01\0\0\0", 8, INT_MAX - FRAME_HEAD, &f,
			 &e) == 0);
	CHECK(frame_read((const uint8_t *)"\xf8\xff\xff\x7f\x01\0\0\0", 8, INT_MAX - FRAME_HEAD, &f,
			 &e) == -1);
}

static void heads_are_read_as_written(void)
{
	static const uint32_t lengths[] = { 0,	   1,	  255,	      256,
					    65535, 65536, 0x01020304, INT_MAX - FRAME_HEAD };
	static const uint16_t types[] = { 0, 1, 255, 256, 0x1234, 0xffff };

	for (size_t i = 0; i < COUNT(lengths); i++)
		for (size_t k = 0; k < COUNT(types); k++) {
			uint8_t head[FRAME_HEAD];
			struct frame f;
			struct err e = { 0 };

			memset(head, 0xff, sizeof(head));
			frame_head(head, types[k], lengths[i]);
			int got = frame_read(head, sizeof(head), INT_MAX - FRAME_HEAD, &f, &e);

			CHECK(got == (lengths[i] == 0 ? FRAME_HEAD : 0));
			CHECK(got == 0 || f.type == types[k]);
			CHECK(lengths[i] == 0 ||
			      frame_read(head, sizeof(head), lengths[i] - 1, &f, &e) == -1);
		}
}

static void writes_little_endian(void)
{
	uint8_t head[FRAME_HEAD];

	frame_head(head, 0x1234, 0x01020304);
	CHECK(memcmp(head, "\x04\x03\x02\x01\x34\x12\0\0", FRAME_HEAD) == 0);
}

/* Three frames, one byte at a time: each comes exactly when its last byte does. */
static void takes_a_slow_stream(void)
{
	static const char stream[] = "\x02\0\0\0\x01\0\0\0AB"
				     "\0\0\0\0\x02\0\0\0"
				     "\x01\0\0\0\x03\0\0\0C";
	const size_t ends[] = { 10, 18, 27 };
	size_t at = 0, frames = 0;

	for (size_t have = 1; have < sizeof(stream); have++) {
		struct frame f;
		struct err e = { 0 };
		uint8_t *exact = exact_copy(stream + at, have - at);
		int got = frame_read(exact, have - at, MAX, &f, &e);

		CHECK((got > 0) == (have == ends[frames]));
		CHECK(got >= 0);
		if (got > 0) {
			CHECK(f.type == ++frames);
			at += (size_t)got;
		}
		free(exact);
	}
	CHECK(frames == 3 && at == sizeof(stream) - 1);
}

TEST_MAIN({ "reads what is there", reads_what_is_there },
	  { "names the bound it enforces", names_the_bound_it_enforces },
	  { "takes any bound", takes_any_bound },
	  { "heads are read as written", heads_are_read_as_written },
	  { "writes little-endian", writes_little_endian },
	  { "takes a slow stream", takes_a_slow_stream })
