/* api_keys.c - creates, lists and revokes API keys. The text of a key is shown once, when it is
 * created. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "clock.h"
#include "json.h"
#include "json_members.h"
#include "page_walk.h"
#include "reply.h"
#include "request.h"
#include "json_view.h"
#include "spec_allow.h"

#define KEY_JSON_MAX 4096

static const struct {
	const char *name;
	unsigned bit;
} scopes[] = { { "read", TENANT_READ },
	       { "sessions", TENANT_SESSIONS },
	       { "admin", TENANT_ADMIN } };

static void show(struct json *j, const char *name, const struct store_key *k, const char *key)
{
	json_open(j, name, '{');
	json_text(j, "id", k->id);
	json_text(j, "name", k->name);
	if (key != NULL)
		json_text(j, "key", key);
	json_text(j, "prefix", k->prefix);
	json_open(j, "scopes", '[');
	for (size_t i = 0; i < COUNT(scopes); i++)
		if ((k->scopes & scopes[i].bit) != 0)
			json_text(j, NULL, scopes[i].name);
	json_close(j, ']');
	spec_allow_show(j, "allow", &k->allow);
	json_view_time(j, "created_at", k->created_ms);
	json_view_time(j, "expires_at", k->expires_ms);
	json_view_time(j, "last_used_at", k->last_used_ms);
	json_view_time(j, "revoked_at", k->revoked_ms);
	json_close(j, '}');
}

/* ---- list */

static int on_row(const struct store_key *row, void *cookie)
{
	struct page_walk *p = cookie;

	if (row->revoked_ms != 0)
		return 0;
	if (!page_walk_admits(p))
		return 1;
	show(&p->walk.j, NULL, row, NULL);
	return 0;
}

static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	const struct request *r = p->walk.r;
	const struct store_key_filter filter = { .tenant = tenant_row(r->tenant)->id,
						 .after_ms = p->page.after_ms,
						 .after_id = p->page.after_id,
						 .limit = WALK_PIECE };

	return store_key_list(core_store(r->core), &filter, on_row, p, ret, e);
}

void api_keys_list(struct request *r)
{
	struct page_walk *p = page_walk_new(r, sizeof(*p), read_rows);

	if (p != NULL)
		page_walk_start(p, "keys");
}

/* ---- create */

static void read_scopes(struct json_members *m, unsigned *ret)
{
	json_t *list = json_members_array(m, "scopes", COUNT(scopes));

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		size_t s = 0;

		while (word != NULL && s < COUNT(scopes) && strcmp(scopes[s].name, word) != 0)
			s++;
		if (word == NULL || s == COUNT(scopes)) {
			(void)json_members_fail(m, "scopes",
						"must contain only read, sessions, admin");
			return;
		}
		*ret |= scopes[s].bit;
	}
	if (!m->failed && *ret == 0)
		(void)json_members_fail(m, "scopes",
					"must name at least one of read, sessions, admin");
}

/* ret->name points into root. */
static int read_key_spec(json_t *root, struct tenant_key_spec *ret, struct err *e)
{
	uint64_t expires_in = 0;
	struct json_members m;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", STORE_NAME_MAX - 1, &ret->name);
	json_members_time(&m, "expires_in", &expires_in, NULL);
	read_scopes(&m, &ret->scopes);
	spec_allow_read(&m, "allow", true, &ret->allow);
	if (expires_in > 0)
		ret->expires_ms = clock_wall_ms() + expires_in;
	return json_members_end(&m);
}

/* A key can give a new key only scopes that it has itself, and no longer validity than its own. A
 * key that is made by a key that expires, expires with it unless a shorter time is given. */
static int check_creator(struct request *r, struct tenant_key_spec *spec, struct err *e)
{
	uint64_t own_ms = r->grant.expires_ms;

	if (auth_check_unlimited(r, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(scopes); i++)
		if ((spec->scopes & scopes[i].bit) != 0 && (r->scopes & scopes[i].bit) == 0)
			return err_set(e, ERR_DENIED,
				       "scopes: this key does not have the scope %s, so it cannot "
				       "grant it",
				       scopes[i].name);
	if (own_ms == 0)
		return 0;
	if (spec->expires_ms > own_ms)
		return err_set(e, ERR_DENIED,
			       "expires_in: the new key would be valid longer than this key");
	if (spec->expires_ms == 0)
		spec->expires_ms = own_ms;
	return 0;
}

static void create(struct request *r, struct tenant *t, const uint8_t *body, size_t len)
{
	struct tenant_key_spec spec = { .name = "" };
	char key[TENANT_KEY_LEN + 1];
	struct store_key row;
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	struct json j;
	int made = root == NULL ? -1 : read_key_spec(root, &spec, &e);

	if (made == 0)
		made = check_creator(r, &spec, &e);
	if (made == 0)
		made = tenant_key_create(r->core, t, &spec, request_actor(r), &row, key, &e);
	json_decref(root);
	if (made < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, KEY_JSON_MAX);
	show(&j, NULL, &row, key);
	exchange_header(r->x, "Cache-Control", "no-store");
	reply_json(r, 201, &j);
}

static void on_own_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);

	create(r, r->tenant, body, len);
}

void api_keys_create(struct request *r)
{
	request_body(r, on_own_body);
}

static void on_other_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct tenant *t = tenant_find(r->core, r->id);

	if (t == NULL || tenant_row(t)->disabled)
		reply_code(r, 404, "not_found", "there is no such tenant");
	else
		create(r, t, body, len);
}

void api_keys_create_for(struct request *r)
{
	if (api_tenants_find_to_change(r) != NULL)
		request_body(r, on_other_body);
}

void api_keys_delete(struct request *r)
{
	struct err e = { 0 };

	if (tenant_key_revoke(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
