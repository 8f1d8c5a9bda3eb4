/* volume_routes.c - E2B's volumes: created, listed, shown with a token for their content, deleted.
 * The content itself is in volume_content.c. */
#include <stdlib.h>
#include <string.h>

#include "daemon/volumes/volume.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/volume_token.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/volume_create.h"
#include "lib/json/json.h"

#define VOLUME_JSON_MAX 4096
#define PAGE 10000 /* more than a tenant has: the contract knows no pages */
#define NAME_TEXT_MAX 1024

/* with: also a token for its content, for the key of that request. */
static void volume_routes_show(struct json *j, struct request *with, const struct store_volume *v)
{
	char token[VOLUME_TOKEN_MAX];

	json_open(j, NULL, '{');
	json_text(j, "volumeID", v->id);
	json_text(j, "name", v->name);
	if (with != NULL) {
		volume_token_make(&e2b_of(with)->key, v, with->grant.key_id,
				  core_now_ms() + VOLUME_TOKEN_MS, token);
		json_text(j, "token", token);
	}
	json_close(j, '}');
}

/* With a token for the content. */
static void reply_volume(struct request *r, int status, const struct store_volume *v)
{
	struct json j;

	json_init_heap(&j, VOLUME_JSON_MAX);
	volume_routes_show(&j, r, v);
	reply_json(r, status, &j);
}

/* A taken name is E2B's 400. */
static void reply_failed(struct request *r, const struct err *e)
{
	if (e->code == ERR_CONFLICT && e->reason == REASON_NONE)
		reply_code(r, 400, "invalid", e->msg);
	else
		reply_error(r, e);
}

/* volume_create_body() calls this when the volume is there. */
static void on_made(struct request *r, const struct store_volume *row)
{
	reply_volume(r, 201, row);
}

/* E2B's volumes have no size of their own. */
static int read_spec(json_t *root, struct volume_spec *ret, struct err *e)
{
	struct json_members m;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &ret->name);
	if (ret->name == NULL)
		(void)json_members_fail(&m, "name", "is missing");
	return json_members_end_lenient(&m);
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	static const struct volume_create how = { read_spec, on_made, reply_failed };

	volume_create_body(request_of(x), &how, body, len);
}

void volume_routes_create(struct request *r)
{
	request_body(r, on_create_body);
}

static int on_row(const struct store_volume *row, void *cookie)
{
	volume_routes_show(cookie, NULL, row);
	return 0;
}

/* Without tokens: a list is for keys that only read, too. */
void volume_routes_list(struct request *r)
{
	struct err e = { 0 };
	struct json j;

	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '[');
	if (store_volume_list(core_store(r->core), tenant_row(r->tenant)->id, "", PAGE, on_row, &j,
			      &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	json_close(&j, ']');
	reply_json(r, 200, &j);
}

void volume_routes_get(struct request *r)
{
	struct store_volume v;
	struct err e = { 0 };

	if (volume_find(r->core, r->tenant, r->id, &v, &e) < 0)
		reply_error(r, &e);
	else
		reply_volume(r, 200, &v);
}

void volume_routes_delete(struct request *r)
{
	struct err e = { 0 };

	if (volume_delete(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
