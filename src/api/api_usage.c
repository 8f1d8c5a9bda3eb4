/* api_usage.c - resources that the tenant's sessions used in a span of time, by label: GET
 * /v1/usage. In whole hours; the last minutes of live sessions may be missing. */
#include <stdio.h>
#include <time.h>

#include "api_handlers.h"
#include "json.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "store_usage.h"
#include "tenant.h"

#define HOUR_S 3600ULL
#define SPAN_MAX_S (31ULL * 24 * HOUR_S)
#define LABELS_MAX 1000
#define USAGE_JSON_MAX (1U << 20)

struct usage_view {
	struct json j;
	struct store_usage_sums all;
};

static void show_fraction(struct json *j, const char *name, uint64_t value, uint64_t unit)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(value / unit),
		       (unsigned long long)(value % unit / (unit / 1000)));
	json_raw(j, name, text);
}

static void show_sums(struct json *j, const struct store_usage_sums *u)
{
	json_uint(j, "sessions", u->sessions);
	show_fraction(j, "cpu_seconds", u->cpu_us, 1000000);
	show_fraction(j, "memory_gib_seconds", u->memory_kib_ms, 1048576000);
	show_fraction(j, "disk_gib_seconds", u->disk_kib_ms, 1048576000);
	json_uint(j, "network_bytes_in", u->net_bytes_in);
	json_uint(j, "network_bytes_out", u->net_bytes_out);
}

static void on_label(const char *label, const struct store_usage_sums *u, void *cookie)
{
	struct usage_view *v = cookie;

	json_open(&v->j, NULL, '{');
	json_text(&v->j, "label", label);
	show_sums(&v->j, u);
	json_close(&v->j, '}');
	v->all.sessions += u->sessions;
	v->all.cpu_us += u->cpu_us;
	v->all.memory_kib_ms += u->memory_kib_ms;
	v->all.disk_kib_ms += u->disk_kib_ms;
	v->all.net_bytes_in += u->net_bytes_in;
	v->all.net_bytes_out += u->net_bytes_out;
}

/* Seconds since 1970, widened to whole hours. */
static int read_span(struct request *r, uint64_t *ret_from, uint64_t *ret_to, struct err *e)
{
	uint64_t now = (uint64_t)time(NULL), from = 0, to = now;

	if (request_number(r, "to", 0, UINT32_MAX, &to, e) < 0)
		return -1;
	from = to > 24 * HOUR_S ? to - 24 * HOUR_S : 0;
	if (request_number(r, "from", 0, UINT32_MAX, &from, e) < 0)
		return -1;
	*ret_from = from - from % HOUR_S;
	*ret_to = to + HOUR_S - 1 - (to + HOUR_S - 1) % HOUR_S;
	if (from > to || *ret_to - *ret_from > SPAN_MAX_S)
		return err_set(e, ERR_INVALID, "parameter from: must be at most 31 days before to");
	return 0;
}

void api_usage_get(struct request *r)
{
	struct usage_view v = { 0 };
	uint64_t from, to;
	struct err e = { 0 };

	if (read_span(r, &from, &to, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&v.j, USAGE_JSON_MAX);
	json_open(&v.j, NULL, '{');
	json_view_time(&v.j, "from", from * 1000);
	json_view_time(&v.j, "to", to * 1000);
	json_open(&v.j, "labels", '[');
	if (store_usage_sum(core_store(r->core), tenant_row(r->tenant)->id, from * 1000, to * 1000,
			    LABELS_MAX, on_label, &v, &e) < 0) {
		json_release(&v.j);
		reply_error(r, &e);
		return;
	}
	json_close(&v.j, ']');
	json_open(&v.j, "total", '{');
	show_sums(&v.j, &v.all);
	json_close(&v.j, '}');
	json_close(&v.j, '}');
	reply_json(r, 200, &v.j);
}
