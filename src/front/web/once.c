/* once.c - see once.h. Requests in progress are in a list, which finds the second of two at a time.
 * It is as long as there are requests, and those of a tenant are bounded. */
#include "front/web/once.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define HEADER "Idempotency-Key"

/* Linked as long as its request lives. */
struct once {
	struct once *next, **link; /* of all in progress */
	struct request *r;
	struct store_once row;
};

static struct once *in_progress;

/* Printable characters without blanks. */
static int read_key(struct http1_span given, char ret[STORE_ONCE_KEY_MAX], struct err *e)
{
	bool good = given.n > 0 && given.n < STORE_ONCE_KEY_MAX;

	for (size_t i = 0; good && i < given.n; i++)
		good = given.p[i] > ' ' && given.p[i] <= '~';
	if (!good)
		return err_set(e, ERR_INVALID,
			       HEADER " must have 1 to %d printable characters without blanks",
			       STORE_ONCE_KEY_MAX - 1);
	memcpy(ret, given.p, given.n);
	ret[given.n] = '\0';
	return 0;
}

/* A NUL separates the parts, so that no two requests have one text. */
static void add_span(struct sha256 *h, struct http1_span s)
{
	sha256_add(h, s.p, s.n);
	sha256_add(h, "", 1);
}

/* Everything that makes a request another one, but for its headers. */
static void digest_request(const struct request *r, const void *body, size_t len,
			   uint8_t ret[SHA256_SIZE])
{
	const struct http1_request *q = exchange_request(r->x);
	struct sha256 h;

	sha256_init(&h);
	add_span(&h, q->method_name);
	add_span(&h, q->path);
	add_span(&h, q->query);
	sha256_add(&h, body, len);
	sha256_end(&h, ret);
}

/* Two requests with one key at a time would make two objects. */
static bool is_in_progress(const struct store_once *row)
{
	LIST_WALK(struct once, o, in_progress)
		if (strcmp(o->row.tenant, row->tenant) == 0 && strcmp(o->row.key, row->key) == 0)
			return true;
	return false;
}

/* 1, 0 or -1, as once_begin(). */
static int once_look(struct request *r, const struct store_once *row, char ret_object[STORE_ID_MAX],
		     struct err *e)
{
	struct store *store = core_store(r->core);
	struct store_once before;
	uint64_t count = 0;

	if (store_once_get(store, row->tenant, row->key, row->created_ms, &before, e) == 0) {
		if (memcmp(before.digest, row->digest, sizeof(before.digest)) != 0)
			return err_set(e, ERR_CONFLICT,
				       HEADER " '%s' was sent with another request", row->key);
		memcpy(ret_object, before.object, sizeof(before.object));
		return 1;
	}
	if (e->code != ERR_NOT_FOUND ||
	    store_once_count(store, row->tenant, row->created_ms, &count, e) < 0)
		return -1;
	if (count >= STORE_ONCE_TENANT_MAX)
		return err_set_reason(e, REASON_QUOTA_RECORDS,
				      "a tenant may have at most %d of " HEADER " within an hour",
				      STORE_ONCE_TENANT_MAX);
	return 0;
}

/* The key is taken from here on until the request ends. */
int once_begin(struct request *r, const void *body, size_t len, char ret_object[STORE_ID_MAX],
	       struct err *e)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span given;
	size_t n = http1_find(q->headers, q->headers_n, "idempotency-key", &given);
	struct store_once row = { .created_ms = core_now_ms() };
	int found;

	if (n == 0)
		return 0;
	if (n > 1)
		return err_set(e, ERR_INVALID, HEADER " is there more than once");
	if (read_key(given, row.key, e) < 0)
		return -1;
	str_copy(row.tenant, tenant_row(r->tenant)->id);
	digest_request(r, body, len, row.digest);
	if (is_in_progress(&row))
		return err_set(e, ERR_CONFLICT,
			       "the first request with " HEADER " '%s' has no answer yet", row.key);
	found = once_look(r, &row, ret_object, e);
	if (found < 0)
		return -1;
	r->once = calloc(1, sizeof(*r->once));
	if (r->once == NULL)
		return err_sys(e, "allocate");
	r->once->r = r;
	r->once->row = row;
	LIST_PUSH(&in_progress, r->once);
	return found;
}

/* Borrowed until the request ends. */
struct store_once *once_row(struct request *r)
{
	return r->once == NULL ? NULL : &r->once->row;
}

int once_write(struct request *r, const char *object, struct err *e)
{
	if (r->once == NULL)
		return 0;
	str_copy(r->once->row.object, object);
	return store_once_insert(core_store(r->core), &r->once->row, e);
}

void once_forget(struct request *r)
{
	struct err e;

	if (r->once != NULL &&
	    store_once_delete(core_store(r->core), r->once->row.tenant, r->once->row.key, &e) < 0)
		log_warn("a key of a request stays", "key=%s error=%s", r->once->row.key, e.msg);
}

void once_replayed(struct request *r)
{
	exchange_header(r->x, "Idempotency-Replayed", "true");
}

/* The key is free for the next request from here on. */
void once_free(struct once *o)
{
	if (o == NULL)
		return;
	LIST_REMOVE(o);
	free(o);
}
