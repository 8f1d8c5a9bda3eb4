/* api_limits.c - limits of a tenant, and how much of them is used: GET /v1/limits. Read by any key
 * of the tenant; nothing of other tenants or of the node's load is shown. */
#include "allow.h"
#include "api_handlers.h"
#include "json.h"
#include "layers.h"
#include "quota.h"
#include "reply.h"
#include "request.h"
#include "spec_allow.h"
#include "store_records.h"
#include "tenant.h"

#define LIMITS_JSON_MAX 8192

static void show_tenant(struct json *j, const struct quota_limits *l)
{
	json_open(j, "tenant", '{');
	json_uint(j, "max_sessions", l->sessions);
	json_uint(j, "create_rate_millis", l->rate_milli);
	json_uint(j, "burst", l->burst);
	json_uint(j, "queue_length", l->queue);
	json_uint(j, "max_memory_bytes", l->memory);
	json_uint(j, "max_storage_bytes", l->storage);
	json_uint(j, "max_pids", l->pids);
	json_uint(j, "max_stored_bytes", l->stored);
	json_close(j, '}');
}

static void show_session(struct json *j, const struct config *g)
{
	json_open(j, "session", '{');
	json_uint(j, "memory_bytes", g->memory_max);
	json_uint(j, "cpu_millis", g->cpus_max_milli);
	json_uint(j, "pids", g->pids_max);
	json_uint(j, "disk_bytes", g->disk_max);
	json_uint(j, "timeout_ms", g->session_timeout_max_ms);
	json_close(j, '}');
}

static void show_used(struct json *j, const struct quota_limits *l, uint64_t rows, uint64_t bytes,
		      uint64_t stored)
{
	json_open(j, "used", '{');
	json_uint(j, "sessions", l->used_sessions);
	json_uint(j, "memory_bytes", l->used_memory);
	json_uint(j, "storage_bytes", l->used_storage);
	json_uint(j, "pids", l->used_pids);
	json_uint(j, "records", rows);
	json_uint(j, "record_bytes", bytes);
	json_uint(j, "stored_bytes", stored);
	json_close(j, '}');
}

void api_limits_get(struct request *r)
{
	uint64_t rows, bytes, stored, layers;
	struct quota_limits limits;
	struct store_allow key;
	struct err e = { 0 };
	struct json j;

	if (store_records_get(core_store(r->core), tenant_row(r->tenant)->id, &rows, &bytes, &e) <
		    0 ||
	    layers_used(core_layers(r->core), tenant_row(r->tenant)->id, &stored, &layers, &e) <
		    0 ||
	    allow_of_key(r->core, r->grant.key_id, &key, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	quota_limits(r->core, r->tenant, &limits);
	json_init_heap(&j, LIMITS_JSON_MAX);
	json_open(&j, NULL, '{');
	show_tenant(&j, &limits);
	show_session(&j, core_config(r->core));
	spec_allow_show(&j, "allow_tenant", &tenant_row(r->tenant)->allow);
	spec_allow_show(&j, "allow_key", &key);
	show_used(&j, &limits, rows, bytes, stored);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
