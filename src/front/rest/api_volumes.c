/* api_volumes.c - creates, lists, shows and deletes volumes.
 *
 * Only GET of one volume measures it: the request waits for cordon-storage. A list has rows alone.
 * The size of a volume in the form of a directory is shown and not enforced. */
#include <stdlib.h>
#include <string.h>

#include "daemon/volumes/volume.h"
#include "daemon/volumes/volume_usage.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/volume_create.h"
#include "lib/config/config.h"
#include "lib/json/json.h"

/* The JSON of one volume, and the longest life that a client may set. */
#define VOLUME_JSON_MAX 8192
#define TTL_MAX_MS (3650ULL * 86400000)

/* usage: NULL if it was not asked for. */
static void volumes_show(struct json *j, struct core *c, const struct store_volume *v,
			 const struct volume_usage *usage)
{
	uint64_t uses = 0;
	struct err e;
	bool counted = store_volume_uses(core_store(c), v->id, &uses, &e) == 0;

	json_open(j, NULL, '{');
	json_text(j, "id", v->id);
	json_text(j, "name", v->name);
	json_uint(j, "size", v->bytes);
	/* In a directory nothing enforces it. */
	json_bool(j, "size_enforced", v->kind == VOLUME_IMAGE);
	json_text(j, "kind", v->kind == VOLUME_IMAGE ? "image" : "directory");
	if (counted)
		json_uint(j, "sessions", uses);
	else
		json_none(j, "sessions");
	if (usage != NULL) {
		json_open(j, "usage", '{');
		json_uint(j, "bytes", usage->bytes);
		if (v->kind == VOLUME_DIRECTORY)
			json_uint(j, "entries", usage->entries);
		json_close(j, '}');
	}
	json_view_time(j, "created_at", v->created_ms);
	json_view_time(j, "expires_at", v->expires_ms);
	json_close(j, '}');
}

static void reply_volume(struct request *r, int status, const struct store_volume *v,
			 const struct volume_usage *usage)
{
	struct json j;

	json_init_heap(&j, VOLUME_JSON_MAX);
	volumes_show(&j, r->core, v, usage);
	reply_json(r, status, &j);
}

/* ---- create
 *
 * The core makes the file or the folder, and the request waits for it. */

/* volume_create_body() calls this when the volume is there. */
static void on_made(struct request *r, const struct store_volume *row)
{
	reply_location(r, "/v1/volumes/", row->name);
	reply_volume(r, 201, row, NULL);
}

/* The name's form and the size's bounds are checked when the volume is made. */
static int read_spec(json_t *root, struct volume_spec *ret, struct err *e)
{
	struct json_members m;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", VOLUME_NAME_MAX, &ret->name);
	json_members_bytes(&m, "size", NULL, &ret->bytes, NULL);
	json_members_time(&m, "expires_in", NULL, &ret->ttl_ms, NULL);
	if (ret->name == NULL)
		(void)json_members_fail(&m, "name", "is missing");
	if (ret->ttl_ms > TTL_MAX_MS)
		(void)json_members_fail(&m, "expires_in", "must be at most 3650 days");
	return json_members_end(&m);
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	static const struct volume_create how = { read_spec, on_made, reply_error };

	volume_create_body(request_of(x), &how, body, len);
}

void api_volumes_create(struct request *r)
{
	request_body(r, on_create_body);
}

/* ---- list
 *
 * From the store alone, so a list stays cheap. */

/* core: each row asks how many sessions use the volume. */
struct volumes_list {
	struct list_part part;
	struct core *core;
};

/* 1: the page has ended. */
static int on_row(const struct store_volume *row, void *cookie)
{
	struct volumes_list *l = cookie;

	if (!list_part_admits(&l->part, 0, row->name))
		return 1;
	volumes_show(&l->part.j, l->core, row, NULL);
	return 0;
}

/* By name: names are unique. */
void api_volumes_list(struct request *r)
{
	struct volumes_list l = { .core = r->core };
	struct err e = { 0 };

	if (list_part_begin(&l.part, r, "volumes", false, &e) < 0) {
		reply_error(r, &e);
	} else if (store_volume_list(core_store(r->core), tenant_row(r->tenant)->id, l.part.last,
				     list_part_rows(&l.part), on_row, &l, &e) < 0) {
		json_release(&l.part.j);
		reply_error(r, &e);
	} else {
		list_part_reply(&l.part, r);
	}
}

/* ---- show
 *
 * cordon-storage measures a volume, since the daemon cannot read it. */

/* The state of a measurement. row is what the store had when it began. */
struct volumes_showing {
	struct store_volume row;
	struct volume_usage usage;
};

static void release_showing(struct request *r, bool answered)
{
	struct volumes_showing *s = r->state;

	volume_usage_cancel(&s->usage);
}

/* Copied first, because the answer may free the state. */
static void on_usage(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	struct volumes_showing *s = r->state;
	struct store_volume row = s->row;
	struct volume_usage usage = s->usage;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_volume(r, 200, &row, &usage);
}

void api_volumes_get(struct request *r)
{
	struct volumes_showing *s = request_state(r, sizeof(*s), release_showing);
	struct err e = { 0 };

	if (s == NULL)
		return;
	if (volume_find(r->core, r->tenant, r->id, &s->row, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s->usage.done = (struct completion){ .on_done = on_usage, .arg = r };
	volume_usage_ask(r->core, &s->row, &s->usage);
}

/* ---- delete */

/* A volume that a session uses is refused by the core. */
void api_volumes_delete(struct request *r)
{
	struct err e = { 0 };

	if (volume_delete(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
