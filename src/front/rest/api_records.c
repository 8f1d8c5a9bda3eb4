/* api_records.c - lists that grow while a session runs: events of a tenant or of one session,
 * network records, and the packages that a session asked registries for. */
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon/alarms/trace.h"
#include "daemon/audit/audit_batch.h"
#include "daemon/egressctl/net_log.h"
#include "daemon/store/store.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_package.h"
#include "daemon/tenant/event_log.h"
#include "front/rest/api_handlers.h"
#include "front/web/json_view.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/sse_out.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/json/json.h"
#include "lib/policy/package_record_text.h"

/* ---- followed lists
 *
 * Numbered records of the store (events, network records), in pages or followed
 * live.
 *
 * Each list describes its table by a struct table_follow_kind. The rest is here. A page is made in
 * pieces (list_job.h). A follower gets server-sent events: when its listener reports new records,
 * it reads them from the store after the last number it has seen, a batch at a time, in its
 * tenant's share of the loop (jobs.h) and only while its client takes them. So a slow client costs
 * nothing, many followers cost their own tenant, and no record is missed. */

struct table_follow_sink;
struct json;

/* The parameters that every such route has. */
struct table_follow_query {
	uint64_t after, limit;
	bool follow, after_given;
};

/* A row describes one table of the store for both forms of reading. listen may be NULL: then
 * clients cannot follow it. */
struct table_follow_kind {
	const char *list; /* the member of a page that holds the records */
	unsigned batch;	  /* records that a follower looks at in one piece of work */
	size_t record_max;
	size_t own_size; /* of the kind's own data: its filter and its listener */
	/* Call table_follow_add() for the records after that number, at most limit of them. */
	int (*read_rows)(struct request *r, const void *own, uint64_t after, unsigned limit,
			 struct table_follow_sink *to, struct store_looked *ret, struct err *e);
	int (*read_last)(struct store *s, uint64_t *ret, struct err *e);
	/* Register the listener in own, whose callback calls table_follow_wake(), and remove it. */
	void (*listen)(struct request *r, void *own);
	void (*unlisten)(void *own);
	void (*show)(struct json *j, const void *row);
};

/* A member of a filter as the store takes it: NULL if it was not given. */
static inline const char *table_follow_given(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}

/* Records in a page: the default, and the most a client may ask for. */
#define LIMIT 100 /* by default */
#define LIMIT_MAX 1000

/* The state of a follower's request. own is the kind's filter and listener, copied behind it. */
struct records_follower {
	struct sse_out stream; /* first, see paced_stream.h */
	const struct table_follow_kind *kind;
	struct job job; /* looks at a batch */
	uint64_t after; /* the last record read */
	bool listening;
	alignas(max_align_t) uint8_t own[];
};

/* The state of a page's request. */
struct records_listing {
	struct list_job job; /* first */
	const struct table_follow_kind *kind;
	uint64_t after, limit, shown;
	bool more; /* than the page may have */
	bool end;  /* there are no more */
	alignas(max_align_t) uint8_t own[];
};

/* One of the two. */
struct table_follow_sink {
	struct records_follower *follower;
	struct records_listing *listing;
};

/* ---- followed
 *
 * table_follow_begin() starts the stream and links the listener. The listener calls
 * table_follow_wake(), which asks for on_batch(). No batch runs while the client has no room. */

static void table_follow_release(struct request *r, bool answered)
{
	struct records_follower *f = r->state;

	sse_out_release(&f->stream);
	core_job_cancel(r->core, &f->job);
	if (f->listening)
		f->kind->unlisten(f->own);
}

/* Send the record if there is room for it. 1 stops the store's loop: the record is read again when
 * the client has room. */
static int send_record(struct records_follower *f, uint64_t seq, const char *event, const void *row)
{
	char id[24];
	struct json j;

	if (!sse_out_ready(&f->stream))
		return 1;
	json_init_heap(&j, f->kind->record_max);
	f->kind->show(&j, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)seq);
	if (json_ok(&j))
		sse_out_event(&f->stream, event, id, j.text, j.len);
	json_release(&j);
	return 0;
}

/* If there are more records than a batch, the next one waits after other jobs of the
 * tenant. */
static bool on_batch(struct job *job)
{
	struct request *r = job->arg;
	struct records_follower *f = r->state;
	struct table_follow_sink to = { .follower = f };
	struct store_looked looked;
	struct err e = { 0 };

	if (f->kind->read_rows(r, f->own, f->after, f->kind->batch, &to, &looked, &e) < 0) {
		paced_stream_drop(&f->stream.paced);
		return false;
	}
	f->after = looked.seq;
	if (!looked.end && sse_out_ready(&f->stream))
		core_job_add(r->core, r->tenant, job);
	return false;
}

/* There are new records. */
static void table_follow_wake(struct request *r)
{
	struct records_follower *f = r->state;

	if (sse_out_ready(&f->stream))
		core_job_add(r->core, r->tenant, &f->job);
}

static void table_follow_begin(struct request *r, const struct table_follow_kind *kind,
			       const struct table_follow_query *q, const void *own)
{
	struct records_follower *f =
		request_state(r, sizeof(*f) + kind->own_size, table_follow_release);
	struct err e = { 0 };

	if (f == NULL)
		return;
	f->kind = kind;
	f->after = q->after;
	f->job = (struct job){ .on_piece = on_batch, .arg = r };
	if (own != NULL)
		memcpy(f->own, own, kind->own_size);
	/* Without a number to begin at: from now on. */
	if (request_stream(r, &e) < 0 ||
	    (!q->after_given && kind->read_last(core_store(r->core), &f->after, &e) < 0)) {
		reply_error(r, &e);
		return;
	}
	if (!sse_out_begin(&f->stream, r, table_follow_wake))
		return;
	kind->listen(r, f->own);
	f->listening = true;
	table_follow_wake(r);
}

/* ---- in pages
 *
 * table_follow_list() begins the answer and on_piece() fills it. A page ends at its limit, at
 * LIST_JOB_BYTES, or at the list's end. */

/* 1 stops the store's loop. */
static int list_record(struct records_listing *l, const void *row)
{
	/* A record may be long: a page ends before it is too large to be sent. */
	l->more = l->shown == l->limit || list_job_page_is_full(&l->job);
	if (l->more || list_job_piece_is_full(&l->job))
		return 1;
	l->kind->show(&l->job.j, row);
	l->shown++;
	return 0;
}

/* The next piece begins after the last row looked at, shown or not. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct records_listing *l = (struct records_listing *)w;
	struct table_follow_sink to = { .listing = l };
	struct store_looked looked;

	if (l->kind->read_rows(w->r, l->own, l->after, LIST_JOB_PIECE, &to, &looked, e) < 0)
		return -1;
	l->after = looked.seq;
	l->end = looked.end;
	return list_job_count(w, &looked) && !l->more;
}

/* next: the number to continue after. Null at the list's end. */
static void on_finish(struct list_job *w)
{
	struct records_listing *l = (struct records_listing *)w;

	json_close(&w->j, ']');
	json_view_next(&w->j, !l->end, l->after);
	json_close(&w->j, '}');
}

static void table_follow_list(struct request *r, const struct table_follow_kind *kind,
			      const struct table_follow_query *q, const void *own)
{
	struct records_listing *l =
		list_job_new(r, sizeof(*l) + kind->own_size, on_piece, on_finish);

	if (l == NULL)
		return;
	l->kind = kind;
	l->after = q->after;
	l->limit = q->limit;
	if (own != NULL)
		memcpy(l->own, own, kind->own_size);
	json_open(&l->job.j, NULL, '{');
	json_open(&l->job.j, kind->list, '[');
	list_job_start(&l->job);
}

/* ---- both
 *
 * The functions that the kinds call. */

/* From inside read_rows(): add one record. Return the value for the store's callback. */
static int table_follow_add(struct table_follow_sink *to, uint64_t seq, const char *event,
			    const void *row)
{
	if (to->follower != NULL)
		return send_record(to->follower, seq, event, row);
	return list_record(to->listing, row);
}

/* Read follow, after and limit, and a follower's Last-Event-ID. */
static int table_follow_read(struct request *r, struct table_follow_query *ret, struct err *e)
{
	*ret = (struct table_follow_query){ .limit = LIMIT, .after = UINT64_MAX };
	if (request_bool(r, "follow", &ret->follow, e) < 0 ||
	    request_number(r, "after", 0, INT64_MAX, &ret->after, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &ret->limit, e) < 0)
		return -1;
	ret->after_given =
		(ret->follow && sse_out_last_id(r, &ret->after)) || ret->after != UINT64_MAX;
	if (!ret->after_given)
		ret->after = 0;
	return 0;
}

/* Answer the request. own is copied. NULL: zeroes. */
static void table_follow_start(struct request *r, const struct table_follow_kind *kind,
			       const struct table_follow_query *q, const void *own)
{
	if (q->follow)
		table_follow_begin(r, kind, q, own);
	else
		table_follow_list(r, kind, q, own);
}

/* ---- network records
 *
 * Lists and follows the network records of a session, or of all sessions of a tenant. A record is
 * shown as it was stored, with its number and its time in front. A follower continues after the
 * last record that it has read, also if the filter hid that record.
 *
 * A session's list can be filtered by kind, name, verdict and execution. The store applies the
 * filter. */

/* The kind's own data: the listener and the filter. */
struct records {
	struct net_log_listener listener;
	char kind[16], name[256], execution[STORE_ID_MAX];
	enum store_net_verdict verdict;
};

/* The event's name in a stream is the record's kind. */
static int network_log_on_row(const struct store_net *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, row->kind, row);
}

/* An empty session means all sessions of the tenant. */
static int network_log_read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
				 struct table_follow_sink *to, struct store_looked *ret,
				 struct err *e)
{
	const struct records *v = own;
	const struct store_net_filter filter = {
		.session = table_follow_given(r->session_id),
		.tenant = tenant_row(r->tenant)->id,
		.after_seq = after,
		.kind = table_follow_given(v->kind),
		.name = table_follow_given(v->name),
		.execution = table_follow_given(v->execution),
		.verdict = v->verdict,
		.limit = limit,
	};

	return store_net_list(core_store(r->core), &filter, network_log_on_row, to, ret, e);
}

/* New records came. The listener belongs to the follower's state, and table_follow_release()
 * removes it. */
static void network_log_on_more(struct net_log_listener *l)
{
	table_follow_wake(l->arg);
}

static void network_log_listen_for(struct request *r, void *own)
{
	struct net_log_listener *l = &((struct records *)own)->listener;

	(void)snprintf(l->session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	str_copy(l->tenant, tenant_row(r->tenant)->id);
	l->on_records = network_log_on_more;
	l->arg = r;
	net_log_listen(r->core, l);
}

static void network_log_unlisten(void *own)
{
	net_log_unlisten(&((struct records *)own)->listener);
}

static void network_log_show(struct json *j, const void *row)
{
	audit_batch_show(j, NULL, row);
}

static const struct table_follow_kind records = {
	.list = "records",
	.batch = 64,
	.record_max = 2U << 20,
	.own_size = sizeof(struct records),
	.read_rows = network_log_read_rows,
	.read_last = store_net_last,
	.listen = network_log_listen_for,
	.unlisten = network_log_unlisten,
	.show = network_log_show,
};

/* `allowed` is read twice, because only its text tells an absent parameter from false. */
static int network_log_read_filter(struct request *r, struct records *ret, struct err *e)
{
	static const char *const kinds[] = {
		"", "dns", "connect", "request", "package", "datagram"
	};
	unsigned kind = 0;
	bool allowed = false;
	char given[8];

	if (request_choice(r, "kind", kinds, COUNT(kinds), &kind, e) < 0 ||
	    request_text(r, "name", ret->name, sizeof(ret->name), e) < 0 ||
	    request_text(r, "execution", ret->execution, sizeof(ret->execution), e) < 0 ||
	    request_bool(r, "allowed", &allowed, e) < 0 ||
	    request_text(r, "allowed", given, sizeof(given), e) < 0)
		return -1;
	str_copy(ret->kind, kinds[kind]);
	ret->verdict = STORE_NET_ANY;
	if (given[0] != '\0')
		ret->verdict = allowed ? STORE_NET_ALLOWED : STORE_NET_REFUSED;
	return 0;
}

/* Of a session, or of all sessions of the tenant. */
void api_network_log(struct request *r)
{
	struct records own = { 0 };
	struct table_follow_query q;
	struct session *live;
	struct err e = { 0 };

	if ((r->session_id[0] != '\0' && request_owns(r, &live, &e) < 0) ||
	    table_follow_read(r, &q, &e) < 0 || network_log_read_filter(r, &own, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &records, &q, &own);
}

/* ---- traces
 *
 * The programs of a session that started and ended. The watcher of its cell writes them into a file
 * without a message, so a follower looks again and again. */

/* How often a follower looks into the file. */
#define TRACE_LOOK_MS 250

/* There is no listener, so a timer stands in for one. */
struct trace_own {
	struct loop_timer timer;
};

static int trace_on_row(const struct trace_row *row, void *cookie)
{
	return table_follow_add(cookie, row->entry.seq,
				row->entry.kind == WATCH_EXEC	? "exec"
				: row->entry.kind == WATCH_CALL ? "call"
								: "exit",
				row);
}

/* The trace ends with the session: then this fails, and a follower's stream is cut. */
static int trace_read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
			   struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	struct session *s = session_live(r->core, r->tenant, r->session_id, e);

	return s == NULL ? -1 : trace_list(s, after, limit, trace_on_row, to, ret, e);
}

/* The timer runs as long as the follower listens. */
static void trace_on_timer(struct loop_timer *t)
{
	struct request *r = t->arg;

	loop_timer_set(core_loop(r->core), t, clock_now_ns() + TRACE_LOOK_MS * CLOCK_MS);
	table_follow_wake(r);
}

static void trace_listen(struct request *r, void *own)
{
	struct trace_own *o = own;

	o->timer = (struct loop_timer){ .on_expire = trace_on_timer, .arg = r };
	loop_timer_set(core_loop(r->core), &o->timer, clock_now_ns() + TRACE_LOOK_MS * CLOCK_MS);
}

static void trace_unlisten(void *own)
{
	struct trace_own *o = own;
	struct request *r = o->timer.arg;

	loop_timer_cancel(core_loop(r->core), &o->timer);
}

static void trace_show(struct json *j, const void *row)
{
	json_view_trace(j, NULL, row);
}

static const struct table_follow_kind traces = {
	.list = "entries",
	.batch = 64,
	.record_max = 64U << 10,
	.own_size = sizeof(struct trace_own),
	.read_rows = trace_read_rows,
	.listen = trace_listen,
	.unlisten = trace_unlisten,
	.show = trace_show,
};

/* For the check that a trace can be read at all. */
static int trace_refuse_row(const struct trace_row *row, void *cookie)
{
	return 1;
}

/* Reading no row first turns a missing trace into an ordinary error. */
void api_trace(struct request *r)
{
	struct session *live;
	struct store_looked looked;
	struct table_follow_query q;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || table_follow_read(r, &q, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	/* If the session has ended, the error says so. */
	if (live == NULL || trace_list(live, 0, 1, trace_refuse_row, NULL, &looked, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	q.after_given = true; /* without a number: from the oldest entry on */
	table_follow_start(r, &traces, &q, NULL);
}

/* ---- packages
 *
 * Lists the packages that a session asked registries for: one row for each name and version of a
 * registry, with the result that counts (package_record_text.h). In pages. Rows change while a
 * session runs, so clients cannot follow the list. They follow its records (kind "package"). */

/* result -1: any. */
struct filter {
	char ecosystem[16], name[256], execution[STORE_ID_MAX];
	int result;
};

static int packages_on_row(const struct store_package *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, "package", row);
}

static int packages_read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
			      struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	const struct filter *f = own;
	const struct store_package_filter filter = {
		.session = r->session_id,
		.after_seq = after,
		.ecosystem = table_follow_given(f->ecosystem),
		.name = table_follow_given(f->name),
		.execution = table_follow_given(f->execution),
		.result = f->result,
		.limit = limit,
	};

	return store_package_list(core_store(r->core), &filter, packages_on_row, to, ret, e);
}

static void packages_show(struct json *j, const void *row)
{
	json_view_package(j, NULL, row);
}

static const struct table_follow_kind packages = {
	.list = "packages",
	.batch = 64,
	.record_max = 64U << 10,
	.own_size = sizeof(struct filter),
	.read_rows = packages_read_rows,
	.read_last = store_package_last,
	.show = packages_show,
};

/* The two words are checked here, so that a misspelt one is no empty list. */
static int read_filter(struct request *r, struct filter *ret, struct err *e)
{
	enum package_result result;
	enum ecosystem eco;
	char word[PACKAGE_RECORD_WORD_MAX];

	ret->result = -1;
	if (request_text(r, "ecosystem", ret->ecosystem, sizeof(ret->ecosystem), e) < 0 ||
	    request_text(r, "name", ret->name, sizeof(ret->name), e) < 0 ||
	    request_text(r, "execution", ret->execution, sizeof(ret->execution), e) < 0 ||
	    request_text(r, "result", word, sizeof(word), e) < 0)
		return -1;
	if (ret->ecosystem[0] != '\0' &&
	    !ecosystem_read(ret->ecosystem, strlen(ret->ecosystem), &eco))
		return err_set(e, ERR_INVALID,
			       "ecosystem: not one of pypi, npm, apt, cargo, go, "
			       "git, oci, maven, gem");
	if (word[0] == '\0')
		return 0;
	if (!package_result_read(word, &result))
		return err_set(e, ERR_INVALID,
			       "result: not one of downloaded, refused, hidden, "
			       "hash_mismatch, cut, failed");
	ret->result = (int)result;
	return 0;
}

void api_packages_list(struct request *r)
{
	struct filter own = { .result = -1 };
	struct table_follow_query q;
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || table_follow_read(r, &q, &e) < 0 ||
	    read_filter(r, &own, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &packages, &q, &own);
}

/* ---- events
 *
 * The events of a tenant or of one session, from the event log. */

static int on_row(const struct store_event *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, row->type, row);
}

static int read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
		     struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	const struct store_event_filter filter = {
		.tenant = tenant_row(r->tenant)->id,
		.session = r->session_id[0] == '\0' ? NULL : r->session_id,
		.after_seq = after,
		.limit = limit,
	};

	return store_event_list(core_store(r->core), &filter, on_row, to, ret, e);
}

/* New events came. */
static void on_more(struct event_log_listener *l)
{
	table_follow_wake(l->arg);
}

/* An empty session: all events of the tenant. */
static void listen_for(struct request *r, void *own)
{
	struct event_log_listener *l = own;

	str_copy(l->tenant, tenant_row(r->tenant)->id);
	(void)snprintf(l->session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	l->on_events = on_more;
	l->arg = r;
	event_log_listen(r->core, l);
}

static void events_unlisten(void *own)
{
	event_log_unlisten(own);
}

static void events_show(struct json *j, const void *row)
{
	json_view_event(j, NULL, row);
}

static const struct table_follow_kind events = {
	.list = "events",
	.batch = 32,
	.record_max = 64U << 10,
	.own_size = sizeof(struct event_log_listener),
	.read_rows = read_rows,
	.read_last = store_event_last,
	.listen = listen_for,
	.unlisten = events_unlisten,
	.show = events_show,
};

void api_events_tenant(struct request *r)
{
	struct table_follow_query q;
	struct err e = { 0 };

	if (table_follow_read(r, &q, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &events, &q, NULL);
}

/* The same list, narrowed by the session in the path. */
void api_events_session(struct request *r)
{
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0)
		reply_error(r, &e);
	else
		api_events_tenant(r);
}
