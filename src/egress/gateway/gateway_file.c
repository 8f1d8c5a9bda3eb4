/* gateway_file.c - theory of operation
 *
 * The head is written at once. Then each step sends a piece while the cell reads: of a file, with
 * sendfile(2) to a plain socket if it need not be hashed. Everything else through a buffer. A file
 * is an object of the cache (or a memfd), complete before it was opened, so its size does not
 * change. If fewer bytes come all the same, the answer is cut. Ranges are parts of such a whole
 * file, never of an answer of a server.
 *
 * A file of the cache was hashed when it was stored, but which object a view names was said by a
 * cordon-egress, perhaps another, compromised one. So a file that a pin or an index names by digest
 * is hashed again (decision 032): f->hashed bytes so far. Bytes go to the cell only as far as they
 * are hashed, and the last HELD ones when all are, and right.
 *
 * Content of a host that can know secrets passes the mask, as an answer of that host does: a
 * session may have got a secret after the content was kept. Such content is sent as a whole, never
 * in parts, which could begin or end inside a value. */
#include "egress/gateway/gateway_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>

#include "egress/gateway/gateway_body.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_judge.h"
#include "lib/base/str.h"
#include "lib/http/byte_range.h"
#include "lib/packages/digest.h"

#define PIECE_MAX ((size_t)64 * 1024)
#define PRODUCED_MAX ((size_t)16 * 1024)
#define TURN_MAX 16 /* pieces per step: then other connections are served */
#define HEAD_MAX ((size_t)4096)
#define VALUE_MAX 1024U		   /* of a header, with NUL: the cache's are shorter */
#define HELD ((uint64_t)16 * 1024) /* of a hashed file */

struct gateway_file {
	struct gateway_content content; /* its strings are not used after the head */
	uint64_t at, end;		/* of a file: bytes left to be sent */
	bool bodiless, done, waits;
	struct digest expected;	    /* DIGEST_NONE: it need not be hashed */
	struct digest_stream *hash; /* owned. NULL: nothing to hash, or all is hashed and right */
	uint64_t hashed;
};

/* ---- the head */

/* Is the tag in the list of If-None-Match? */
static bool is_listed(struct http1_span list, const char *etag)
{
	size_t n = strlen(etag);

	if (http1_span_is(list, "*"))
		return true;
	for (size_t i = 0; i + n <= list.n; i++)
		if (memcmp(list.p + i, etag, n) == 0 &&
		    (i + n == list.n || list.p[i + n] == ',' || list.p[i + n] == ' '))
			return true;
	return false;
}

static bool is_known(const struct gateway *x, const char *etag)
{
	struct http1_span value;

	if (etag == NULL || etag[0] == '\0' ||
	    http1_find(x->r.headers, x->r.headers_n, "if-none-match", &value) != 1)
		return false;
	return is_listed(value, etag);
}

/* The requested part of a file. False: all of it. */
static bool wants_part(const struct gateway *x, const struct gateway_content *c,
		       struct byte_range *ret)
{
	struct http1_span range, only_if;

	if (c->fd < 0 || x->r.method != HTTP1_GET || x->mask != NULL ||
	    http1_find(x->r.headers, x->r.headers_n, "range", &range) != 1)
		return false;
	if (http1_find(x->r.headers, x->r.headers_n, "if-range", &only_if) > 0 &&
	    (c->etag == NULL || !http1_span_is(only_if, c->etag)))
		return false;
	return byte_range_parse(range, ret);
}

/* 206, or 416 if no byte of it is there. */
static int take_part(const struct byte_range *r, struct gateway_file *f)
{
	uint64_t size = f->end;

	if (r->from_end)
		f->at = r->first < size ? size - r->first : 0;
	else
		f->at = r->first;
	if (!r->from_end && r->last < size)
		f->end = r->last + 1;
	return f->at < f->end ? 206 : 416;
}

/* The value as the cell may see it. */
static void put_if(struct gateway *x, struct buf *b, const char *name, const char *value)
{
	char text[VALUE_MAX];

	if (value == NULL || value[0] == '\0')
		return;
	str_copy(text, value);
	if (x->mask != NULL)
		x->masked.places +=
			mask_text(x->mask, &x->known_secrets, (uint8_t *)text, strlen(text));
	buf_printf(b, "%s: %s\r\n", name, text);
}

static void put_framing(struct gateway *x, struct buf *b, const struct gateway_file *f)
{
	const struct gateway_content *c = &f->content;

	if (x->status == 206)
		buf_printf(b, "Content-Range: bytes %llu-%llu/%llu\r\n", (unsigned long long)f->at,
			   (unsigned long long)f->end - 1, (unsigned long long)c->size);
	if (x->status == 416)
		buf_printf(b, "Content-Range: bytes */%llu\r\n", (unsigned long long)c->size);
	if (x->status == 304)
		return;
	if (c->fd >= 0)
		buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)(f->end - f->at));
	else if (x->in.rechunk)
		buf_put_text(b, "Transfer-Encoding: chunked\r\n");
}

static int send_head(struct gateway *x, const struct gateway_file *f)
{
	const struct gateway_content *c = &f->content;
	const char *type =
		c->type != NULL && c->type[0] != '\0' ? c->type : "application/octet-stream";
	struct buf b = BUF_INIT(HEAD_MAX);
	struct err e;
	int fits;

	buf_printf(&b, "HTTP/1.1 %d %s\r\n", x->status,
		   c->reason != NULL ? c->reason : http1_reason(x->status));
	if (x->status != 304 && x->status != 416)
		put_if(x, &b, "Content-Type", type);
	put_if(x, &b, "ETag", c->etag);
	put_if(x, &b, "Last-Modified", c->last_modified);
	put_framing(x, &b, f);
	if (!x->cell_keep)
		buf_put_text(&b, "Connection: close\r\n");
	else if (x->r.minor == 0)
		buf_put_text(&b, "Connection: keep-alive\r\n");
	buf_put_text(&b, "\r\n");
	fits = buf_check(&b, &e);
	if (fits == 0) {
		gateway_stream_add(&x->cell, b.data, b.len);
		gateway_count_bytes(x, LIMIT_IN, b.len);
	}
	buf_release(&b);
	return fits;
}

/* The headers are text of servers: a line break in one would end the head. */
static bool is_clean(const char *text)
{
	for (; text != NULL && *text != '\0'; text++)
		if ((*text < 0x20 && *text != '\t') || *text == 0x7f)
			return false;
	return true;
}

static int status_of(const struct gateway *x, struct gateway_file *f)
{
	const struct gateway_content *c = &f->content;
	int status = c->status == 0 ? 200 : c->status;
	struct byte_range part;

	f->end = c->fd >= 0 ? c->size : 0;
	if (status != 200)
		return status;
	if (is_known(x, c->etag))
		return 304;
	return wants_part(x, c, &part) ? take_part(&part, f) : 200;
}

/* NULL: out of memory, or libcrypto failed. */
static struct gateway_file *new_file(const struct gateway_content *content)
{
	struct gateway_file *f = calloc(1, sizeof(*f));
	struct err e;

	if (f == NULL)
		return NULL;
	f->content = *content;
	if (content->expected == NULL || content->fd < 0)
		return f;
	f->expected = *content->expected;
	f->hash = digest_stream_new(f->expected.alg, &e);
	if (f->hash != NULL)
		return f;
	free(f);
	return NULL;
}

void gateway_file_serve(struct gateway *x, struct gateway_content *content)
{
	struct gateway_file *f = new_file(content);

	gateway_file_end(x);
	if (f == NULL) {
		if (content->fd >= 0)
			fd_close(content->fd);
		if (content->release != NULL)
			content->release(content->arg);
		gateway_fail(x, 503, "out of memory");
		return;
	}
	x->file = f;
	gateway_find_known(x);
	x->mask = x->server_knows ? secrets_mask(x->session->secrets) : NULL;
	x->masked.only = &x->known_secrets;
	x->status = status_of(x, f);
	if (x->status == 416)
		f->at = f->end = 0;
	f->bodiless = x->r.method == HTTP1_HEAD || x->status == 304 || x->status == 416;
	x->in = (struct gateway_body){ .rechunk = content->fd < 0 && x->r.minor > 0 };
	x->cell_keep = x->r.keep_alive && x->out.done && (content->fd >= 0 || x->r.minor > 0);
	if (!is_clean(content->type) || !is_clean(content->etag) ||
	    !is_clean(content->last_modified) || !is_clean(content->reason) ||
	    send_head(x, f) < 0) {
		gateway_fail(x, 502, "the headers of the answer are malformed or too long");
		return;
	}
	x->answered = true;
	f->done = f->bodiless || (content->fd >= 0 && f->at == f->end && f->hash == NULL);
	x->state = GATEWAY_FILE;
	gateway_wait(x, GATEWAY_ANSWER_MS);
	gateway_defer(x);
}

/* ---- the body */

static void gateway_file_cut(struct gateway *x, const char *why)
{
	gateway_fail(x, 502, why);
}

/* Hash the next piece. False: the file is not the expected one, or cannot be read. */
static bool hash_piece(struct gateway *x, struct gateway_file *f)
{
	static uint8_t piece[PIECE_MAX];
	struct digest got = { 0 };
	uint64_t left = f->content.size - f->hashed;
	ssize_t n = left == 0 ? 0
			      : pread(f->content.fd, piece, left < PIECE_MAX ? left : PIECE_MAX,
				      (off_t)f->hashed);

	if (n > 0) {
		digest_stream_add(f->hash, piece, (size_t)n);
		f->hashed += (uint64_t)n;
		resource_share_turn_moved(&x->session->share, (uint64_t)n);
	}
	if (n > 0 && f->hashed < f->content.size)
		return true;
	digest_stream_end(f->hash, &got);
	digest_stream_free(f->hash);
	f->hash = NULL;
	if (f->hashed == f->content.size && digest_equal(&got, &f->expected))
		return true;
	if (f->content.on_bad != NULL)
		f->content.on_bad(f->content.arg);
	gateway_file_cut(x,
			 "a file of the package cache does not have the digest that was expected");
	return false;
}

/* How far the file may be sent now. Hash more of it, if needed. */
static uint64_t gateway_file_sendable(struct gateway *x, struct gateway_file *f)
{
	bool whole = x->status == 206; /* before a part of it is sent */

	for (unsigned i = 0; i < TURN_MAX && f->hash != NULL; i++) {
		if (!whole && f->hashed >= f->at + PIECE_MAX + HELD)
			break;
		if (!hash_piece(x, f))
			return 0;
	}
	if (f->hash == NULL)
		return f->end;
	if (whole || f->hashed <= HELD) {
		gateway_defer(x);
		return f->at;
	}
	return f->hashed - HELD < f->end ? f->hashed - HELD : f->end;
}

/* Return the bytes that went. 0: the cell takes no more now, or it was cut. */
static size_t send_direct(struct gateway *x, struct gateway_file *f, size_t most)
{
	off_t at = (off_t)f->at;
	ssize_t n = sendfile(x->cell.fd, f->content.fd, &at, most);

	if (n > 0)
		return (size_t)n;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		x->cell.blocked = true;
	else if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		x->cell.write_broken = true;
	else
		gateway_file_cut(x, "a file of the package cache could not be read");
	return 0;
}

static void put_chunk(struct gateway *x, const uint8_t *data, size_t n)
{
	char head[CHUNK_HEAD_MAX];

	if (n == 0)
		return;
	if (!x->in.rechunk) {
		gateway_stream_add(&x->cell, data, n);
		return;
	}
	gateway_stream_add(&x->cell, head, chunk_head(head, n));
	gateway_stream_add(&x->cell, data, n);
	gateway_stream_add(&x->cell, CHUNK_TAIL, sizeof(CHUNK_TAIL) - 1);
}

static bool is_masked(const struct gateway *x)
{
	return x->mask != NULL || mask_stream_held(&x->masked) > 0;
}

/* How many bytes may pass the mask in this turn, of so many. */
static size_t gateway_file_maskable(struct gateway *x, size_t most)
{
	uint64_t left;

	if (x->mask == NULL)
		return most;
	left = resource_share_turn_left(&x->session->share) / gateway_mask_weight(x);
	if (left == 0)
		gateway_defer(x);
	if (most > GATEWAY_MASK_PIECE)
		most = GATEWAY_MASK_PIECE;
	return most < left ? most : (size_t)left;
}

/* False: out of memory, and the answer was cut. */
static bool put_content(struct gateway *x, const uint8_t *data, size_t n)
{
	uint8_t *room = x->mask != NULL ? gateway_mask_room(x) : NULL;

	if (x->mask == NULL) {
		put_chunk(x, data, n);
		return true;
	}
	if (room == NULL) {
		gateway_file_cut(x, "out of memory");
		return false;
	}
	gateway_count_masked(x, n);
	put_chunk(x, room, mask_feed(x->mask, &x->masked, data, n, room));
	return true;
}

/* All of the content was read: release the bytes that the mask holds back. */
static void put_held(struct gateway *x)
{
	uint8_t *room = is_masked(x) ? gateway_mask_room(x) : NULL;

	if (!is_masked(x))
		return;
	if (room == NULL) {
		gateway_file_cut(x, "out of memory");
		return;
	}
	put_chunk(x, room,
		  x->mask != NULL ? mask_end(x->mask, &x->masked, room)
				  : mask_flush(NULL, &x->masked, room));
}

static size_t send_copied(struct gateway *x, struct gateway_file *f, size_t most)
{
	static uint8_t piece[PIECE_MAX];
	size_t room = gateway_stream_room(&x->cell);
	ssize_t n;

	if (room < GATEWAY_STREAM_OUT_MAX / 2)
		return 0;
	most = gateway_file_maskable(x, most);
	if (most == 0)
		return 0;
	n = pread(f->content.fd, piece, most < room ? most : room, (off_t)f->at);
	if (n <= 0) {
		gateway_file_cut(x, "a file of the package cache could not be read");
		return 0;
	}
	return put_content(x, piece, (size_t)n) ? (size_t)n : 0;
}

/* Was all of the file sent, or handed to the stream? */
static bool is_sent(struct gateway *x, const struct gateway_file *f)
{
	if (f->at < f->end || f->hash != NULL)
		return false;
	put_held(x);
	return !x->over;
}

static size_t send_file(struct gateway *x, struct gateway_file *f, uint64_t left)
{
	uint64_t to = gateway_file_sendable(x, f), most = to > f->at ? to - f->at : 0;
	size_t n;

	if (x->over)
		return 0;
	if (most > left)
		most = left;
	if (most > PIECE_MAX)
		most = PIECE_MAX;
	if (most == 0) {
		f->done = is_sent(x, f);
		return 0;
	}
	x->cell.blocked = false;
	n = x->cell.tls != NULL || x->cell.out.len > 0 || is_masked(x)
		    ? send_copied(x, f, (size_t)most)
		    : send_direct(x, f, (size_t)most);
	f->at += n;
	f->done = !x->over && is_sent(x, f);
	return n;
}

static size_t send_produced(struct gateway *x, struct gateway_file *f, uint64_t left)
{
	static uint8_t piece[PRODUCED_MAX];
	size_t most = left < PRODUCED_MAX ? (size_t)left : PRODUCED_MAX;
	ssize_t n;

	if (f->waits || gateway_stream_room(&x->cell) < GATEWAY_STREAM_OUT_MAX / 2)
		return 0;
	most = gateway_file_maskable(x, most);
	if (most == 0)
		return 0;
	n = f->content.produce(f->content.arg, piece, most);
	if (n == GATEWAY_CONTENT_LATER) {
		f->waits = true;
		return 0;
	}
	if (n < 0) {
		gateway_file_cut(x, "the answer could not be made completely");
		return 0;
	}
	if (n > 0)
		return put_content(x, piece, (size_t)n) ? (size_t)n : 0;
	put_held(x);
	if (x->over)
		return 0;
	f->done = true;
	if (x->in.rechunk)
		gateway_stream_add(&x->cell, CHUNK_LAST, sizeof(CHUNK_LAST) - 1);
	return 0;
}

static bool send_some(struct gateway *x, struct gateway_file *f)
{
	bool moved = false;

	for (unsigned i = 0; i < TURN_MAX && !x->over && !f->done; i++) {
		uint64_t left = gateway_bytes_left(x, LIMIT_IN, 1);
		size_t n;

		if (left == 0) {
			gateway_limit_reached(x, LIMIT_IN);
			return true;
		}
		n = f->content.fd >= 0 ? send_file(x, f, left) : send_produced(x, f, left);
		if (n > 0)
			gateway_count_bytes(x, LIMIT_IN, n);
		moved = moved || n > 0;
		if (n == 0)
			break;
	}
	return moved || x->over || f->done;
}

bool gateway_file_step(struct gateway *x)
{
	struct gateway_file *f = x->file;
	bool moved = gateway_stream_flush(&x->cell);

	/* Reads the next request, or the end of the connection, so that epoll does not report it
	 * again. */
	if (x->cell.in.len == 0)
		moved = gateway_stream_fill(&x->cell, FLOW_HEAD_MAX) || moved;
	if (!x->cell.broken && !x->cell.write_broken && !f->done)
		moved = send_some(x, f) || moved;
	if (x->over || x->state != GATEWAY_FILE)
		return true;
	if (x->cell.broken || x->cell.write_broken) {
		gateway_client_gone(x);
		return true;
	}
	if (f->done) {
		(void)gateway_stream_flush(&x->cell);
		gateway_done(x);
		return true;
	}
	if (moved)
		gateway_wait(x, GATEWAY_ANSWER_MS);
	return moved;
}

void gateway_file_resume(struct gateway *x)
{
	if (x->file == NULL)
		return;
	x->file->waits = false;
	gateway_defer(x);
}

void gateway_file_end(struct gateway *x)
{
	struct gateway_file *f = x->file;

	x->file = NULL;
	if (f == NULL)
		return;
	if (f->content.fd >= 0)
		fd_close(f->content.fd);
	if (f->content.release != NULL)
		f->content.release(f->content.arg);
	digest_stream_free(f->hash);
	free(f);
}
