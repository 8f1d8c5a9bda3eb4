/* api_timeline.c - everything that happened in a session, as one list in the order of time: events
 * (executions, output, changed files, states, alarms), network records and points of the resource
 * history. In pages, or followed live.
 *
 * It is no list of its own: three lists of the store are merged when they are read. Each has
 * numbers that grow, so a cursor is a place in each of them. An entry that a list gets late, with
 * an earlier time (a long download is recorded at its end), is shown when it comes. So nothing is
 * missed and nothing comes twice, even if the clock jumps or a new daemon answers.
 *
 * Each list has a few entries ready. The earliest of all is next, as long as no list has none
 * ready and more to read. A piece of work (jobs.h) reads at most BATCH rows of each list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/egressctl/net_log.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_sample.h"
#include "daemon/tenant/event_log.h"
#include "front/rest/api_handlers.h"
#include "front/rest/cursor.h"
#include "front/rest/timeline_entry.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/sse_out.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/json/json.h"

#define LIMIT 100 /* by default */
#define LIMIT_MAX 1000
#define BATCH 16		    /* rows of a list in one piece */
#define BATCH_BYTES (64U << 10)	    /* of network records in one piece, about */
#define SAMPLE_NS (5000 * CLOCK_MS) /* a follower looks for points of the resource history */
/* Bytes of the parameter types: all its words have room. */
#define TYPES_MAX 160

/* The lists, in the order of places in a cursor. Changing the order needs a new PLACES_FORM in
 * cursor.c. */
enum timeline_list { LIST_EVENTS, LIST_NETWORK, LIST_RESOURCES, LISTS };

/* time_ms orders the entries. seq is the place in its own list. */
struct timeline_entry {
	uint64_t seq, time_ms;
	enum timeline_kind kind;
	struct json j; /* owned. Without its closing bracket */
};

/* Entries read of one list and not given out. */
struct queue {
	struct timeline_entry at[BATCH];
	unsigned first, n;
	uint64_t looked; /* the number of the last row seen */
	bool end;	 /* there are no more rows now */
};

/* The merge of the lists, for a page and for a follower. */
struct timeline {
	struct request *r;
	uint32_t kinds; /* set of 1 << kind */
	struct queue lists[LISTS];
	size_t bytes; /* read in this piece */
};

/* ---- reading
 *
 * api_timeline_refill() reads rows into the queues, next_entry() chooses, and take_entry() gives
 * the entry out. Both answers below call them in this order. */

static bool api_timeline_takes(const struct timeline *t, enum timeline_kind kind)
{
	return (t->kinds & 1U << kind) != 0;
}

/* Does a list hold any of the kinds asked for? */
static bool list_is_wanted(const struct timeline *t, enum timeline_list list)
{
	static const uint32_t kinds[LISTS] = {
		[LIST_NETWORK] =
			1U << TIMELINE_NETWORK | 1U << TIMELINE_DNS | 1U << TIMELINE_PACKAGE,
		[LIST_RESOURCES] = 1U << TIMELINE_RESOURCE,
		[LIST_EVENTS] = 1U << TIMELINE_SESSION | 1U << TIMELINE_EXECUTION |
				1U << TIMELINE_OUTPUT | 1U << TIMELINE_FILE |
				1U << TIMELINE_APPROVAL | 1U << TIMELINE_ALARM,
	};

	return (t->kinds & kinds[list]) != 0;
}

/* A free entry behind the others of its list, whose text is empty. */
static struct timeline_entry *add_entry(struct timeline *t, enum timeline_list list, uint64_t seq,
					enum timeline_kind kind)
{
	struct queue *q = &t->lists[list];
	struct timeline_entry *v = &q->at[q->n++];

	*v = (struct timeline_entry){ .seq = seq, .kind = kind };
	json_init_heap(&v->j, TIMELINE_ENTRY_MAX);
	return v;
}

/* Unwanted kinds are skipped, and the cursor moves past them. */
static int on_event(const struct store_event *row, void *cookie)
{
	enum timeline_kind kind = timeline_kind_of_event(row->type);
	struct timeline *t = cookie;
	struct timeline_entry *v;

	if (!api_timeline_takes(t, kind))
		return 0;
	v = add_entry(t, LIST_EVENTS, row->seq, kind);
	v->time_ms = timeline_write_event(t->r->core, row, &v->j);
	return 0;
}

/* 1 ends the piece: records may be long. */
static int on_record(const struct store_net *row, void *cookie)
{
	enum timeline_kind kind = timeline_kind_of_net(row->kind);
	struct timeline *t = cookie;
	struct timeline_entry *v;

	if (t->bytes > BATCH_BYTES)
		return 1;
	t->bytes += strlen(row->data);
	if (!api_timeline_takes(t, kind))
		return 0;
	v = add_entry(t, LIST_NETWORK, row->seq, kind);
	v->time_ms = timeline_write_net(row, &v->j);
	return 0;
}

/* Every point is of the one kind. */
static int on_sample(const struct store_sample *row, void *cookie)
{
	struct timeline *t = cookie;
	struct timeline_entry *v = add_entry(t, LIST_RESOURCES, row->seq, TIMELINE_RESOURCE);

	v->time_ms = timeline_write_sample(row, &v->j);
	return 0;
}

/* The next rows of one list go into its queue. At most BATCH, so the queue has room. */
static int read_list(struct timeline *t, enum timeline_list list, struct store_looked *ret,
		     struct err *e)
{
	struct store *store = core_store(t->r->core);
	uint64_t after = t->lists[list].looked;

	if (list == LIST_EVENTS)
		return store_event_list(
			store,
			&(struct store_event_filter){ .tenant = tenant_row(t->r->tenant)->id,
						      .session = t->r->session_id,
						      .after_seq = after,
						      .limit = BATCH },
			on_event, t, ret, e);
	if (list == LIST_NETWORK)
		return store_net_list(store,
				      &(struct store_net_filter){ .session = t->r->session_id,
								  .after_seq = after,
								  .verdict = STORE_NET_ANY,
								  .limit = BATCH },
				      on_record, t, ret, e);
	return store_sample_list(store, t->r->session_id, after, BATCH, on_sample, t, ret, e);
}

/* Read more of each list with nothing ready. *ret_rows: how many rows were looked at. */
static int api_timeline_refill(struct timeline *t, unsigned *ret_rows, struct err *e)
{
	struct store_looked looked;

	*ret_rows = 0;
	t->bytes = 0;
	for (enum timeline_list i = 0; i < LISTS; i++) {
		struct queue *q = &t->lists[i];

		if (q->first < q->n || q->end)
			continue;
		q->first = q->n = 0;
		if (!list_is_wanted(t, i)) {
			q->end = true;
			continue;
		}
		if (read_list(t, i, &looked, e) < 0)
			return -1;
		q->looked = looked.seq;
		q->end = looked.end;
		*ret_rows += looked.rows;
	}
	return 0;
}

/* The next entry. NULL: a list must be read first, or there are no more (*ret_end). */
static struct timeline_entry *next_entry(struct timeline *t, bool *ret_end)
{
	struct timeline_entry *first = NULL;

	*ret_end = true;
	for (enum timeline_list i = 0; i < LISTS; i++) {
		struct queue *q = &t->lists[i];

		if (q->first == q->n && !q->end) {
			*ret_end = false;
			return NULL;
		}
		if (q->first < q->n && (first == NULL || q->at[q->first].time_ms < first->time_ms))
			first = &q->at[q->first];
	}
	*ret_end = first == NULL;
	return first;
}

/* The cursor after all rows given out. Hidden rows count as given out. */
static void write_cursor(const struct timeline *t, char ret[CURSOR_PLACES_TEXT])
{
	uint64_t places[LISTS];

	for (enum timeline_list i = 0; i < LISTS; i++) {
		const struct queue *q = &t->lists[i];

		places[i] = q->first < q->n ? q->at[q->first].seq - 1 : q->looked;
	}
	cursor_write_places(places, LISTS, ret);
}

/* The first entry of its list is given out: *ret is its text, closed, with the cursor behind it. */
static void take_entry(struct timeline *t, struct timeline_entry *v, struct json *ret,
		       char cursor[CURSOR_PLACES_TEXT])
{
	for (enum timeline_list i = 0; i < LISTS; i++)
		if (v == &t->lists[i].at[t->lists[i].first])
			t->lists[i].first++;
	*ret = v->j;
	v->j = (struct json){ .full = true };
	write_cursor(t, cursor);
	json_text(ret, "cursor", cursor);
	json_close(ret, '}');
}

/* Only entries that were not given out own their text. */
static void timeline_release(struct timeline *t)
{
	for (enum timeline_list i = 0; i < LISTS; i++) {
		struct queue *q = &t->lists[i];

		while (q->first < q->n)
			json_release(&q->at[q->first++].j);
	}
}

/* ---- in pages
 *
 * A piece refills once and gives out all entries whose place in time is certain. */

/* more: the page ended before the lists did. */
struct timeline_page {
	struct list_job job; /* first */
	struct timeline timeline;
	uint64_t limit, shown;
	bool more;
};

static void page_release(struct list_job *w)
{
	timeline_release(&((struct timeline_page *)w)->timeline);
}

/* 1: there may be more. An entry that did not fit its own bound is left out. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct timeline_page *p = (struct timeline_page *)w;
	struct store_looked looked = { .end = false };
	char cursor[CURSOR_PLACES_TEXT];
	struct timeline_entry *v;
	struct json j;
	bool end;

	if (api_timeline_refill(&p->timeline, &looked.rows, e) < 0)
		return -1;
	while ((v = next_entry(&p->timeline, &end)) != NULL) {
		if (p->shown == p->limit || list_job_page_is_full(w)) {
			p->more = true;
			return 0;
		}
		take_entry(&p->timeline, v, &j, cursor);
		if (json_ok(&j))
			json_raw_bytes(&w->j, NULL, j.text, j.len);
		json_release(&j);
		p->shown++;
	}
	/* More rows than one request may look at: the next one continues. */
	p->more = !end;
	return list_job_count(w, &looked) && !end;
}

/* next is the cursor behind the last entry shown. */
static void on_finish(struct list_job *w)
{
	struct timeline_page *p = (struct timeline_page *)w;
	char cursor[CURSOR_PLACES_TEXT];

	write_cursor(&p->timeline, cursor);
	json_close(&w->j, ']');
	json_text(&w->j, "next", p->more ? cursor : NULL);
	json_close(&w->j, '}');
}

static void list_page(struct request *r, const struct timeline *t, uint64_t limit)
{
	struct timeline_page *p = list_job_new(r, sizeof(*p), on_piece, on_finish);

	if (p == NULL)
		return;
	p->job.release = page_release;
	p->timeline = *t;
	p->limit = limit;
	json_open(&p->job.j, NULL, '{');
	json_open(&p->job.j, "entries", '[');
	list_job_start(&p->job);
}

/* ---- followed
 *
 * Listeners wake this merge. A queue that has reached its end is read again after
 * api_timeline_wake(). */

/* The state of a follower's request. listening: both listeners are linked. */
struct timeline_follower {
	struct sse_out stream; /* first, see paced_stream.h */
	struct timeline timeline;
	struct job job;
	struct event_log_listener events;
	struct net_log_listener records;
	struct loop_timer timer; /* points of the resource history have no listener */
	bool listening;
};

static void follower_release(struct request *r, bool answered)
{
	struct timeline_follower *f = r->state;

	sse_out_release(&f->stream);
	core_job_cancel(r->core, &f->job);
	loop_timer_cancel(core_loop(r->core), &f->timer);
	timeline_release(&f->timeline);
	if (!f->listening)
		return;
	event_log_unlisten(&f->events);
	net_log_unlisten(&f->records);
}

/* The next piece waits after other jobs of the tenant. */
static bool on_batch(struct job *job)
{
	struct request *r = job->arg;
	struct timeline_follower *f = r->state;
	char cursor[CURSOR_PLACES_TEXT];
	struct err e = { 0 };
	struct timeline_entry *v = NULL;
	unsigned rows;
	struct json j;
	bool end = false;

	if (api_timeline_refill(&f->timeline, &rows, &e) < 0) {
		paced_stream_drop(&f->stream.paced);
		return false;
	}
	while (sse_out_ready(&f->stream) && (v = next_entry(&f->timeline, &end)) != NULL) {
		const char *kind = timeline_kind_names[v->kind];

		take_entry(&f->timeline, v, &j, cursor);
		if (json_ok(&j))
			sse_out_event(&f->stream, kind, cursor, j.text, j.len);
		json_release(&j);
	}
	if (!end && sse_out_ready(&f->stream))
		core_job_add(r->core, r->tenant, job);
	return false;
}

/* There may be more rows in any list. */
static void api_timeline_wake(struct request *r)
{
	struct timeline_follower *f = r->state;

	for (enum timeline_list i = 0; i < LISTS; i++)
		f->timeline.lists[i].end = false;
	if (sse_out_ready(&f->stream))
		core_job_add(r->core, r->tenant, &f->job);
}

/* Each listener wakes the follower. So does the timer. */
static void on_more_events(struct event_log_listener *l)
{
	api_timeline_wake(l->arg);
}

static void on_more_records(struct net_log_listener *l)
{
	api_timeline_wake(l->arg);
}

static void on_time(struct loop_timer *timer)
{
	struct request *r = timer->arg;

	loop_timer_set(core_loop(r->core), timer, clock_now_ns() + SAMPLE_NS);
	api_timeline_wake(r);
}

/* The timer runs only for clients that asked for resource points. */
static void listen_for(struct request *r, struct timeline_follower *f)
{
	str_copy(f->events.tenant, tenant_row(r->tenant)->id);
	(void)snprintf(f->events.session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	str_copy(f->records.session, f->events.session);
	f->events.on_events = on_more_events;
	f->records.on_records = on_more_records;
	f->events.arg = f->records.arg = r;
	event_log_listen(r->core, &f->events);
	net_log_listen(r->core, &f->records);
	f->listening = true;
	if (list_is_wanted(&f->timeline, LIST_RESOURCES)) {
		f->timer = (struct loop_timer){ .on_expire = on_time, .arg = r };
		loop_timer_set(core_loop(r->core), &f->timer, clock_now_ns() + SAMPLE_NS);
	}
}

/* A follower without a cursor begins behind the last row of each list. */
static int find_ends(struct timeline *t, struct err *e)
{
	struct store *store = core_store(t->r->core);

	return store_event_last(store, &t->lists[LIST_EVENTS].looked, e) < 0 ||
			       store_net_last(store, &t->lists[LIST_NETWORK].looked, e) < 0 ||
			       store_sample_last(store, t->r->session_id,
						 &t->lists[LIST_RESOURCES].looked, e) < 0
		       ? -1
		       : 0;
}

static void api_timeline_follow(struct request *r, const struct timeline *t, bool from_now)
{
	struct timeline_follower *f = request_state(r, sizeof(*f), follower_release);
	struct err e = { 0 };

	if (f == NULL)
		return;
	f->timeline = *t;
	f->job = (struct job){ .on_piece = on_batch, .arg = r };
	if (request_stream(r, &e) < 0 || (from_now && find_ends(&f->timeline, &e) < 0)) {
		reply_error(r, &e);
		return;
	}
	if (!sse_out_begin(&f->stream, r, api_timeline_wake))
		return;
	listen_for(r, f);
	api_timeline_wake(r);
}

/* ---- the request
 *
 * All parameters are checked before either answer begins. */

/* Add the word's kind to the set. */
static int read_kind(const char *word, size_t n, uint32_t *ret, struct err *e)
{
	for (unsigned i = 0; i < TIMELINE_KINDS; i++)
		if (strlen(timeline_kind_names[i]) == n &&
		    memcmp(timeline_kind_names[i], word, n) == 0) {
			*ret |= 1U << i;
			return 0;
		}
	return err_set(e, ERR_INVALID,
		       "types: '%.*s' is not one of session, execution, output, file, network, "
		       "dns, package, resource, approval, alarm",
		       (int)(n < 32 ? n : 32), word);
}

/* Without the parameter: all kinds. */
static int read_kinds(struct request *r, uint32_t *ret, struct err *e)
{
	char text[TYPES_MAX];

	*ret = 0;
	if (request_text(r, "types", text, sizeof(text), e) < 0)
		return -1;
	for (const char *at = text; *at != '\0';) {
		size_t n = strcspn(at, ",");

		if (read_kind(at, n, ret, e) < 0)
			return -1;
		at += n + (at[n] == ',');
	}
	if (text[0] == '\0')
		*ret = (1U << TIMELINE_KINDS) - 1;
	return 0;
}

/* The parameter after, or Last-Event-ID of a follower that reconnects. *ret_given: there is one. */
static int read_after(struct request *r, bool is_follower, uint64_t places[LISTS], bool *ret_given,
		      struct err *e)
{
	const struct http1_request *q = exchange_request(r->x);
	char text[CURSOR_PLACES_TEXT];
	struct http1_span last;

	if (request_text(r, "after", text, sizeof(text), e) < 0)
		return -1;
	if (is_follower && http1_find(q->headers, q->headers_n, "last-event-id", &last) == 1 &&
	    last.n > 0) {
		if (last.n >= sizeof(text))
			return err_set(e, ERR_INVALID, "Last-Event-ID: not from this server");
		memcpy(text, last.p, last.n);
		text[last.n] = '\0';
	}
	*ret_given = text[0] != '\0';
	return cursor_parse_places(*ret_given ? text : "0", places, LISTS, e);
}

/* An ended session has a timeline as long as its rows are kept. */
void api_timeline_get(struct request *r)
{
	uint64_t limit = LIMIT, places[LISTS];
	struct timeline t = { .r = r };
	bool is_follower = false, given;
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || request_bool(r, "follow", &is_follower, &e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    read_kinds(r, &t.kinds, &e) < 0 || read_after(r, is_follower, places, &given, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	for (enum timeline_list i = 0; i < LISTS; i++)
		t.lists[i].looked = places[i];
	if (is_follower)
		api_timeline_follow(r, &t, !given);
	else
		list_page(r, &t, limit);
}
