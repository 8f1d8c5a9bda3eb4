/* filesystem_watch.c - WatchDir: changes below a directory as a stream of messages, at the client's
 * pace. A rename is two messages, of which the second may have to wait for room here. */
#include <stdio.h>
#include <string.h>

#include "daemon/node/core_metrics.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/dir_watch.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* ---- watchers that clients poll
 *
 * Polled watchers, for clients that cannot read a stream.
 *
 * They are kept in memory, so a restart of the daemon loses them, and they are bounded: in number
 * by sandbox and (with streams) by tenant, in events each, and in bytes by sandbox and by tenant,
 * of which the oldest are dropped first. A watcher without a poll for an hour is removed. After its
 * end, unfetched events are dropped within a minute. The watchers of a sandbox wait for its end
 * (watcher_set.gone) and are removed with it, whether or not their built-ins still run. */

#define EVENT_MAX (64U << 10)
#define WATCHERS_MAX 64 /* of a sandbox */
#define EVENTS_MAX 4096
#define BYTES_MAX (2U << 20) /* of events of a sandbox */
#define TENANT_BYTES_MAX (64U << 20)
#define STALE_NS (60ULL * 1000 * CLOCK_MS)
#define FORGET_NS (3600ULL * 1000 * CLOCK_MS)
#define ID_MAX 20

/* An event waits here as text until a poll takes it. */
struct event {
	struct event *next;
	size_t len;
	char text[]; /* JSON */
};

/* Listed in its set from the start. Freed by fs_poll_forget() only. */
struct watcher {
	struct dir_watch watch; /* first, see fs_poll_of() */
	struct watcher *next, **link;
	struct watcher_set *set;
	char id[ID_MAX];
	struct event *events, **events_end;
	size_t nevents;
	struct loop_timer forget, stale;
	struct loop_task lost; /* its built-in has ended: not from inside of its callbacks */
	struct request *maker; /* the creating request, until the watcher is ready. The watcher is
				  its state so far */
	enum rpc_code code;    /* the error for the next poll */
	char why[sizeof(((struct err *)NULL)->msg)];
};

/* Sums over one tenant with watchers. */
struct tenant_watchers {
	struct tenant_watchers *next, **link; /* of the adapter's */
	struct tenant *tenant;
	unsigned sets;
	size_t bytes; /* of events */
};

/* The watchers of one sandbox, at least one. */
struct watcher_set {
	struct watcher_set *next, **link; /* of the adapter's */
	struct e2b *adapter;
	char session_id[REQUEST_ID_MAX];
	struct watcher *first;
	unsigned n;
	size_t bytes; /* of their events */
	struct tenant_watchers *sum;
	struct completion gone; /* completed when the sandbox has ended */
};

static struct watcher *fs_poll_of(struct dir_watch *w)
{
	return (struct watcher *)(void *)w;
}

static void update_metrics(const struct e2b *b)
{
	core_metrics_watchers(b->watchers, b->watch_bytes);
}

/* Three sums: the sandbox's, the tenant's, and that of all. */
static void count_bytes(struct watcher_set *c, ssize_t more)
{
	c->bytes = (size_t)((ssize_t)c->bytes + more);
	c->sum->bytes = (size_t)((ssize_t)c->sum->bytes + more);
	c->adapter->watch_bytes = (size_t)((ssize_t)c->adapter->watch_bytes + more);
	update_metrics(c->adapter);
}

static void drop_oldest(struct watcher *w)
{
	struct event *v = w->events;

	w->events = v->next;
	if (w->events == NULL)
		w->events_end = &w->events;
	w->nevents--;
	count_bytes(w->set, -(ssize_t)v->len);
	free(v);
}

static void drop_all(struct watcher *w)
{
	while (w->events != NULL)
		drop_oldest(w);
}

static struct loop *loop_of(const struct watcher *w)
{
	return core_loop(w->set->adapter->core);
}

/* The last set of a tenant frees the sum. */
static void leave_sum(struct watcher_set *c)
{
	struct tenant_watchers *sum = c->sum;

	if (--sum->sets > 0)
		return;
	LIST_REMOVE(sum);
	free(sum);
}

/* The last watcher of a sandbox frees the set. */
static void fs_poll_leave(struct watcher *w)
{
	struct watcher_set *c = w->set;

	c->adapter->watchers--;
	update_metrics(c->adapter);
	tenant_stream_close(c->sum->tenant);
	LIST_REMOVE(w);
	if (--c->n > 0)
		return;
	LIST_REMOVE(c);
	completion_cancel(&c->gone);
	leave_sum(c);
	free(c);
}

/* w is gone when this returns. Not from inside a callback of its watch. */
static void fs_poll_forget(struct watcher *w)
{
	loop_timer_cancel(loop_of(w), &w->forget);
	loop_task_cancel(loop_of(w), &w->lost);
	loop_timer_cancel(loop_of(w), &w->stale);
	dir_watch_release(&w->watch);
	drop_all(w);
	fs_poll_leave(w);
	free(w);
}

static void on_forget(struct loop_timer *t)
{
	fs_poll_forget(t->arg);
}

static void on_stale(struct loop_timer *t)
{
	drop_all(t->arg);
}

static void on_lost(struct loop_task *t)
{
	fs_poll_forget(t->arg);
}

/* Unready watchers are freed by their creating requests, which fail. */
static void on_gone(struct completion *done, const struct err *e)
{
	struct watcher_set *c = done->arg;
	bool last = false;

	LIST_WALK_ENDING(struct watcher, w, c->first) {
		last = c->n == 1; /* the set is freed with it */
		/* alone: a watcher is forgotten by itself, and with the last one the set goes */
		if (w->maker == NULL)
			fs_poll_forget(w);
		if (last)
			break;
	}
}

/* Only once it is ready: until then it belongs to the creating request. */
static void fs_poll_touch(struct watcher *w)
{
	loop_timer_set(loop_of(w), &w->forget, loop_now_ns(loop_of(w)) + FORGET_NS);
}

/* ---- events of the watch
 *
 * dir_watch.c calls these. Events are kept also after an end, until they are fetched or stale. */

/* Without memory the event is lost. */
static void fs_poll_keep(struct watcher *w, const struct json *j)
{
	struct event *v = malloc(sizeof(*v) + j->len + 1);

	if (v == NULL)
		return;
	v->next = NULL;
	v->len = j->len;
	memcpy(v->text, j->text, j->len + 1);
	*w->events_end = v;
	w->events_end = &v->next;
	w->nevents++;
	count_bytes(w->set, (ssize_t)v->len);
	while (w->nevents > EVENTS_MAX || (w->nevents > 1 && w->set->bytes > BYTES_MAX) ||
	       (w->nevents > 0 && w->set->sum->bytes > TENANT_BYTES_MAX))
		drop_oldest(w);
}

static void filesystem_poll_on_event(struct dir_watch *d, const char *type, const char *name,
				     const struct file_msg_entry *entry)
{
	struct json j;

	json_init_heap(&j, EVENT_MAX);
	dir_watch_shape(&j, NULL, type, name, entry);
	if (json_ok(&j))
		fs_poll_keep(fs_poll_of(d), &j);
	json_release(&j);
}

/* The request is answered, and the watcher lives without it from here on. */
static void filesystem_poll_on_ready(struct dir_watch *d)
{
	struct watcher *w = fs_poll_of(d);
	struct request *r = w->maker;
	struct json j;

	w->maker = NULL;
	r->state = NULL;
	fs_poll_touch(w);
	json_init_heap(&j, EVENT_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "watcherId", w->id);
	json_close(&j, '}');
	rpc_reply(r, &j);
}

/* The next poll without events gets this end. */
static void filesystem_poll_on_over(struct dir_watch *d, enum rpc_code code, const char *why)
{
	struct watcher *w = fs_poll_of(d);

	w->code = code;
	str_copy(w->why, why);
	loop_timer_set(loop_of(w), &w->stale, loop_now_ns(loop_of(w)) + STALE_NS);
}

/* Before it was ready, the creating request gets the failure. */
static void filesystem_poll_on_failure(struct dir_watch *d, const struct err *e)
{
	struct watcher *w = fs_poll_of(d);
	struct request *r = w->maker;

	w->maker = NULL;
	if (r != NULL) {
		r->state = NULL;
		dir_watch_fail(d, r, e);
	}
	if (r == NULL && !cell_file_is_gone(e)) {
		filesystem_poll_on_over(d, RPC_INTERNAL, e->msg);
		return;
	}
	loop_defer(loop_of(w), &w->lost);
}

/* ---- create */

/* The client disconnected before it received the id. */
static void release_maker(struct request *r, bool answered)
{
	struct watcher *w = r->state;

	r->state = NULL;
	if (w != NULL)
		fs_poll_forget(w);
}

static void filesystem_poll_on_session(struct request *r, struct session *s)
{
	static const struct dir_watch_events events = { .on_ready = filesystem_poll_on_ready,
							.on_event = filesystem_poll_on_event,
							.on_end = filesystem_poll_on_over,
							.on_failure = filesystem_poll_on_failure };
	struct watcher *w = r->state;
	struct err e = { 0 };

	if (dir_watch_start(&w->watch, NULL, s, &events, &e) < 0)
		dir_watch_fail(&w->watch, r, &e);
	else if (!completion_is_waiting(&w->set->gone))
		session_when_over(s, &w->set->gone);
}

static struct watcher_set *find_set(const struct request *r)
{
	struct watcher_set *c = e2b_of(r)->watcher_sets;

	while (c != NULL && strcmp(c->session_id, r->session_id) != 0)
		c = c->next;
	return c;
}

/* Makes it if there is none. NULL: out of memory. */
static struct tenant_watchers *find_sum(struct e2b *b, struct tenant *t)
{
	struct tenant_watchers *sum = b->sums;

	while (sum != NULL && sum->tenant != t)
		sum = sum->next;
	if (sum != NULL)
		return sum;
	sum = calloc(1, sizeof(*sum));
	if (sum == NULL)
		return NULL;
	sum->tenant = t;
	LIST_PUSH(&b->sums, sum);
	return sum;
}

static struct watcher_set *make_set(struct request *r)
{
	struct e2b *b = e2b_of(r);
	struct watcher_set *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->sum = find_sum(b, r->tenant);
	if (c->sum == NULL) {
		free(c);
		return NULL;
	}
	c->sum->sets++;
	c->adapter = b;
	c->gone = (struct completion){ .on_done = on_gone, .arg = c };
	memcpy(c->session_id, r->session_id, sizeof(c->session_id));
	LIST_PUSH(&b->watcher_sets, c);
	return c;
}

/* c NULL: the sandbox's first watcher. */
static struct watcher *fs_poll_make(struct request *r, struct watcher_set *c)
{
	struct watcher *w = calloc(1, sizeof(*w));

	if (w != NULL && c == NULL)
		c = make_set(r);
	if (w == NULL || c == NULL) {
		free(w);
		return NULL;
	}
	rand_id("w", w->id, sizeof(w->id));
	w->set = c;
	w->events_end = &w->events;
	w->forget = (struct loop_timer){ .on_expire = on_forget, .arg = w };
	w->stale = (struct loop_timer){ .on_expire = on_stale, .arg = w };
	w->lost = (struct loop_task){ .on_run = on_lost, .arg = w };
	w->maker = r;
	LIST_PUSH(&c->first, w);
	c->n++;
	c->adapter->watchers++;
	update_metrics(c->adapter);
	return w;
}

/* The watcher counts as an open stream of the tenant as long as it lives. */
static void on_create(struct request *r, json_t *message)
{
	struct watcher_set *c = find_set(r);
	struct watcher *w;
	struct err e = { 0 };

	if (c != NULL && c->n >= WATCHERS_MAX) {
		rpc_fail(r, RPC_RESOURCE_EXHAUSTED, "the sandbox has %u watchers, remove some",
			 c->n);
		return;
	}
	if (tenant_stream_open(r->core, r->tenant, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	w = fs_poll_make(r, c);
	if (w == NULL) {
		tenant_stream_close(r->tenant);
		rpc_fail(r, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	r->state = w;
	r->release = release_maker;
	if (dir_watch_read(&w->watch, r, message, &e) < 0)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	else
		request_use(r, filesystem_poll_on_session);
}

void filesystem_create_watcher(struct request *r)
{
	rpc_read(r, on_create);
}

/* ---- ask, remove
 *
 * A watcher that is not ready cannot be named: its id was not told. */

/* The watcher a message names. NULL if it was answered. */
static struct watcher *fs_poll_find(struct request *r, const json_t *message)
{
	const struct watcher_set *c = find_set(r);
	const char *id = "";
	struct err e = { 0 };

	if (rpc_text(message, "watcherId", &id, &e) < 0) {
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
		return NULL;
	}
	for (struct watcher *w = c == NULL ? NULL : c->first; w != NULL; w = w->next)
		if (w->maker == NULL && strcmp(w->id, id) == 0)
			return w;
	rpc_fail(r, RPC_NOT_FOUND, "watcher with id %.100s not found", id);
	return NULL;
}

/* Fetched events are gone. */
static void on_get_events(struct request *r, json_t *message)
{
	struct watcher *w = fs_poll_find(r, message);
	struct json j;

	if (w == NULL)
		return;
	fs_poll_touch(w);
	if (w->code != RPC_OK && w->events == NULL) {
		rpc_fail(r, w->code, "%s", w->why);
		return;
	}
	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "events", '[');
	for (const struct event *v = w->events; v != NULL; v = v->next)
		json_raw(&j, NULL, v->text);
	json_close(&j, ']');
	json_close(&j, '}');
	drop_all(w);
	rpc_reply(r, &j);
}

void filesystem_get_watcher_events(struct request *r)
{
	rpc_read(r, on_get_events);
}

static void on_remove(struct request *r, json_t *message)
{
	struct watcher *w = fs_poll_find(r, message);

	if (w == NULL)
		return;
	fs_poll_forget(w);
	rpc_reply_empty(r);
}

void filesystem_remove_watcher(struct request *r)
{
	rpc_read(r, on_remove);
}

/* ---- watchers with a stream
 *
 * The watch has the life of its request. */

#define START "{\"start\":{}}"
#define KEEPALIVE "{\"keepalive\":{}}"

struct watching {
	struct rpc_stream stream; /* first, see rpc.h */
	struct dir_watch watch;
	struct json second; /* waits for room, if it has any text */
	bool over;	    /* the watch has ended */
	enum rpc_code code; /* then: how it ends */
	const char *why;
};

static void fs_watch_release(struct request *r, bool answered)
{
	struct watching *g = r->state;

	rpc_stream_release(&g->stream);
	dir_watch_release(&g->watch);
	json_release(&g->second);
}

static struct watching *fs_watch_of(struct dir_watch *w)
{
	return w->call.r->state;
}

/* Send what waits. True: there is room for more. */
static bool fs_watch_flush(struct watching *g)
{
	if (!rpc_stream_ready(&g->stream))
		return false;
	if (g->second.text == NULL)
		return true;
	rpc_stream_send(&g->stream, g->second.text, g->second.len);
	json_release(&g->second);
	g->second.text = NULL;
	return rpc_stream_ready(&g->stream);
}

/* A second message that waits goes out first. on_more() calls this again. */
static void fs_watch_end(struct watching *g, enum rpc_code code, const char *why)
{
	(void)fs_watch_flush(g);
	g->over = true;
	g->code = code;
	g->why = why;
	if (g->second.text == NULL)
		rpc_stream_end(&g->stream, code, why);
}

static void on_more(struct request *r)
{
	struct watching *g = r->state;

	(void)fs_watch_flush(g);
	if (g->over)
		fs_watch_end(g, g->code, g->why);
	else
		file_call_resume(&g->watch.call);
}

/* Connect-Timeout-Ms has passed. */
static void on_deadline(struct request *r)
{
	struct watching *g = r->state;

	rpc_stream_end(&g->stream, RPC_DEADLINE_EXCEEDED, "context deadline exceeded");
}

static void on_ready(struct dir_watch *w)
{
	struct watching *g = fs_watch_of(w);

	rpc_stream_begin(&g->stream, w->call.r, KEEPALIVE, on_more, on_deadline);
	rpc_stream_send(&g->stream, START, sizeof(START) - 1);
}

/* False stops reading from the cell. After the end records are dropped. */
static bool has_room(struct dir_watch *w)
{
	struct watching *g = fs_watch_of(w);

	return g->stream.paced.ended || fs_watch_flush(g);
}

/* A record's second event may find no room, and waits in g->second. */
static void on_event(struct dir_watch *w, const char *type, const char *name,
		     const struct file_msg_entry *entry)
{
	struct watching *g = fs_watch_of(w);
	struct json j;

	if (g->stream.paced.ended)
		return;
	json_init_heap(&j, EVENT_MAX);
	json_open(&j, NULL, '{');
	dir_watch_shape(&j, "filesystem", type, name, entry);
	json_close(&j, '}');
	if (!json_ok(&j)) { /* out of memory: the stream must not continue with a gap */
		json_release(&j);
		rpc_stream_drop(&g->stream);
		return;
	}
	if (!fs_watch_flush(g)) {
		g->second = j;
		return;
	}
	rpc_stream_send(&g->stream, j.text, j.len);
	json_release(&j);
}

static void on_over(struct dir_watch *w, enum rpc_code code, const char *why)
{
	fs_watch_end(fs_watch_of(w), code, why);
}

static void on_failure(struct dir_watch *w, const struct err *e)
{
	struct watching *g = fs_watch_of(w);

	if (!g->stream.paced.begun)
		dir_watch_fail(w, w->call.r, e);
	else if (cell_file_is_gone(e) && !g->stream.paced.ended)
		rpc_stream_drop(&g->stream);
	else
		rpc_stream_end(&g->stream, RPC_INTERNAL, e->msg);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct dir_watch_events events = { .on_ready = on_ready,
							.has_room = has_room,
							.on_event = on_event,
							.on_end = on_over,
							.on_failure = on_failure };
	struct watching *g = r->state;
	struct err e = { 0 };

	request_hold(r, s);
	if (dir_watch_start(&g->watch, r, s, &events, &e) < 0)
		dir_watch_fail(&g->watch, r, &e);
}

static void on_message(struct request *r, json_t *message)
{
	struct watching *g = request_state(r, sizeof(*g), fs_watch_release);
	struct err e = { 0 };
	uint64_t ms;

	if (g == NULL)
		return;
	if (dir_watch_read(&g->watch, r, message, &e) < 0 || rpc_timeout(r, &ms, &e) < 0)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "%s", e.msg);
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}

void filesystem_watch_dir(struct request *r)
{
	rpc_read_stream(r, on_message);
}
