/* gzip in pieces, and its bounds. */
#define ZLIB_CONST
#include "test.h"

#include <zlib.h>

#include "lib/base/buf.h"
#include "lib/packages/gunzip.h"

static size_t pack(const void *text, size_t n, uint8_t *ret, size_t cap)
{
	z_stream z = { .next_in = text, .avail_in = (uInt)n };

	CHECK(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_out = ret;
	z.avail_out = (uInt)cap;
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	n = z.total_out;
	(void)deflateEnd(&z);
	return n;
}

static int on_bytes(void *arg, const void *bytes, size_t n, struct err *e)
{
	return buf_add(arg, bytes, n, e);
}

/* In pieces of one size; -1 and the error if it is refused. */
static int unpack(const uint8_t *p, size_t n, size_t piece, size_t limit, struct buf *out,
		  struct err *e)
{
	struct gunzip *g = gunzip_new(limit, e);
	int rc = 0;

	CHECK(g != NULL);
	for (size_t at = 0; at < n && rc == 0; at += piece)
		rc = gunzip_feed(g, p + at, n - at < piece ? n - at : piece, on_bytes, out, e);
	if (rc == 0)
		rc = gunzip_end(g, e);
	gunzip_free(g);
	return rc;
}

static void unpacks_in_pieces_of_any_size(void)
{
	static const size_t pieces[] = { 1, 7, 1000, 1 << 20 };
	static char text[300000];
	static uint8_t packed[400000];
	struct err e;
	size_t n;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)("abcdefgh"[i * i % 8] + (int)(i / 777 % 9));
	n = pack(text, 200000, packed, sizeof(packed));
	n += pack(text + 200000, 100000, packed + n, sizeof(packed) - n); /* a second member */
	for (size_t i = 0; i < 4; i++) {
		struct buf out = BUF_INIT(sizeof(text));

		CHECK(unpack(packed, n, pieces[i], sizeof(text), &out, &e) == 0);
		CHECK(out.len == sizeof(text) && memcmp(out.data, text, out.len) == 0);
		buf_release(&out);
	}
}

static void refuses_what_is_cut_or_wrong(void)
{
	static char text[5000];
	static uint8_t packed[8000];
	struct buf out = BUF_INIT(1 << 20);
	size_t n;
	struct err e;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 2654435761U >> 7);
	n = pack(text, sizeof(text), packed, sizeof(packed));
	CHECK(unpack(packed, n - 1, 100, 1 << 20, &out, &e) < 0 && e.code == ERR_INVALID);
	CHECK(unpack(packed, 0, 100, 1 << 20, &out, &e) < 0 && e.code == ERR_INVALID);
	packed[n - 6] ^= 1; /* its CRC */
	CHECK(unpack(packed, n, 100, 1 << 20, &out, &e) < 0 && e.code == ERR_INVALID);
	CHECK(unpack((const uint8_t *)"plain text", 10, 10, 1 << 20, &out, &e) < 0);
	buf_release(&out);
}

static void refuses_bombs(void)
{
	static uint8_t zeros[8 << 20], packed[100000];
	struct buf out = BUF_INIT(16 << 20);
	size_t n = pack(zeros, sizeof(zeros), packed, sizeof(packed));
	struct err e;

	CHECK(unpack(packed, n, n, sizeof(zeros), &out, &e) < 0 && e.code == ERR_LIMIT);
	CHECK(out.len < (4 << 20));
	buf_clear(&out);
	CHECK(unpack(packed, n, 10, 1000, &out, &e) < 0 && e.code == ERR_LIMIT);
	CHECK(out.len <= 1000);
	buf_release(&out);
}

TEST_MAIN({ "unpacks in pieces of any size", unpacks_in_pieces_of_any_size },
	  { "refuses what is cut or wrong", refuses_what_is_cut_or_wrong },
	  { "refuses bombs", refuses_bombs })
