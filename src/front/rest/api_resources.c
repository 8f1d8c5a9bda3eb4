/* api_resources.c - the resources a session used over its whole life (session_history.h), also
 * after its end: at most STORE_SAMPLES_MAX points at any age. */
#include "daemon/session/session_history.h"
#include "daemon/store/store_sample.h"
#include "front/rest/api_handlers.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/json/json.h"

/* Room for STORE_SAMPLES_MAX points. */
#define RESOURCES_JSON_MAX (128U << 10)

/* span_ms: the length of time that the point stands for. The sums are those since the session's
 * start. */
void api_resources_show(struct json *j, const char *name, const struct store_sample *p)
{
	json_open(j, name, '{');
	json_view_time(j, "time", p->time_ms);
	json_uint(j, "span_ms", p->span_ms);
	json_uint(j, "cpu_ms", p->cpu_us / 1000);
	json_uint(j, "memory_bytes", p->memory_bytes);
	json_uint(j, "memory_max_bytes", p->memory_max_bytes);
	json_uint(j, "disk_bytes", p->disk_bytes);
	json_uint(j, "pids", p->pids);
	json_uint(j, "network_bytes_in", p->net_bytes_in);
	json_uint(j, "network_bytes_out", p->net_bytes_out);
	json_close(j, '}');
}

/* 0: the store continues with the next point. */
static int resources_on_row(const struct store_sample *row, void *cookie)
{
	api_resources_show(cookie, NULL, row);
	return 0;
}

/* A live session's last point is still open, so it is in memory only. */
void api_resources_get(struct request *r)
{
	struct session *live;
	struct store_sample open;
	struct err e = { 0 };
	uint64_t step;
	struct json j;

	if (request_owns(r, &live, &e) < 0 ||
	    store_sample_step(core_store(r->core), r->session_id, &step, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, RESOURCES_JSON_MAX);
	json_open(&j, NULL, '{');
	json_uint(&j, "resolution_ms", live == NULL ? step : session_history_step(live));
	json_open(&j, "points", '[');
	if (store_sample_list(core_store(r->core), r->session_id, 0, 0, resources_on_row, &j, NULL,
			      &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	if (live != NULL && session_history_open(live, &open))
		api_resources_show(&j, NULL, &open);
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
