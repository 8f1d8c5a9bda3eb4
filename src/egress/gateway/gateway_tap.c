/* gateway_tap.c - theory of operation
 *
 * Bytes of the answer come in as they were taken out of their framing, before the mask. Each is
 * hashed by every expected algorithm, handed to the store, and kept among the last GATEWAY_TAP_HELD
 * ones until others come behind it. At the end of the body the digests are compared. Only then the
 * held bytes are released. A cell that gets a wrong file therefore never gets its end: the
 * connection is reset. When a file is held back whole, the head waits, too, so that a wrong one is
 * answered with the reason. When all bytes have passed the mask, the store is committed, unless the
 * mask covered something: the cache would show it to others.
 *
 * The store decides how fast bytes are taken (gateway_tap_room()), as long as it is not given up.
 */
#include "egress/gateway/gateway_tap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/flow/flow.h"
#include "egress/gateway/gateway_base.h"
#include "egress/gateway/gateway_end.h"
#include "lib/base/buf.h"
#include "lib/base/hex.h"
#include "lib/base/str.h"
#include "lib/http/http1.h"
#include "lib/packages/digest.h"

#define SHOWN 8U /* bytes of a digest in a reason */
#define HEAD_MAX ((size_t)2 * FLOW_HEAD_MAX)

struct gateway_tap {
	struct gateway_tap_want want;
	char *scope, *registry, *path;		   /* owned, of the key. NULL: nothing is stored */
	struct digest *expected;		   /* owned */
	struct digest_stream *hashes[DIGEST_ALGS]; /* owned. The expected ones, and SHA-256 */
	struct cache_store *store;		   /* owned. NULL: not stored */
	bool is_on;				   /* the answer is one that it applies to */
	bool ended;				   /* on_end was called */
	bool is_wrong;				   /* it was not the expected one */
	bool holds_head;			   /* all of it is held back, and so is its head */
	bool is_whole;	      /* all of the body came, and it is the expected one */
	struct digest sha256; /* of a whole body */
	uint64_t places;      /* that the mask had covered before the body */
	struct buf head;      /* of the answer to the cell */
	uint64_t bytes;
	size_t nheld;
	uint8_t held[GATEWAY_TAP_HELD];
	char reason[160];
};

static void gateway_tap_release(struct gateway_tap *t)
{
	for (size_t alg = 0; alg < DIGEST_ALGS; alg++)
		digest_stream_free(t->hashes[alg]);
	cache_store_abort(t->store);
	buf_release(&t->head);
	free(t->expected);
	free(t->scope);
	free(t->registry);
	free(t->path);
	free(t);
}

static int copy_key(struct gateway_tap *t, const struct cache_key *key, struct err *e)
{
	t->scope = strdup(key->scope);
	t->registry = strdup(key->registry);
	t->path = strdup(key->path);
	if (t->scope == NULL || t->registry == NULL || t->path == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

static int add_hash(struct gateway_tap *t, enum digest_alg alg, struct err *e)
{
	if (t->hashes[alg] == NULL)
		t->hashes[alg] = digest_stream_new(alg, e);
	return t->hashes[alg] == NULL ? -1 : 0;
}

static int gateway_tap_prepare(struct gateway_tap *t, const struct gateway_tap_want *want,
			       struct err *e)
{
	if (want->nexpected > GATEWAY_TAP_DIGESTS_MAX)
		return err_set(e, ERR_INVALID, "too many digests of one file");
	t->expected = calloc(want->nexpected + 1, sizeof(*t->expected));
	if (t->expected == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < want->nexpected; i++) {
		if (want->expected[i].alg == DIGEST_NONE || want->expected[i].alg == DIGEST_H1)
			return err_set(e, ERR_INVALID, "a digest that is not one of the file");
		t->expected[i] = want->expected[i];
		if (add_hash(t, want->expected[i].alg, e) < 0)
			return -1;
	}
	if (add_hash(t, DIGEST_SHA256, e) < 0)
		return -1;
	return want->store ? copy_key(t, &want->key, e) : 0;
}

int gateway_tap_set(struct gateway *x, const struct gateway_tap_want *want, struct err *e)
{
	struct gateway_tap *t = calloc(1, sizeof(*t));

	gateway_tap_end(x);
	if (t == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	t->want = *want;
	t->want.expected = NULL;
	t->head = (struct buf)BUF_INIT(HEAD_MAX);
	if (gateway_tap_prepare(t, want, e) < 0) {
		gateway_tap_release(t);
		return -1;
	}
	x->tap = t;
	return 0;
}

void gateway_tap_keep_nothing(struct gateway *x)
{
	struct gateway_tap *t = x->tap;

	if (t == NULL)
		return;
	free(t->scope);
	free(t->registry);
	free(t->path);
	t->scope = t->registry = t->path = NULL;
}

/* ---- the end */

static void gateway_tap_report(struct gateway *x, enum gateway_tap_result result,
			       const struct digest *sha256)
{
	struct gateway_tap *t = x->tap;
	struct gateway_tap_end end = { .result = result, .bytes = t->bytes, .reason = t->reason };

	if (t->ended)
		return;
	t->ended = true;
	if (sha256 != NULL && sha256->alg == DIGEST_SHA256)
		memcpy(end.sha256, sha256->bytes, sizeof(end.sha256));
	end.stored = t->store != NULL && !cache_store_has_failed(t->store) && t->is_whole &&
		     (t->bytes == 0 || x->masked.places == t->places);
	if (end.stored)
		cache_store_commit(t->store, t->want.stored);
	else
		cache_store_abort(t->store);
	t->store = NULL;
	if (t->want.on_end != NULL)
		t->want.on_end(x, &end, t->want.arg);
}

static void gateway_tap_mismatch(struct gateway *x, const struct digest *sha256)
{
	x->tap->is_wrong = true;
	gateway_tap_report(x, TAP_MISMATCH, sha256);
	x->in.bad = x->tap->reason;
}

/* got: of the first expected algorithm. Both are shown by their first bytes. */
static void write_difference(struct gateway_tap *t, const struct digest *got)
{
	const char *name = digest_alg_name(got->alg);
	char is[2 * SHOWN + 1], should[2 * SHOWN + 1];

	if (t->want.nexpected == 0 || got->alg != t->expected[0].alg) {
		(void)snprintf(t->reason, sizeof(t->reason), "the file cannot be hashed");
		return;
	}
	hex_encode(got->bytes, SHOWN, is);
	hex_encode(t->expected[0].bytes, SHOWN, should);
	(void)snprintf(t->reason, sizeof(t->reason),
		       "the file has %s:%s..., and should have %s:%s...", name, is, name, should);
}

/* Has it one of the expected digests? ret_got: that of the first one's algorithm. */
static bool gateway_tap_compare(struct gateway_tap *t, struct digest *ret_sha256,
				struct digest *ret_got)
{
	struct digest got[DIGEST_ALGS] = { 0 };
	bool right = t->want.nexpected == 0;

	for (size_t alg = 0; alg < DIGEST_ALGS; alg++)
		if (t->hashes[alg] != NULL)
			digest_stream_end(t->hashes[alg], &got[alg]);
	for (size_t i = 0; i < t->want.nexpected; i++)
		right = right || digest_equal(&got[t->expected[i].alg], &t->expected[i]);
	*ret_sha256 = *ret_got = got[DIGEST_SHA256];
	if (t->want.nexpected > 0)
		*ret_got = got[t->expected[0].alg];
	return right && ret_sha256->alg == DIGEST_SHA256; /* else libcrypto failed */
}

/* The whole body has come. False: it is not the expected one. */
static bool is_right(struct gateway *x)
{
	struct gateway_tap *t = x->tap;
	struct digest sha256 = { 0 }, got = { 0 };

	if (t->want.has_size && t->bytes != t->want.size)
		(void)snprintf(t->reason, sizeof(t->reason),
			       "the file has %llu bytes, and should have %llu",
			       (unsigned long long)t->bytes, (unsigned long long)t->want.size);
	else if (!gateway_tap_compare(t, &sha256, &got))
		write_difference(t, &got);
	if (t->reason[0] != '\0') {
		gateway_tap_mismatch(x, &sha256);
		return false;
	}
	t->is_whole = true;
	t->sha256 = sha256;
	return true;
}

void gateway_tap_passed(struct gateway *x)
{
	struct gateway_tap *t = x->tap;

	if (t != NULL && t->is_whole)
		gateway_tap_report(x, t->want.nexpected > 0 ? TAP_VERIFIED : TAP_WHOLE, &t->sha256);
}

/* ---- the head */

static void on_room(void *arg)
{
	gateway_defer(arg);
}

/* "" if it is missing, or longer than the cache takes. */
static void gateway_tap_header(const struct http1_response *a, const char *name, char *ret,
			       size_t cap)
{
	struct http1_span v;

	ret[0] = '\0';
	if (http1_find(a->headers, a->headers_n, name, &v) != 1 || v.n >= cap)
		return;
	memcpy(ret, v.p, v.n);
	ret[v.n] = '\0';
}

static bool is_masked(struct gateway *x, char *text)
{
	return x->mask != NULL &&
	       mask_text(x->mask, &x->known_secrets, (uint8_t *)text, strlen(text)) > 0;
}

static void begin_store(struct gateway *x, const struct http1_response *a)
{
	struct gateway_tap *t = x->tap;
	char etag[CACHE_ETAG_MAX], date[CACHE_DATE_MAX], type[CACHE_TYPE_MAX];
	const struct cache_key key = { t->scope, t->registry, t->path };
	const struct cache_meta meta = { etag, date, type };
	bool is_known = t->want.nexpected == 1 && t->expected[0].alg == DIGEST_SHA256;
	gateway_tap_header(a, "etag", etag, sizeof(etag));
	gateway_tap_header(a, "last-modified", date, sizeof(date));
	gateway_tap_header(a, "content-type", type, sizeof(type));
	if (is_masked(x, etag) || is_masked(x, date) || is_masked(x, type))
		return;
	t->store = cache_store_begin(x->session->egress, x->session->share.tenant->name, &key,
				     &meta, is_known ? t->expected[0].bytes : NULL, on_room, x);
}

static bool is_encoded(const struct http1_response *a)
{
	struct http1_span coding;
	size_t n = http1_find(a->headers, a->headers_n, "content-encoding", &coding);

	return n > 1 || (n == 1 && coding.n > 0 && !http1_span_is_nocase(coding, "identity"));
}

/* Refuse an answer before its first byte. */
static bool gateway_tap_refuse(struct gateway *x, const char *why)
{
	str_copy(x->tap->reason, why);
	gateway_tap_report(x, TAP_MISMATCH, NULL);
	gateway_fail(x, 403, why);
	return false;
}

bool gateway_tap_head(struct gateway *x, const struct http1_response *a)
{
	struct gateway_tap *t = x->tap;
	bool sized = a->framing == HTTP1_LENGTH;

	if (t == NULL || x->r.method == HTTP1_HEAD)
		return true;
	/* Clients take the body of every status below 400 for the file. */
	if (a->status != 200 && a->status < 400 && a->framing != HTTP1_NO_BODY &&
	    t->want.nexpected > 0)
		return gateway_tap_refuse(
			x, "the server answered a file with another status than 200");
	if (a->status != 200)
		return true;
	if (is_encoded(a))
		return gateway_tap_refuse(x,
					  "the file came with an encoding that was not asked for");
	if (sized && t->want.has_size && a->content_length != t->want.size)
		return gateway_tap_refuse(
			x, "the server announces another size than the registry's index");
	t->is_on = true;
	t->holds_head = sized && t->want.nexpected > 0 && a->content_length <= GATEWAY_TAP_HELD;
	if (t->scope != NULL)
		begin_store(x, a);
	if (!sized || a->content_length > 0)
		return true;
	if (!is_right(x)) {
		gateway_fail(x, 403, t->reason);
		return false;
	}
	gateway_tap_passed(x);
	return true;
}

/* ---- a head that waits */

void gateway_tap_hold_head(struct gateway *x, size_t before)
{
	struct fifo *out = &x->cell.out;
	struct gateway_tap *t = x->tap;

	if (t == NULL || !t->holds_head || t->ended || out->len <= before)
		return;
	buf_put(&t->head, fifo_bytes(out) + before, out->len - before);
	out->len = before;
}

bool gateway_tap_take_back(struct gateway *x)
{
	struct gateway_tap *t = x->tap;
	bool held = t != NULL && t->head.len > 0;

	if (held)
		buf_clear(&t->head);
	return held;
}

int gateway_tap_status(const struct gateway *x)
{
	return x->tap != NULL && x->tap->is_wrong ? 403 : 502;
}

static bool send_head(struct gateway *x)
{
	struct gateway_tap *t = x->tap;
	struct err e;

	if (buf_check(&t->head, &e) < 0)
		return false;
	gateway_stream_add(&x->cell, t->head.data, t->head.len);
	buf_clear(&t->head);
	return true;
}

/* ---- the body */

bool gateway_tap_is_on(const struct gateway *x)
{
	return x->tap != NULL && x->tap->is_on && !x->tap->ended;
}

size_t gateway_tap_room(struct gateway *x, size_t most)
{
	const struct gateway_tap *t = x->tap;
	size_t room = t->store == NULL ? SIZE_MAX : cache_store_room(t->store);

	return room < most ? room : most;
}

/* The first bytes of held and data pass, the last ones stay. */
static size_t gateway_tap_exchange(struct gateway_tap *t, const uint8_t *data, size_t n,
				   uint8_t *ret)
{
	size_t all = t->nheld + n, goes = all > GATEWAY_TAP_HELD ? all - GATEWAY_TAP_HELD : 0;
	size_t old = goes < t->nheld ? goes : t->nheld, fresh = goes - old;

	memcpy(ret, t->held, old);
	memcpy(ret + old, data, fresh);
	memmove(t->held, t->held + old, t->nheld - old);
	t->nheld -= old;
	memcpy(t->held + t->nheld, data + fresh, n - fresh);
	t->nheld += n - fresh;
	return goes;
}

ssize_t gateway_tap_feed(struct gateway *x, const uint8_t *data, size_t n, uint8_t *ret)
{
	struct gateway_tap *t = x->tap;

	for (size_t alg = 0; alg < DIGEST_ALGS; alg++)
		if (t->hashes[alg] != NULL)
			digest_stream_add(t->hashes[alg], data, n);
	if (t->bytes == 0)
		t->places = x->masked.places;
	t->bytes += n;
	if (t->want.has_size && t->bytes > t->want.size) {
		(void)snprintf(t->reason, sizeof(t->reason), "the file is longer than %llu bytes",
			       (unsigned long long)t->want.size);
		gateway_tap_mismatch(x, NULL);
		return -1;
	}
	if (t->store != NULL && cache_store_write(t->store, data, n) < n) {
		cache_store_abort(t->store); /* more than there was room for */
		t->store = NULL;
	}
	return (ssize_t)gateway_tap_exchange(t, data, n, ret);
}

ssize_t gateway_tap_finish(struct gateway *x, uint8_t *ret)
{
	struct gateway_tap *t = x->tap;
	size_t n = t->nheld;

	if (!is_right(x))
		return -1;
	if (t->holds_head && !send_head(x)) {
		x->in.bad = "out of memory";
		return -1;
	}
	memcpy(ret, t->held, n);
	t->nheld = 0;
	return (ssize_t)n;
}

size_t gateway_tap_memory(const struct gateway *x)
{
	return x->tap != NULL ? sizeof(*x->tap) : 0;
}

void gateway_tap_end(struct gateway *x)
{
	if (x->tap == NULL)
		return;
	gateway_tap_report(x, x->tap->is_on ? TAP_CUT : TAP_NONE, NULL);
	gateway_tap_release(x->tap);
	x->tap = NULL;
}
