/* api_layers.c - what is in the storage folder: layers, for the operator; and the removal of what
 * nothing uses. */
#include "api_handlers.h"
#include "auth.h"
#include "json.h"
#include "json_view.h"
#include "layer_origin.h"
#include "layers.h"
#include "operator_list.h"
#include "reply.h"
#include "request.h"
#include "store_layer.h"

/* A list that is being written. */
struct list {
	struct json *json;
	struct layer_origin_now now;
};

/* In words, what of its origin has changed. */
static void show_stale(struct json *j, const struct layer_origin_now *now,
		       const struct store_layer *row)
{
	unsigned set = layer_origin_stale(now, row);

	json_open(j, "stale", '[');
	for (unsigned i = 0; i < LAYER_STALE_WORDS; i++)
		if ((set & 1U << i) != 0)
			json_text(j, NULL, layer_stale_name((enum layer_stale)i));
	json_close(j, ']');
}

static int on_layer(const struct store_layer *row, void *cookie)
{
	const struct list *l = cookie;
	struct json *j = l->json;

	json_open(j, NULL, '{');
	json_text(j, "id", row->id);
	json_text(j, "tenant", row->tenant[0] == '\0' ? NULL : row->tenant);
	json_text(j, "kind", row->kind);
	json_uint(j, "bytes", row->bytes);
	json_uint(j, "entries", row->entries);
	json_uint(j, "uses", row->uses);
	json_text(j, "state", row->state == STORE_LAYER_READY ? "ready" : "dying");
	json_text(j, "digest", row->digest[0] == '\0' ? NULL : row->digest);
	json_view_lines(j, "origin", row->origin);
	show_stale(j, &l->now, row);
	json_view_time(j, "created_at", row->created_ms);
	json_close(j, '}');
	return 0;
}

static int write_all(struct core *c, struct json *j, struct err *e)
{
	struct list l = { .json = j };

	layer_origin_now(core_guest_origin(c), &l.now);
	return store_layer_each(core_store(c), false, on_layer, &l, e);
}

void api_layers_list(struct request *r)
{
	operator_list(r, "layers", write_all);
}

static void on_collected(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	const struct layers_collected *done = &core_layers(r->core)->gc.last;
	struct json j;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_init_heap(&j, 512);
	json_open(&j, NULL, '{');
	json_uint(&j, "layers", done->removed);
	json_uint(&j, "orphans", done->orphans);
	json_uint(&j, "bytes", done->bytes);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_layers_collect(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_operator(r, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	r->wait.on_done = on_collected;
	layers_collect(core_layers(r->core), core_recovered(r->core), &r->wait);
}
