/* api_metrics.c - resources that one session uses, now and over the last minutes. */
#include "api_handlers.h"
#include "reply.h"
#include "request.h"
#include "json_view.h"
#include "store_package.h"

#define METRICS_JSON_MAX (64U << 10)

static void write_now(struct json *j, const struct session_sample *n)
{
	json_open(j, "now", '{');
	json_view_time(j, "time", n->time_ms);
	json_uint(j, "cpu_ms", n->cpu_us / 1000);
	json_uint(j, "memory_bytes", n->memory_bytes);
	json_uint(j, "memory_peak_bytes", n->memory_peak_bytes);
	json_uint(j, "pids", n->pids);
	json_uint(j, "disk_bytes", n->disk_bytes);
	json_uint(j, "inodes", n->inodes);
	json_close(j, '}');
}

static void write_past(struct json *j, const struct session_sample *n)
{
	json_open(j, NULL, '{');
	json_view_time(j, "time", n->time_ms);
	json_uint(j, "cpu_ms", n->cpu_us / 1000);
	json_uint(j, "memory_bytes", n->memory_bytes);
	json_uint(j, "pids", n->pids);
	json_uint(j, "disk_bytes", n->disk_bytes);
	json_close(j, '}');
}

static void write_packages(struct json *j, const struct store_package_sum *sum)
{
	json_open(j, "packages", '{');
	json_uint(j, "downloaded", sum->downloads);
	json_uint(j, "refused", sum->refusals);
	json_uint(j, "hash_mismatches", sum->mismatches);
	json_uint(j, "bytes", sum->bytes);
	json_uint(j, "cache_hits", sum->hits);
	json_close(j, '}');
}

void api_metrics_get(struct request *r)
{
	struct session_sample now = { 0 }, past[SESSION_SAMPLES];
	struct store_package_sum packages;
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	struct json j;
	size_t n;

	if (s == NULL ||
	    store_package_sum_get(core_store(r->core), session_row(s)->id, &packages, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	session_sample_now(s, &now);
	n = session_sample_history(s, past);
	json_init_heap(&j, METRICS_JSON_MAX);
	json_open(&j, NULL, '{');
	write_now(&j, &now);
	json_view_limits(&j, "limits", &session_row(s)->limits);
	json_open(&j, "history", '[');
	for (size_t i = 0; i < n; i++)
		write_past(&j, &past[i]);
	json_close(&j, ']');
	write_packages(&j, &packages);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
