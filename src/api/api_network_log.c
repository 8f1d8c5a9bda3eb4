/* api_network_log.c - theory of operation
 *
 * What a session tried to reach, in order, from the store: in pages, or followed live, as
 * api_events.c does it with the journal. A record is shown as it was stored, with its number and
 * its time in front. */
#include <stdio.h>

#include "api_handlers.h"
#include "feed.h"
#include "json.h"
#include "net_log.h"
#include "reply.h"
#include "shape.h"
#include "store_net.h"

#define LIMIT 100 /* unless told */
#define LIMIT_MAX 1000
#define BATCH 32
#define RECORD_MAX (2U << 20)

struct wanted {
	uint64_t after, limit;
	bool after_given, follow;
	char kind[16], name[256];
	enum store_net_verdict verdict;
};

struct records {
	struct feed feed; /* first, see feed.c */
	struct net_log_listener listener;
	bool listening;
	struct wanted wanted;
	unsigned seen; /* of this batch */
};

static void set_filter(const struct request *r, const struct wanted *w,
		       struct store_net_filter *ret)
{
	ret->session = r->session_id;
	ret->after_seq = w->after;
	ret->kind = w->kind[0] == '\0' ? NULL : w->kind;
	ret->name = w->name[0] == '\0' ? NULL : w->name;
	ret->verdict = w->verdict;
}

/* ---- followed */

static void release(struct request *r, bool answered)
{
	struct records *v = r->state;

	(void)answered;
	feed_release(&v->feed);
	if (v->listening)
		net_log_unlisten(&v->listener);
}

static int send_one(const struct store_net *row, void *cookie)
{
	struct records *v = cookie;
	char id[24];
	struct json j;

	if (!feed_ready(&v->feed))
		return 1;
	json_init_heap(&j, RECORD_MAX);
	shape_net(&j, NULL, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)row->seq);
	if (json_ok(&j))
		feed_event(&v->feed, row->kind, id, j.text, j.len);
	json_release(&j);
	v->wanted.after = row->seq;
	v->seen++;
	return 0;
}

static void pump(struct request *r)
{
	struct records *v = r->state;
	struct store_net_filter filter = { .limit = BATCH };
	struct err e = { 0 };

	do {
		v->seen = 0;
		set_filter(r, &v->wanted, &filter);
		if (store_net_list(core_store(r->core), &filter, send_one, v, &e) < 0) {
			v->feed.ended = true;
			exchange_abort(r->x);
			return;
		}
	} while (v->seen == BATCH && feed_ready(&v->feed));
}

static void more(struct net_log_listener *l)
{
	struct request *r = l->arg;
	struct records *v = r->state;

	if (feed_ready(&v->feed))
		pump(r);
}

static void follow(struct request *r, const struct wanted *w)
{
	struct records *v = request_state(r, sizeof(*v), release);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->wanted = *w;
	/* Without a place to begin: from now on. */
	if (!w->after_given && store_net_last(core_store(r->core), &v->wanted.after, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	(void)snprintf(v->listener.session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	v->listener.more = more;
	v->listener.arg = r;
	if (!feed_begin(&v->feed, r, pump))
		return;
	net_log_listen(r->core, &v->listener);
	v->listening = true;
	pump(r);
}

/* ---- in pages */

struct listing {
	struct json *j;
	uint64_t limit, shown, last;
	bool more;
};

static int list_one(const struct store_net *row, void *cookie)
{
	struct listing *l = cookie;

	/* A record may hold a whole prompt: a page ends before it is too large to be sent. */
	if (l->shown == l->limit || l->j->len > REPLY_JSON_MAX - RECORD_MAX) {
		l->more = true;
		return 1;
	}
	shape_net(l->j, NULL, row);
	l->shown++;
	l->last = row->seq;
	return 0;
}

static void list(struct request *r, const struct wanted *w)
{
	struct store_net_filter filter = { .limit = (unsigned)w->limit + 1 };
	struct listing l = { .limit = w->limit };
	struct err e = { 0 };
	struct json j;

	set_filter(r, w, &filter);
	json_init_heap(&j, REPLY_JSON_MAX);
	l.j = &j;
	json_open(&j, NULL, '{');
	json_open(&j, "records", '[');
	if (store_net_list(core_store(r->core), &filter, list_one, &l, &e) < 0) {
		json_release(&j);
		reply_error(r, &e);
		return;
	}
	json_close(&j, ']');
	shape_next(&j, l.more, l.last);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static int read_wanted(struct request *r, struct wanted *w, struct err *e)
{
	static const char *const kinds[] = { "", "dns", "connect", "request" };
	unsigned kind = 0;
	bool allowed = false;
	char given[8];

	*w = (struct wanted){ .limit = LIMIT, .after = UINT64_MAX, .verdict = STORE_NET_ANY };
	if (request_bool(r, "follow", &w->follow, e) < 0 ||
	    request_number(r, "after", 0, INT64_MAX, &w->after, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, &w->limit, e) < 0 ||
	    request_choice(r, "kind", kinds, COUNT(kinds), &kind, e) < 0 ||
	    request_text(r, "name", w->name, sizeof(w->name), e) < 0 ||
	    request_bool(r, "allowed", &allowed, e) < 0 ||
	    request_text(r, "allowed", given, sizeof(given), e) < 0)
		return -1;
	(void)snprintf(w->kind, sizeof(w->kind), "%s", kinds[kind]);
	if (given[0] != '\0')
		w->verdict = allowed ? STORE_NET_ALLOWED : STORE_NET_REFUSED;
	w->after_given = (w->follow && feed_last_id(r, &w->after)) || w->after != UINT64_MAX;
	if (!w->after_given)
		w->after = 0;
	return 0;
}

void api_network_log(struct request *r)
{
	struct session *live;
	struct wanted w;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || read_wanted(r, &w, &e) < 0)
		reply_error(r, &e);
	else if (w.follow)
		follow(r, &w);
	else
		list(r, &w);
}
