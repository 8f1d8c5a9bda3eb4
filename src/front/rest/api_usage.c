/* api_usage.c - resources that sessions used in a span of time: GET /v1/usage. By label (the member
 * `label` of their metadata, or another one), by session, and for the operator by tenant. In whole
 * hours. The last minutes of live sessions may be missing.
 *
 * Sums by label are kept for `usage_retention`, those by session as long as the record of the
 * session. Sums by another member of the metadata are made of the latter. All are made in pieces.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/store/store_usage.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/str.h"
#include "lib/json/json.h"

#define HOUR_S 3600ULL
#define HOUR_MS (1000 * HOUR_S)
/* The longest span, and the labels of an answer. */
#define SPAN_MAX_S (31ULL * 24 * HOUR_S)
#define LABELS_MAX 1000
#define OTHER "(other)"
#define KEY_MAX 256
#define SESSIONS_PIECE 16     /* whose hours are added up in one piece */
#define SESSIONS_MAX 10000000 /* looked at for one answer */
#define TENANT_HOURS 24	      /* of one tenant in one piece */
#define LABEL_HOURS 4	      /* whose labels are added up in one piece */

/* value / unit with three decimals, in integers: no sum is rounded up. */
static void show_fraction(struct json *j, const char *name, uint64_t value, uint64_t unit)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(value / unit),
		       (unsigned long long)(value % unit / (unit / 1000)));
	json_raw(j, name, text);
}

/* Into the open object. The units of the store become seconds and GiB. */
static void show_sums(struct json *j, const struct store_usage_sums *u)
{
	json_uint(j, "sessions", u->sessions);
	show_fraction(j, "cpu_seconds", u->cpu_us, 1000000);
	show_fraction(j, "memory_gib_seconds", u->memory_kib_ms, 1048576000);
	show_fraction(j, "disk_gib_seconds", u->disk_kib_ms, 1048576000);
	json_uint(j, "network_bytes_in", u->net_bytes_in);
	json_uint(j, "network_bytes_out", u->net_bytes_out);
	json_uint(j, "model_tokens_in", u->tokens_in);
	json_uint(j, "model_tokens_out", u->tokens_out);
}

static void add_sums(struct store_usage_sums *to, const struct store_usage_sums *u)
{
	to->sessions += u->sessions;
	to->cpu_us += u->cpu_us;
	to->memory_kib_ms += u->memory_kib_ms;
	to->disk_kib_ms += u->disk_kib_ms;
	to->net_bytes_in += u->net_bytes_in;
	to->net_bytes_out += u->net_bytes_out;
	to->tokens_in += u->tokens_in;
	to->tokens_out += u->tokens_out;
}

/* [from, to), in whole hours. */
struct usage_span {
	uint64_t from_ms, to_ms;
};

/* Seconds since 1970, widened to whole hours. */
static int read_span(struct request *r, struct usage_span *ret, struct err *e)
{
	uint64_t now = (uint64_t)time(NULL), from = 0, to = now, first, last;

	if (request_number(r, "to", 0, UINT32_MAX, &to, e) < 0)
		return -1;
	from = to > 24 * HOUR_S ? to - 24 * HOUR_S : 0;
	if (request_number(r, "from", 0, UINT32_MAX, &from, e) < 0)
		return -1;
	first = from - from % HOUR_S;
	last = to + HOUR_S - 1 - (to + HOUR_S - 1) % HOUR_S;
	if (from > to || last - first > SPAN_MAX_S)
		return err_set(e, ERR_INVALID, "parameter from: must be at most 31 days before to");
	*ret = (struct usage_span){ first * 1000, last * 1000 };
	return 0;
}

static void show_span(struct json *j, const struct usage_span *s)
{
	json_view_time(j, "from", s->from_ms);
	json_view_time(j, "to", s->to_ms);
}

/* ---- by a member of the metadata
 *
 * Two sources: kept sums by label, an hour at a time, or the sums of each session with its
 * metadata. Both fill the sorted array of groups. */

/* A label with its sum. */
struct usage_group {
	char label[4 * STORE_USAGE_LABEL_MAX];
	struct store_usage_sums sums;
};

/* The state of a sum by label. key "": hours are read by on_labels_piece(). Otherwise sessions are
 * read by on_groups_piece(). */
struct groups {
	struct list_job job; /* first */
	struct usage_span span;
	char key[KEY_MAX];
	uint64_t hour_ms; /* by `label`: the next hour */
	uint64_t after_ms;
	char after_id[STORE_ID_MAX];
	struct usage_group *all; /* owned: in the order of labels */
	size_t n;
	struct err failed;
};

static void groups_release(struct list_job *w)
{
	free(((struct groups *)w)->all);
}

/* The member of the metadata as a label: "" if there is none. */
static void label_of(const char *metadata, const char *key, char ret[STORE_USAGE_LABEL_MAX])
{
	json_t *root = json_loads(metadata, 0, NULL);
	const json_t *value = json_object_get(root, key);

	ret[0] = '\0';
	if (json_is_string(value))
		str_copy_to(ret, STORE_USAGE_LABEL_MAX, json_string_value(value));
	json_decref(root);
}

/* The place of a label, or where it would be inserted. Binary search: there may be a thousand
 * labels and millions of sessions. */
static size_t find_group(const struct groups *g, const char *label, bool *ret_found)
{
	size_t low = 0, high = g->n;

	*ret_found = false;
	while (low < high && !*ret_found) {
		size_t mid = low + (high - low) / 2;
		int order = strcmp(g->all[mid].label, label);

		*ret_found = order == 0;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return *ret_found ? high : low;
}

/* Labels beyond LABELS_MAX are added to one, for which there is room. */
static void add_group(struct groups *g, const char *label, const struct store_usage_sums *sums)
{
	bool found;
	size_t at = find_group(g, label, &found);

	if (!found && g->n >= LABELS_MAX - 1) {
		label = OTHER;
		at = find_group(g, label, &found);
	}
	if (!found) {
		memmove(g->all + at + 1, g->all + at, (g->n - at) * sizeof(*g->all));
		g->n++;
		g->all[at] = (struct usage_group){ .sums = { 0 } };
		str_copy(g->all[at].label, label);
	}
	add_sums(&g->all[at].sums, sums);
}

/* Can the session have used anything in the span? */
static bool api_usage_touches(const struct store_session *row, const struct usage_span *s)
{
	return row->created_ms < s->to_ms && (row->ended_ms == 0 || row->ended_ms >= s->from_ms);
}

/* 1 stops the store's loop after a failure, kept in g->failed. */
static int on_session(const struct store_session *row, void *cookie)
{
	char label[STORE_USAGE_LABEL_MAX];
	struct groups *g = cookie;
	struct store_usage_sums sums;
	bool any = false;

	if (!api_usage_touches(row, &g->span))
		return 0;
	if (store_usage_of_session(core_store(g->job.r->core), row->id, g->span.from_ms,
				   g->span.to_ms, &sums, &any, &g->failed) < 0)
		return 1;
	if (!any)
		return 0;
	label_of(row->metadata, g->key, label);
	add_group(g, label, &sums);
	return 0;
}

static void on_label(const char *label, const struct store_usage_sums *u, void *cookie)
{
	add_group(cookie, label, u);
}

/* Some hours of the sums by `label`. */
static int on_labels_piece(struct list_job *w, struct err *e)
{
	struct groups *g = (struct groups *)w;
	uint64_t end = g->hour_ms + LABEL_HOURS * HOUR_MS;

	if (end > g->span.to_ms)
		end = g->span.to_ms;
	if (store_usage_sum(core_store(w->r->core), tenant_row(w->r->tenant)->id, g->hour_ms, end,
			    0, on_label, g, e) < 0)
		return -1;
	g->hour_ms = end;
	return end < g->span.to_ms;
}

/* SESSIONS_PIECE sessions in one piece, as each needs a query of its own. */
static int on_groups_piece(struct list_job *w, struct err *e)
{
	struct groups *g = (struct groups *)w;
	struct store_session_filter filter = {
		.tenant = tenant_row(w->r->tenant)->id,
		.ascending = true,
		.after_ms = g->after_ms,
		.after_id = g->after_id,
		.limit = SESSIONS_PIECE,
	};
	struct store_looked looked;

	if (store_session_list(core_store(w->r->core), &filter, on_session, g, &looked, e) < 0)
		return -1;
	if (g->failed.code != ERR_NONE) {
		*e = g->failed;
		return -1;
	}
	if (looked.rows > 0) {
		g->after_ms = looked.ms;
		str_copy(g->after_id, looked.id);
	}
	return list_job_count(w, &looked);
}

/* The total is the sum of what is shown, (other) included. */
static void on_groups_finish(struct list_job *w)
{
	struct groups *g = (struct groups *)w;
	struct store_usage_sums all = { 0 };
	struct json *j = &w->j;

	json_open(j, NULL, '{');
	show_span(j, &g->span);
	json_open(j, "labels", '[');
	for (size_t i = 0; i < g->n; i++) {
		json_open(j, NULL, '{');
		json_text(j, "label", g->all[i].label);
		show_sums(j, &g->all[i].sums);
		json_close(j, '}');
		add_sums(&all, &g->all[i].sums);
	}
	json_close(j, ']');
	json_open(j, "total", '{');
	show_sums(j, &all);
	json_close(j, '}');
	json_close(j, '}');
}

/* key "": `label`, whose sums are kept. */
static void start_groups(struct request *r, const struct usage_span *span, const char *key)
{
	struct groups *g =
		list_job_new(r, sizeof(*g), key[0] == '\0' ? on_labels_piece : on_groups_piece,
			     on_groups_finish);
	struct err e = { 0 };

	if (g == NULL)
		return;
	g->job.release = groups_release;
	g->job.rows_max = SESSIONS_MAX;
	g->span = *span;
	g->hour_ms = span->from_ms;
	str_copy(g->key, key);
	g->all = calloc(LABELS_MAX, sizeof(*g->all));
	if (g->all == NULL) {
		IGNORED(err_set(&e, ERR_SYSTEM, "out of memory"), "answered");
		reply_error(r, &e);
		return;
	}
	list_job_start(&g->job);
}

/* ---- by session
 *
 * A page of sessions that used anything in the span. */

/* failed: an error inside the store's callback. */
struct sessions {
	struct page_walk list; /* first */
	struct usage_span span;
	struct err failed;
};

/* Sessions that used nothing in the span are not shown. */
static int on_row(const struct store_session *row, void *cookie)
{
	struct sessions *v = cookie;
	struct json *j = &v->list.job.j;
	struct store_usage_sums sums;
	bool any = false;

	if (!api_usage_touches(row, &v->span))
		return 0;
	if (store_usage_of_session(core_store(v->list.job.r->core), row->id, v->span.from_ms,
				   v->span.to_ms, &sums, &any, &v->failed) < 0)
		return 1;
	if (!any)
		return 0;
	if (!page_walk_admits(&v->list))
		return 1;
	json_open(j, NULL, '{');
	json_text(j, "session_id", row->id);
	json_raw(j, "metadata", row->metadata[0] == '\0' ? "{}" : row->metadata);
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "ended_at", row->ended_ms);
	show_sums(j, &sums);
	json_close(j, '}');
	return 0;
}

/* A short piece for the same reason as in on_groups_piece(). */
static int read_sessions(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	struct sessions *v = (struct sessions *)p;
	struct store_session_filter filter = {
		.tenant = tenant_row(p->job.r->tenant)->id,
		.after_ms = p->page.after_ms,
		.after_id = p->page.after_id,
		.limit = SESSIONS_PIECE,
	};
	int got = store_session_list(core_store(p->job.r->core), &filter, on_row, v, ret, e);

	if (got == 0 && v->failed.code != ERR_NONE) {
		*e = v->failed;
		return -1;
	}
	return got;
}

/* Opens the page itself, because the span comes before the list. */
static void start_sessions(struct request *r, const struct usage_span *span)
{
	struct sessions *v = page_walk_new(r, sizeof(*v), read_sessions);

	if (v == NULL)
		return;
	v->span = *span;
	json_open(&v->list.job.j, NULL, '{');
	show_span(&v->list.job.j, span);
	json_open(&v->list.job.j, "usage", '[');
	list_job_start(&v->list.job);
}

/* ---- by tenant
 *
 * One tenant after another, a day in each piece. The operator sees all, others see their own. */

/* The state of a sum by tenant. sums: of the present tenant. total: of all before it. */
struct tenants {
	struct list_job job; /* first */
	struct usage_span span;
	bool all;	  /* for the operator: of every tenant */
	uint64_t hour_ms; /* the next of the tenant. 0: another tenant begins */
	char id[STORE_ID_MAX], name[STORE_NAME_MAX];
	struct store_usage_sums sums, total;
};

/* The label does not matter here. */
static void on_tenant_label(const char *label, const struct store_usage_sums *u, void *cookie)
{
	add_sums(&((struct tenants *)cookie)->sums, u);
}

/* 1: one tenant is enough. */
static int on_tenant(const struct store_tenant *row, void *cookie)
{
	struct tenants *v = cookie;

	str_copy(v->id, row->id);
	str_copy(v->name, row->name);
	return 1;
}

/* 1: the next tenant is there, 0: there are no more. */
static int next_tenant(struct tenants *v, struct err *e)
{
	const struct store_tenant *own = tenant_row(v->job.r->tenant);
	char before[STORE_NAME_MAX];

	if (!v->all) {
		if (v->id[0] != '\0')
			return 0;
		return on_tenant(own, v);
	}
	str_copy(before, v->name);
	v->id[0] = '\0';
	if (store_tenant_list(core_store(v->job.r->core), before, on_tenant, v, e) < 0)
		return -1;
	return v->id[0] != '\0';
}

/* The tenant's hours are complete. */
static void show_tenant(struct tenants *v)
{
	struct json *j = &v->job.j;

	json_open(j, NULL, '{');
	json_text(j, "tenant_id", v->id);
	json_text(j, "name", v->name);
	show_sums(j, &v->sums);
	json_close(j, '}');
	add_sums(&v->total, &v->sums);
}

/* A day of one tenant. */
static int on_tenants_piece(struct list_job *w, struct err *e)
{
	struct tenants *v = (struct tenants *)w;
	uint64_t end;

	if (v->hour_ms == 0) {
		int got = next_tenant(v, e);

		if (got <= 0)
			return got;
		v->hour_ms = v->span.from_ms;
		v->sums = (struct store_usage_sums){ 0 };
	}
	end = v->hour_ms + TENANT_HOURS * HOUR_MS;
	if (end > v->span.to_ms)
		end = v->span.to_ms;
	if (store_usage_sum(core_store(w->r->core), v->id, v->hour_ms, end, 0, on_tenant_label, v,
			    e) < 0)
		return -1;
	v->hour_ms = end;
	if (end >= v->span.to_ms) {
		show_tenant(v);
		v->hour_ms = 0;
	}
	return 1;
}

static void on_tenants_finish(struct list_job *w)
{
	struct tenants *v = (struct tenants *)w;

	json_close(&w->j, ']');
	json_open(&w->j, "total", '{');
	show_sums(&w->j, &v->total);
	json_close(&w->j, '}');
	json_close(&w->j, '}');
}

static void start_tenants(struct request *r, const struct usage_span *span)
{
	struct tenants *v = list_job_new(r, sizeof(*v), on_tenants_piece, on_tenants_finish);

	if (v == NULL)
		return;
	v->span = *span;
	v->all = auth_is_operator(r);
	json_open(&v->job.j, NULL, '{');
	show_span(&v->job.j, span);
	json_open(&v->job.j, "tenants", '[');
	list_job_start(&v->job);
}

/* ---- the request
 *
 * by chooses one of the three answers. */

/* A tenant's key gets its own tenant only, in each form. */
void api_usage_get(struct request *r)
{
	enum { BY_LABEL, BY_SESSION, BY_TENANT };
	static const char *const words[] = { "label", "session", "tenant" };
	char key[KEY_MAX];
	unsigned by = BY_LABEL;
	struct usage_span span;
	struct err e = { 0 };

	if (read_span(r, &span, &e) < 0 ||
	    request_choice(r, "by", words, COUNT(words), &by, &e) < 0 ||
	    request_text(r, "key", key, sizeof(key), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (key[0] != '\0' && by != BY_LABEL) {
		IGNORED(err_set(&e, ERR_INVALID, "key: only with by=label"), "answered");
		reply_error(r, &e);
	} else if (by == BY_SESSION) {
		start_sessions(r, &span);
	} else if (by == BY_TENANT) {
		start_tenants(r, &span);
	} else {
		start_groups(r, &span, strcmp(key, "label") == 0 ? "" : key);
	}
}
