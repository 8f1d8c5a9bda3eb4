/* api_fork.c - forks a session: POST /v1/sessions/{session}/fork {"count", "timeout"}. */
#include "api_handlers.h"
#include "capture_answer.h"
#include "json_members.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"

#define FORK_JSON_MAX (16U << 20)

/* {"sessions": [...], "errors": [...]}: one entry in either for each that was asked for. */
static void on_forked(struct request *r, const struct session_fork *f, const struct err *e)
{
	struct session *s;
	struct json j;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_init_heap(&j, FORK_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "sessions", '[');
	for (unsigned i = 0; i < f->n; i++) {
		s = f->list[i].failed ? NULL : session_find(r->core, f->list[i].id);
		if (s != NULL)
			json_view_session(&j, NULL, session_row(s), s, false, false);
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
	reply_json(r, 201, &j);
}

static int read_body(const uint8_t *body, size_t len, struct capture_answer_fork *ret,
		     struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	uint64_t count = 1;
	int read;

	*ret = (struct capture_answer_fork){ 0 };
	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "count", 1, SESSION_FORK_MAX, &count);
	json_members_time(&m, "timeout", &ret->timeout_ms, &ret->timeout_given);
	ret->count = (unsigned)count;
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct capture_answer_fork asked;
	struct err e = { 0 };
	struct session *s;

	if (read_body(body, len, &asked, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = request_session(r);
	if (s != NULL)
		capture_answer_fork(r, s, &asked, on_forked);
}

void api_fork_create(struct request *r)
{
	request_body(r, on_body);
}
