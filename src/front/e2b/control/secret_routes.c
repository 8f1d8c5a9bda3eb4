/* secret_routes.c - E2B's secrets: the same as Cordon's own, but without hosts. So a session cannot
 * get a placeholder for one. A network rule that names it (${e2b.secrets.NAME}) binds it to its
 * host. */
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/base/rfc3339.h"
#include "front/web/reply.h"
#include "front/web/secret_calls.h"
#include "lib/json/json.h"

#define LIMIT_MAX 100

/* c may be NULL: nothing here depends on it. */
static void secret_routes_show(struct json *j, struct core *c, const struct store_secret *s)
{
	char created[RFC3339_MAX], updated[RFC3339_MAX];

	rfc3339_write(s->created_ms, created);
	rfc3339_write(s->updated_ms, updated);
	json_open(j, NULL, '{');
	json_text(j, "secretID", s->id);
	json_text(j, "name", s->name);
	json_uint(j, "currentVersion", s->version);
	json_raw(j, "metadata", s->metadata[0] == '\0' ? "{}" : s->metadata);
	json_text(j, "createdAt", created);
	json_text(j, "updatedAt", updated);
	json_close(j, '}');
}

/* lenient: unknown members of a body are ignored. */
static const struct secret_calls how = { .lenient = true, .show = secret_routes_show };

/* A page in the making. last is the name that the next page continues after. */
struct secret_routes_list {
	struct json j;
	uint64_t limit;
	uint64_t n;
	char last[STORE_NAME_MAX];
	bool more;
};

/* The row behind the page only tells that there is a next one. */
static int on_row(const struct store_secret *row, void *cookie)
{
	struct secret_routes_list *l = cookie;

	if (l->n == l->limit) {
		l->more = true;
		return 1;
	}
	secret_routes_show(&l->j, NULL, row);
	memcpy(l->last, row->name, sizeof(l->last));
	l->n++;
	return 0;
}

void secret_routes_list(struct request *r)
{
	struct secret_routes_list l = { .limit = LIMIT_MAX };
	char after[STORE_NAME_MAX] = "";
	struct err e = { 0 };

	json_init_heap(&l.j, REPLY_JSON_MAX);
	json_open(&l.j, NULL, '[');
	if (request_number(r, "limit", 1, LIMIT_MAX, &l.limit, &e) < 0 ||
	    request_text(r, "nextToken", after, sizeof(after), &e) < 0 ||
	    store_secret_list(core_store(r->core), tenant_row(r->tenant)->id, after,
			      (unsigned)l.limit + 1, on_row, &l, &e) < 0) {
		json_release(&l.j);
		reply_error(r, &e);
		return;
	}
	json_close(&l.j, ']');
	if (l.more) /* the last name: they need no other token */
		exchange_header(r->x, "X-Next-Token", l.last);
	reply_json(r, 200, &l.j);
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	secret_calls_create(request_of(x), &how, body, len);
}

void secret_routes_create(struct request *r)
{
	request_long_body(r, on_create_body);
}

void secret_routes_get(struct request *r)
{
	secret_calls_get(r, &how);
}

static void on_update_body(struct exchange *x, const uint8_t *body, size_t len)
{
	secret_calls_update(request_of(x), &how, body, len);
}

void secret_routes_update(struct request *r)
{
	request_long_body(r, on_update_body);
}

void secret_routes_delete(struct request *r)
{
	secret_calls_delete(r);
}
