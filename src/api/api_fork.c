/* api_fork.c - forks a session: POST /v1/sessions/{session}/fork {"count", "timeout"}. Also resets
 * one, and pauses one with or without its memory. */
#include "api_handlers.h"
#include "json_members.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "session_fork.h"

#define FORK_JSON_MAX (16U << 20)

struct forking {
	struct session_fork fork;
	struct request *r;
};

static void release(struct request *r, bool answered)
{
	struct forking *k = r->state;

	(void)answered;
	session_fork_release(&k->fork);
}

/* {"sessions": [...], "errors": [...]}: one entry in either for each that was asked for. */
static void on_forked(struct completion *c, const struct err *e)
{
	struct forking *k = c->arg;
	const struct session_fork *f = &k->fork;
	struct session *s;
	struct json j;

	if (e != NULL) {
		reply_error(k->r, e);
		return;
	}
	json_init_heap(&j, FORK_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "sessions", '[');
	for (unsigned i = 0; i < f->n; i++) {
		s = f->list[i].failed ? NULL : session_find(k->r->core, f->list[i].id);
		if (s != NULL)
			json_view_session(&j, NULL, session_row(s), s, false);
	}
	json_close(&j, ']');
	json_open(&j, "errors", '[');
	for (unsigned i = 0; i < f->n; i++)
		if (f->list[i].failed) {
			json_open(&j, NULL, '{');
			reply_error_member(&j, &f->list[i].err);
			json_close(&j, '}');
		}
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(k->r, 201, &j);
}

struct fork_body {
	uint64_t count, timeout_ms;
	bool timeout_given;
};

static int read_body(const uint8_t *body, size_t len, struct fork_body *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	*ret = (struct fork_body){ .count = 1 };
	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "count", 1, SESSION_FORK_MAX, &ret->count);
	json_members_time(&m, "timeout", &ret->timeout_ms, &ret->timeout_given);
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct fork_body asked;
	struct err e = { 0 };
	struct forking *k;
	struct session *s;

	if (read_body(body, len, &asked, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = request_session(r);
	if (s == NULL)
		return;
	k = request_state(r, sizeof(*k), release);
	if (k == NULL)
		return;
	k->r = r;
	k->fork.done = (struct completion){ .on_done = on_forked, .arg = k };
	session_fork(s, (unsigned)asked.count, asked.timeout_given, asked.timeout_ms, false,
		     request_actor(r), &k->fork);
}

void api_fork_create(struct request *r)
{
	request_body(r, on_body);
}
