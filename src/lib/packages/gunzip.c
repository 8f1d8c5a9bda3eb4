/* gunzip.c - see gunzip.h. Several members may follow each other, as for gzip(1). */
#define ZLIB_CONST
#include "lib/packages/gunzip.h"

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#define PIECE (64U << 10)
/* Small files may have any ratio. */
#define FREE_OUTPUT (1U << 20)

struct gunzip {
	z_stream z;
	size_t limit, in, out;
	bool between; /* between members */
	unsigned char piece[PIECE];
};

struct gunzip *gunzip_new(size_t limit, struct err *e)
{
	struct gunzip *g = calloc(1, sizeof(*g));

	if (g == NULL) {
		(void)err_sys(e, "gzip");
		return NULL;
	}
	g->limit = limit;
	if (inflateInit2(&g->z, 16 + MAX_WBITS) != Z_OK) {
		free(g);
		(void)err_set(e, ERR_SYSTEM, "gzip: zlib does not start");
		return NULL;
	}
	return g;
}

void gunzip_free(struct gunzip *g)
{
	if (g == NULL)
		return;
	(void)inflateEnd(&g->z);
	free(g);
}

/* Both bounds count the whole file and not a piece, so pieces cannot be arranged to pass. */
static int check_size(const struct gunzip *g, struct err *e)
{
	if (g->out > g->limit)
		return err_set(e, ERR_LIMIT, "gzip: more than %zu bytes come out", g->limit);
	if (g->out > FREE_OUTPUT && g->out / GUNZIP_RATIO > g->in)
		return err_set(e, ERR_LIMIT, "gzip: %d times as much comes out as went in",
			       GUNZIP_RATIO);
	return 0;
}

/* Call inflate once. Return 1: call again, 0: all input is used. */
static int gunzip_step(struct gunzip *g,
		       int (*on_bytes)(void *, const void *, size_t, struct err *), void *arg,
		       struct err *e)
{
	size_t before = g->z.avail_in, n;
	int rc;

	if (g->between) {
		if (inflateReset(&g->z) != Z_OK)
			return err_set(e, ERR_SYSTEM, "gzip: zlib does not start again");
		g->between = false;
	}
	g->z.next_out = g->piece;
	g->z.avail_out = PIECE;
	rc = inflate(&g->z, Z_NO_FLUSH);
	n = PIECE - g->z.avail_out;
	g->in += before - g->z.avail_in;
	g->out += n;
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
		return err_set(e, ERR_INVALID, "gzip: malformed");
	if (check_size(g, e) < 0 || (n > 0 && on_bytes(arg, g->piece, n, e) < 0))
		return -1;
	g->between = rc == Z_STREAM_END;
	return g->z.avail_in > 0 || (g->z.avail_out == 0 && rc == Z_OK);
}

/* All input is used before it returns, so the bytes need not stay. */
int gunzip_feed(struct gunzip *g, const void *bytes, size_t n,
		int (*on_bytes)(void *arg, const void *bytes, size_t n, struct err *e), void *arg,
		struct err *e)
{
	int more = n > 0;

	if (n > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "gzip: a piece is too large");
	g->z.next_in = bytes;
	g->z.avail_in = (uInt)n;
	while (more > 0)
		more = gunzip_step(g, on_bytes, arg, e);
	return more;
}

/* An empty input is no gzip, and fails as well. */
int gunzip_end(const struct gunzip *g, struct err *e)
{
	return g->between ? 0 : err_set(e, ERR_INVALID, "gzip: ends too early");
}
