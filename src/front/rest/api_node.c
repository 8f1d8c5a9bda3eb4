/* api_node.c - describes the server: health, readiness, version, capacity, metrics, and the layers
 * in its storage folder.
 *
 * Health and readiness need no key. Metrics need the operator's, unless the setting `metrics` opens
 * them. The numbers of GET /v1/node depend on the key: the operator's has sums of all tenants. */
#include <string.h>

#include "daemon/disk/layers.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_run.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/layer_origin.h"
#include "daemon/template/templates.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/json/json.h"
#include "openapi_document.h"

/* ---- layers
 *
 * Layers in the storage folder, for the operator, and the removal of unused ones. */

/* A list in progress. now is compared with each layer's origin, once read for the whole page. */
struct node_list {
	struct list_part part;
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

/* tenant null: the layer belongs to the node. */
static int on_layer(const struct store_layer *row, void *cookie)
{
	struct node_list *l = cookie;
	struct json *j = &l->part.j;

	if (!list_part_admits(&l->part, row->created_ms, row->id))
		return 1;
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

/* The oldest first. Pages continue after a time and an id. */
void api_layers_list(struct request *r)
{
	struct node_list l;
	struct err e = { 0 };

	if (auth_check_operator_reads(r, &e) < 0 ||
	    list_part_begin(&l.part, r, "layers", true, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	layer_origin_now(core_guest_origin(r->core), &l.now);
	if (store_layer_list(core_store(r->core), l.part.ms, l.part.last, list_part_rows(&l.part),
			     on_layer, &l, &e) < 0) {
		json_release(&l.part.j);
		reply_error(r, &e);
	} else {
		list_part_reply(&l.part, r);
	}
}

/* The collector has ended, with its counts in gc.last. */
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

/* Only unused layers are removed. The answer comes when the collector has ended. */
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

/* ---- the node
 *
 * These handlers read the core's state and answer at once. */

/* Longer metrics are an error. */
#define METRICS_MAX_BYTES (4U << 20)

void api_node_root(struct request *r)
{
	static const char text[] = "cordon " CORDON_VERSION "\n"
				   "The API is below /v1; GET /openapi.yaml describes it.\n"
				   "GET /openapi.yaml, /healthz and /readyz need no key.\n";

	exchange_reply(r->x, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}

/* Every client gets the same text. Its bytes count for the client's address until they are read. */
void api_node_document(struct request *r)
{
	exchange_reply(r->x, 200, "application/yaml", openapi_document, sizeof(openapi_document));
}

/* why may be NULL. Load balancers read the status only. */
static void reply_status(struct request *r, int status, const char *word, const char *why)
{
	struct json j;

	json_init_heap(&j, 1024);
	json_open(&j, NULL, '{');
	json_text(&j, "status", word);
	if (why != NULL)
		json_text(&j, "why", why);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* The loop serves requests: that is the whole check. */
void api_node_health(struct request *r)
{
	reply_status(r, 200, "ok", NULL);
}

/* core_fit() decides, and names the obstacle. */
void api_node_ready(struct request *r)
{
	const char *why = NULL;

	if (core_fit(r->core, &why))
		reply_status(r, 200, "ok", NULL);
	else
		reply_status(r, 503, "unavailable", why == NULL ? "starting" : why);
}

/* api.c asks before the key is checked. */
bool api_node_metrics_are_open(const struct request *r)
{
	unsigned setting = core_config(r->core)->metrics;

	return setting == CONFIG_METRICS_OPEN ||
	       (setting == CONFIG_METRICS_LOCAL && exchange_is_local(r->x));
}

/* The metrics cover all tenants, so the key must be the operator's. */
void api_node_metrics(struct request *r)
{
	struct buf b = BUF_INIT(METRICS_MAX_BYTES);
	struct err e = { 0 };

	if (r->tenant != NULL && !auth_is_operator(r))
		reply_code(r, 403, "forbidden", "only the operator may read metrics");
	else if (core_metrics_write(r->core, &b, &e) < 0 || buf_check(&b, &e) < 0)
		reply_error(r, &e);
	else
		exchange_reply(r->x, 200, "text/plain; version=0.0.4; charset=utf-8", buf_text(&b),
			       b.len);
	buf_release(&b);
}

/* The kernel protections that the keeper found at its start. An empty object until it has reported.
 */
static void write_restrictions(struct json *j, const struct cell_restrictions *w)
{
	json_open(j, "restrictions", '{');
	if (w != NULL) {
		json_text(j, "namespaces", "user mount pid net ipc uts cgroup time");
		json_uint(j, "ids", w->ids);
		json_bool(j, "idmapped_layers", w->idmapped != 0);
		json_uint(j, "landlock", w->landlock_abi);
		json_bool(j, "memory_limit", (w->limits & CELL_LIMIT_MEMORY) != 0);
		json_bool(j, "cpu_limit", (w->limits & CELL_LIMIT_CPU) != 0);
		json_bool(j, "pids_limit", (w->limits & CELL_LIMIT_PIDS) != 0);
		json_bool(j, "pause", w->freezer != 0);
		json_text(j, "missing", w->no_limits_why[0] == '\0' ? NULL : w->no_limits_why);
	}
	json_close(j, '}');
}

/* Each isolation level with the reason if this machine cannot offer it. */
static void write_levels(struct json *j, const struct core_options *o)
{
	const struct cell_level *l;

	json_open(j, "levels", '{');
	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++) {
		const struct cell_level_state *s = &o->levels[i];

		json_open(j, l->name, '{');
		json_bool(j, "possible", s->is_possible != 0);
		json_text(j, "why", s->is_possible ? NULL : s->why);
		json_text(j, "note", s->note[0] == '\0' ? NULL : s->note);
		json_close(j, '}');
	}
	json_close(j, '}');
}

/* For session_each(). Ended sessions that are still in memory do not count. */
static void count_one(struct session *s, void *arg)
{
	unsigned *states = arg;

	if (session_row(s)->state != SESSION_ENDED)
		states[session_shown_state(session_row(s))]++;
}

/* Sums over all templates with a pool. */
static void write_pool(struct json *j, struct core *c)
{
	struct core_metrics_pool pool = { 0 };

	templates_pools(c, &pool);
	json_open(j, "pool", '{');
	json_uint(j, "size", pool.size);
	json_uint(j, "ready", pool.ready);
	json_uint(j, "hits", pool.hits);
	json_uint(j, "misses", pool.misses);
	json_close(j, '}');
}

/* The operator sees the sessions of all tenants and the pool. A tenant sees its own sessions. */
static void write_load(struct json *j, const struct request *r)
{
	const struct config *g = core_config(r->core);
	unsigned states[SESSION_STATES] = { 0 };
	bool all = auth_is_operator(r);

	session_each(r->core, all ? NULL : r->tenant, count_one, states);
	json_open(j, "sessions", '{');
	for (unsigned i = 0; i < SESSION_STATES; i++)
		if (i != SESSION_ENDED)
			json_uint(j, session_state_name((enum session_state)i), states[i]);
	json_close(j, '}');
	json_open(j, "capacity", '{');
	json_uint(j, "sessions", g->node_max_sessions);
	json_uint(j, "memory_bytes", g->node_max_memory);
	json_uint(j, "create_rate_millis", g->node_create_rate_milli);
	json_close(j, '}');
	if (all)
		write_pool(j, r->core);
	else
		json_none(j, "pool");
}

/* template_dir is a path of the host, so only the operator sees it. */
void api_node_get(struct request *r)
{
	const struct cell_restrictions *w = core_restrictions(r->core);
	struct json j;

	json_init_heap(&j, 16384);
	json_open(&j, NULL, '{');
	json_text(&j, "version", CORDON_VERSION);
	json_uint(&j, "uptime_ms", (clock_now_ns() - core_started_ns(r->core)) / CLOCK_MS);
	json_uint(&j, "cgroup_version", w == NULL ? 0 : w->cgroup_version);
	json_bool(&j, "rootless", w != NULL && w->rootless != 0);
	write_restrictions(&j, w);
	write_levels(&j, core_options(r->core));
	write_load(&j, r);
	if (auth_is_operator(r))
		json_text(&j, "template_dir", core_options(r->core)->template_dir);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
