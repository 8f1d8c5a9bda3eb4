/* api_watch.c - changes below a directory, as server-sent events. The answer begins when the watch
 * is there, so that a path that cannot be watched is an ordinary error. */
#include <stdio.h>

#include "api_handlers.h"
#include "sse_stream.h"
#include "file_call.h"
#include "json.h"
#include "reply.h"

#define EVENT_MAX (64U << 10)

struct watch {
	struct sse_stream feed; /* first, see sse_stream.c */
	struct file_call call;
	char path[FILE_MSG_PATH_MAX];
	bool recursive, begun;
};

static void release(struct request *r, bool answered)
{
	struct watch *w = r->state;

	(void)answered;
	sse_stream_release(&w->feed);
	file_call_release(&w->call);
}

static void send(struct watch *w, const char *name, const struct file_msg_event *v)
{
	struct json j;

	json_init_heap(&j, EVENT_MAX);
	json_open(&j, NULL, '{');
	if (v != NULL) {
		json_text(&j, "path", v->path);
		json_bool(&j, "directory", v->is_dir != 0);
	}
	if (v != NULL && v->what == FILE_MSG_RENAME)
		json_text(&j, "to", v->to[0] == '\0' ? NULL : v->to);
	json_close(&j, '}');
	if (json_ok(&j))
		sse_stream_event(&w->feed, name, NULL, j.text, j.len);
	json_release(&j);
}

static void on_more(struct request *r)
{
	struct watch *w = r->state;

	file_call_resume(&w->call);
}

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct watch *w = c->r->state;

	if (m->kind == FILE_MSG_READY && !w->begun) {
		w->begun = true;
		if (sse_stream_begin(&w->feed, c->r, on_more))
			send(w, "ready", NULL);
		return 0;
	}
	if (m->kind != FILE_MSG_EVENT || !w->begun)
		return file_call_refuse(e);
	if (!w->feed.ended)
		send(w, file_msg_what_name((enum file_msg_what)m->event.what), &m->event);
	return 0;
}

static bool is_ready(struct file_call *c)
{
	struct watch *w = c->r->state;

	return !w->begun || w->feed.ended || sse_stream_ready(&w->feed);
}

static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct watch *w = c->r->state;

	(void)status;
	if (!w->begun && e != NULL)
		reply_file_error(c->r, e);
	else if (!w->begun)
		reply_code(c->r, 500, "internal", "the cell did not start watching");
	else
		sse_stream_end(&w->feed);
}

static void on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.is_ready = is_ready,
							.on_end = on_end };
	struct watch *w = r->state;
	const char *argv[] = { "watch", w->path, w->recursive ? "recursive" : "-" };
	struct err e = { 0 };

	request_hold(r, s);
	if (file_call_start(&w->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

void api_watch_get(struct request *r)
{
	struct watch *w = request_state(r, sizeof(*w), release);
	struct err e = { 0 };

	if (w == NULL)
		return;
	if (request_text(r, "path", w->path, sizeof(w->path), &e) < 0 ||
	    request_bool(r, "recursive", &w->recursive, &e) < 0)
		reply_error(r, &e);
	else if (w->path[0] == '\0')
		reply_code(r, 400, "invalid", "parameter path: is missing");
	else if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session);
}
