#include "storage/stream_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define IN_SIZE (128U << 10)
#define MAGIC_LEN 4
#define ZSTD_WINDOW_LOG_MAX 27 /* 128 MiB of memory at most, as the zstd program has it */
#define SKIP_SIZE (64U << 10)
#define SPLICE_MAX (1U << 30)

enum stream_in_kind { KIND_PLAIN, KIND_GZIP, KIND_ZSTD };

struct stream_in {
	stream_in_fn *read;
	void *arg;
	stream_in_watch_fn *watch;
	void *watch_arg;
	int fd; /* borrowed. Of stream_in_fd() and stream_in_part() */
	bool is_part;
	uint64_t part_at, part_left;
	uint32_t silence_ms; /* 0: none */
	uint64_t bytes_max, in_total, out_total;
	enum stream_in_kind kind;
	bool begun, in_ended, between; /* between: no member is open */
	bool hash, no_splice;
	struct sha256 sum;
	uint8_t *in; /* IN_SIZE bytes */
	size_t in_at, in_len;
	z_stream gzip;
	bool gzip_open;
	ZSTD_DCtx *zstd;
};

static ssize_t stream_read_part(struct stream_in *s, void *ret, size_t cap, struct err *e)
{
	size_t want = s->part_left < cap ? (size_t)s->part_left : cap;
	ssize_t n = want == 0 ? 0 : pread(s->fd, ret, want, (off_t)s->part_at);

	if (n < 0)
		return err_sys(e, "read the archive");
	s->part_at += (uint64_t)n;
	s->part_left -= (uint64_t)n;
	return n;
}

/* The other end may be a guest, which can stop in the middle. */
static int stream_wait_for_input(const struct stream_in *s, struct err *e)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int n;

	if (s->silence_ms == 0)
		return 0;
	do
		n = poll(&p, 1, (int)s->silence_ms);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "wait for the archive");
	return n > 0 ? 0
		     : err_set_reason(e, REASON_TIMEOUT, "nothing of the archive came for %u ms",
				      s->silence_ms);
}

static ssize_t stream_read_fd(void *arg, void *ret, size_t cap, struct err *e)
{
	struct stream_in *s = arg;
	ssize_t n;

	if (s->is_part)
		return stream_read_part(s, ret, cap, e);
	if (stream_wait_for_input(s, e) < 0)
		return -1;
	do
		n = read(s->fd, ret, cap);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(e, "read the archive") : n;
}

struct stream_in *stream_in_new(stream_in_fn *read, void *arg, uint64_t bytes_max, bool hash,
				struct err *e)
{
	struct stream_in *s = calloc(1, sizeof(*s));

	if (s != NULL)
		s->in = malloc(IN_SIZE);
	if (s == NULL || s->in == NULL) {
		free(s);
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	s->read = read;
	s->arg = arg;
	s->fd = -1;
	s->bytes_max = bytes_max;
	s->hash = hash;
	s->between = true;
	sha256_init(&s->sum);
	return s;
}

struct stream_in *stream_in_fd(int fd, uint64_t bytes_max, bool hash, struct err *e)
{
	struct stream_in *s = stream_in_new(stream_read_fd, NULL, bytes_max, hash, e);

	if (s != NULL) {
		s->fd = fd;
		s->arg = s;
	}
	return s;
}

struct stream_in *stream_in_part(int fd, uint64_t from, uint64_t len, uint64_t bytes_max, bool hash,
				 struct err *e)
{
	struct stream_in *s = stream_in_fd(fd, bytes_max, hash, e);

	if (s != NULL) {
		s->is_part = true;
		s->part_at = from;
		s->part_left = len;
	}
	return s;
}

void stream_in_set_silence(struct stream_in *s, uint32_t ms)
{
	s->silence_ms = ms;
}

void stream_in_set_watch(struct stream_in *s, stream_in_watch_fn *watch, void *arg)
{
	s->watch = watch;
	s->watch_arg = arg;
}

bool stream_in_is_compressed(const struct stream_in *s)
{
	return s->kind != KIND_PLAIN;
}

void stream_in_free(struct stream_in *s)
{
	if (s == NULL)
		return;
	if (s->gzip_open)
		(void)inflateEnd(&s->gzip);
	(void)ZSTD_freeDCtx(s->zstd);
	free(s->in);
	free(s);
}

/* Read more input behind the rest. 0: there is some, or the input has ended. */
static int stream_fill(struct stream_in *s, size_t want, struct err *e)
{
	if (s->in_at > 0) {
		memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
		s->in_len -= s->in_at;
		s->in_at = 0;
	}
	while (!s->in_ended && s->in_len < want) {
		ssize_t n = s->read(s->arg, s->in + s->in_len, IN_SIZE - s->in_len, e);

		if (n < 0)
			return -1;
		s->in_ended = n == 0;
		s->in_len += (size_t)n;
		s->in_total += (uint64_t)n;
	}
	return 0;
}

/* The first bytes tell the compression. An unknown beginning is a plain stream. */
static int stream_begin(struct stream_in *s, struct err *e)
{
	static const uint8_t gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };

	s->begun = true;
	if (stream_fill(s, MAGIC_LEN, e) < 0)
		return -1;
	if (s->in_len >= sizeof(gzip) && memcmp(s->in, gzip, sizeof(gzip)) == 0) {
		s->kind = KIND_GZIP;
		if (inflateInit2(&s->gzip, 16 + MAX_WBITS) != Z_OK)
			return err_set(e, ERR_SYSTEM, "gzip: out of memory");
		s->gzip_open = true;
	} else if (s->in_len >= sizeof(zstd) && memcmp(s->in, zstd, sizeof(zstd)) == 0) {
		s->kind = KIND_ZSTD;
		s->zstd = ZSTD_createDCtx();
		if (s->zstd == NULL || ZSTD_isError(ZSTD_DCtx_setParameter(
					       s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)))
			return err_set(e, ERR_SYSTEM, "zstd: out of memory");
	}
	return 0;
}

static ssize_t stream_read_plain(struct stream_in *s, void *ret, size_t cap)
{
	size_t n = s->in_len - s->in_at < cap ? s->in_len - s->in_at : cap;

	memcpy(ret, s->in + s->in_at, n);
	s->in_at += n;
	return (ssize_t)n;
}

/* The bytes that this piece of input gave. May be 0 although there is more input. */
static ssize_t stream_read_gzip(struct stream_in *s, void *ret, size_t cap, struct err *e)
{
	int rc;

	if (s->between && inflateReset(&s->gzip) != Z_OK)
		return err_set(e, ERR_SYSTEM, "gzip: cannot be reset");
	s->between = false;
	s->gzip.next_in = s->in + s->in_at;
	s->gzip.avail_in = (uInt)(s->in_len - s->in_at);
	s->gzip.next_out = ret;
	s->gzip.avail_out = (uInt)cap;
	rc = inflate(&s->gzip, Z_NO_FLUSH);
	s->in_at = s->in_len - s->gzip.avail_in;
	if (rc == Z_STREAM_END)
		s->between = true;
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		return err_set(e, ERR_INVALID, "gzip: %s",
			       s->gzip.msg != NULL ? s->gzip.msg : "damaged");
	return (ssize_t)(cap - s->gzip.avail_out);
}

static ssize_t stream_read_zstd(struct stream_in *s, void *ret, size_t cap, struct err *e)
{
	ZSTD_inBuffer in = { s->in, s->in_len, s->in_at };
	ZSTD_outBuffer out = { ret, cap, 0 };
	size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);

	s->in_at = in.pos;
	if (ZSTD_isError(rc))
		return err_set(e, ERR_INVALID, "zstd: %s", ZSTD_getErrorName(rc));
	s->between = rc == 0;
	return (ssize_t)out.pos;
}

/* Check both bounds after each piece, so an archive bomb stops at the next piece. */
static int stream_count(struct stream_in *s, const void *bytes, size_t n, struct err *e)
{
	s->out_total += n;
	if (s->out_total > s->bytes_max)
		return err_set(e, ERR_LIMIT, "the archive has more than %llu bytes",
			       (unsigned long long)s->bytes_max);
	if (s->out_total > STREAM_IN_RATIO_FREE && s->out_total / STREAM_IN_RATIO > s->in_total)
		return err_set(e, ERR_LIMIT, "the archive is compressed more than %d times",
			       STREAM_IN_RATIO);
	if (s->hash)
		sha256_add(&s->sum, bytes, n);
	if (s->watch != NULL)
		s->watch(s->watch_arg, bytes, n);
	return 0;
}

ssize_t stream_in_read(struct stream_in *s, void *ret, size_t cap, struct err *e)
{
	if (!s->begun && stream_begin(s, e) < 0)
		return -1;
	for (;;) {
		ssize_t n = 0;
		size_t before;

		if (s->in_at == s->in_len && stream_fill(s, 1, e) < 0)
			return -1;
		before = s->in_len - s->in_at;
		/* A decoder may have bytes left without any input. */
		if (before == 0 && (s->kind == KIND_PLAIN || s->between))
			return 0;
		n = s->kind == KIND_PLAIN  ? stream_read_plain(s, ret, cap)
		    : s->kind == KIND_GZIP ? stream_read_gzip(s, ret, cap, e)
					   : stream_read_zstd(s, ret, cap, e);
		if (n < 0 || (n > 0 && stream_count(s, ret, (size_t)n, e) < 0))
			return -1;
		if (n > 0)
			return n;
		if (before == 0)
			return err_set(e, ERR_INVALID, "the compressed archive ends too early");
	}
}

ssize_t stream_in_splice(struct stream_in *s, int to, uint64_t n, struct err *e)
{
	ssize_t moved;

	if (!s->begun || s->kind != KIND_PLAIN || s->hash || s->watch != NULL || s->fd < 0 ||
	    s->is_part || s->no_splice || s->in_at < s->in_len)
		return 0;
	if (stream_wait_for_input(s, e) < 0)
		return -1;
	do
		moved = splice(s->fd, NULL, to, NULL, n < SPLICE_MAX ? (size_t)n : SPLICE_MAX,
			       SPLICE_F_MOVE);
	while (moved < 0 && errno == EINTR);
	if (moved < 0 && errno == EINVAL) { /* not a pipe */
		s->no_splice = true;
		return 0;
	}
	if (moved < 0)
		return err_sys(e, "write");
	s->in_total += (uint64_t)moved;
	return moved > 0 && stream_count(s, NULL, (size_t)moved, e) < 0 ? -1 : moved;
}

uint64_t stream_in_total(const struct stream_in *s)
{
	return s->out_total;
}

int stream_in_finish(struct stream_in *s, uint8_t ret[SHA256_SIZE], struct err *e)
{
	OWN_MEM uint8_t *rest = malloc(SKIP_SIZE);
	ssize_t n;

	if (rest == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	while ((n = stream_in_read(s, rest, SKIP_SIZE, e)) > 0)
		continue;
	if (n == 0)
		sha256_end(&s->sum, ret);
	return (int)n;
}
