/* api_node.c - describes the server: health, readiness, version, capacity, metrics. */
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "buf.h"
#include "clock.h"
#include "core_metrics.h"
#include "core_run.h"
#include "reply.h"
#include "request.h"

#define METRICS_MAX_BYTES (4U << 20)

void api_node_root(struct request *r)
{
	static const char text[] = "cordon " CORDON_VERSION "\n"
				   "The API is below /v1; it is described in doc/openapi.yaml.\n"
				   "GET /healthz and /readyz need no key.\n";

	exchange_reply(r->x, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}

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

void api_node_health(struct request *r)
{
	reply_status(r, 200, "ok", NULL);
}

void api_node_ready(struct request *r)
{
	const char *why = NULL;

	if (core_fit(r->core, &why))
		reply_status(r, 200, "ok", NULL);
	else
		reply_status(r, 503, "unavailable", why == NULL ? "starting" : why);
}

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

static void count_one(struct session *s, void *arg)
{
	unsigned *states = arg;

	if (session_row(s)->state != SESSION_STOPPED) /* it has ended */
		states[session_shown_state(session_row(s))]++;
}

static void write_pool(struct json *j, struct core *c)
{
	struct core_metrics_pool pool = { 0 };

	core_metrics_pool(c, &pool);
	json_open(j, "pool", '{');
	json_uint(j, "size", pool.size);
	json_uint(j, "ready", pool.ready);
	json_uint(j, "hits", pool.hits);
	json_uint(j, "misses", pool.misses);
	json_close(j, '}');
}

/* The operator sees the sessions of all tenants and the pool; a tenant its own sessions. */
static void write_load(struct json *j, const struct request *r)
{
	const struct config *g = core_config(r->core);
	unsigned states[SESSION_STATES] = { 0 };
	bool all = auth_is_operator(r);

	session_each(r->core, all ? NULL : r->tenant, count_one, states);
	json_open(j, "sessions", '{');
	for (unsigned i = 0; i < SESSION_STATES; i++)
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
