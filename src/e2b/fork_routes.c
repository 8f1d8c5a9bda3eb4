/* fork_routes.c - forks of a sandbox (E2B), and clone and reset (Novita, whose clients speak E2B's
 * protocol with a few more routes). */
#include <stdio.h>
#include <string.h>

#include "capture_answer.h"
#include "e2b_private.h"
#include "json_members.h"
#include "reply.h"
#include "sandbox.h"
#include "session_cold.h"

#define FORK_JSON_MAX (1U << 20)
#define TIMEOUT_V1_S 15
#define TIMEOUT_V2_S 300

static void shape_error(struct json *j, const struct err *e)
{
	json_open(j, "error", '{');
	json_int(j, "code", reply_status_of(e));
	json_text(j, "message", e->msg);
	json_close(j, '}');
}

/* One entry for each that was asked for: {sandbox} or {error}. */
static void on_forked(struct request *r, const struct session_fork *f, const struct err *e)
{
	struct json j;

	if (e != NULL) {
		sandbox_fail(r, e);
		return;
	}
	json_init_heap(&j, FORK_JSON_MAX);
	json_open(&j, NULL, '[');
	for (unsigned i = 0; i < f->n; i++) {
		const struct session_fork_one *one = &f->list[i];
		struct session *s = one->failed ? NULL : session_find(r->core, one->id);
		struct err gone = { .code = ERR_CONFLICT, .msg = "the sandbox has ended already" };

		json_open(&j, NULL, '{');
		if (s != NULL)
			sandbox_shape(&j, "sandbox", e2b_of(r), s);
		else
			shape_error(&j, one->failed ? &one->err : &gone);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	reply_json(r, 201, &j);
}

/* All or nothing. True: one has failed, and it was answered. */
static bool fails_strictly(struct request *r, const struct session_fork *f)
{
	struct err why = { 0 }, e;

	for (unsigned i = 0; i < f->n && why.code == ERR_NONE; i++)
		if (f->list[i].failed)
			why = f->list[i].err;
	if (why.code == ERR_NONE)
		return false;
	for (unsigned i = 0; i < f->n; i++)
		if (!f->list[i].failed)
			IGNORED(session_delete(r->core, r->tenant, f->list[i].id, request_actor(r),
					       &e),
				"then it ends by its timeout");
	IGNORED(snapshot_remove(r->core, r->tenant, f->snapshot, request_actor(r), &e),
		"it stays in the list");
	sandbox_fail(r, &why);
	return true;
}

static void on_cloned(struct request *r, const struct session_fork *f, const struct err *e)
{
	struct json j;

	if (e != NULL) {
		sandbox_fail(r, e);
		return;
	}
	json_init_heap(&j, FORK_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "sandboxes", '[');
	for (unsigned i = 0; i < f->n; i++) {
		struct session *s = f->list[i].failed ? NULL : session_find(r->core, f->list[i].id);

		if (s != NULL)
			sandbox_shape(&j, NULL, e2b_of(r), s);
	}
	json_close(&j, ']');
	json_text(&j, "snapshotTemplateId", f->snapshot);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static void on_cloned_strictly(struct request *r, const struct session_fork *f, const struct err *e)
{
	if (e != NULL || !fails_strictly(r, f))
		on_cloned(r, f, e);
}

/* ---- the request */

struct asked {
	uint64_t count, timeout_s;
	bool strict, given;
};

static int read_body(const uint8_t *body, size_t len, struct asked *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e), *count;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	count = json_members_take(&m, "count");
	if (count != NULL && (!json_is_integer(count) || json_integer_value(count) < 1 ||
			      json_integer_value(count) > SESSION_FORK_MAX))
		(void)json_members_fail(&m, "count", "must be a number from 1 to 100");
	else if (count != NULL)
		ret->count = (uint64_t)json_integer_value(count);
	ret->given = json_object_get(root, "timeout") != NULL;
	json_members_count(&m, "timeout", 1, INT32_MAX, &ret->timeout_s);
	json_members_bool(&m, "strict", &ret->strict);
	read = json_members_end_lenient(&m);
	json_decref(root);
	return read;
}

/* It must run: a client that forks a paused one has forgotten to resume it. */
static struct session *find_source(struct request *r)
{
	struct session *s = sandbox_find(r);
	char text[256];

	if (s == NULL || !sandbox_is_paused(session_row(s)))
		return s;
	(void)snprintf(text, sizeof(text),
		       "Sandbox '%s' is paused and cannot be forked; resume it first",
		       r->session_id);
	reply_code(r, 409, "conflict", text);
	return NULL;
}

static void start(struct exchange *x, const uint8_t *body, size_t len, uint64_t timeout_s,
		  bool is_clone)
{
	struct request *r = request_of(x);
	struct asked asked = { .count = 1, .timeout_s = timeout_s };
	struct capture_answer_fork how;
	struct err e = { 0 };
	struct session *s;

	if (len > 0 && read_body(body, len, &asked, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = find_source(r);
	if (s == NULL)
		return;
	how = (struct capture_answer_fork){ .count = (unsigned)asked.count,
					    .timeout_given = asked.timeout_s > 0,
					    .timeout_ms = asked.timeout_s * 1000,
					    .by_snapshot = is_clone };
	capture_answer_fork(r, s, &how,
			    !is_clone	   ? on_forked
			    : asked.strict ? on_cloned_strictly
					   : on_cloned);
}

static void on_fork_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	start(x, body, len, TIMEOUT_V1_S, false);
}

static void on_fork_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	start(x, body, len, TIMEOUT_V2_S, false);
}

static void on_clone(struct exchange *x, const uint8_t *body, size_t len)
{
	start(x, body, len, 0, true);
}

void fork_routes_v1(struct request *r)
{
	request_body(r, on_fork_v1);
}

void fork_routes_v2(struct request *r)
{
	request_body(r, on_fork_v2);
}

void fork_routes_clone(struct request *r)
{
	request_body(r, on_clone);
}

/* ---- reset */

struct resetting {
	bool resume, given;
	uint64_t timeout_s;
};

static void on_reset(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	struct resetting *k = r->state;
	struct session *s;
	struct err why = { 0 };

	if (e != NULL) {
		sandbox_fail(r, e);
		return;
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	if (k->resume && k->given &&
	    session_set_timeout(s, k->timeout_s * 1000, request_actor(r), &why) < 0)
		sandbox_fail(r, &why);
	else
		sandbox_reply(r, 200, s);
}

static void on_reset_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct resetting asked = { .resume = true }, *k;
	json_t *root = len == 0 ? NULL : json_members_parse(body, len, &(struct err){ 0 });
	struct session *s;

	if (root != NULL) {
		const json_t *timeout = json_object_get(root, "timeout");

		asked.resume = !json_is_false(json_object_get(root, "resume"));
		asked.given = json_is_integer(timeout) && json_integer_value(timeout) > 0;
		asked.timeout_s = asked.given ? (uint64_t)json_integer_value(timeout) : 0;
		json_decref(root);
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	k = request_state(r, sizeof(*k), NULL);
	if (k == NULL)
		return;
	*k = asked;
	r->wait.on_done = on_reset;
	if (k->resume)
		session_cold_reset(s, request_actor(r), &r->wait);
	else
		session_cold_pause(s, COLD_RESET, request_actor(r), &r->wait);
}

void fork_routes_reset(struct request *r)
{
	request_body(r, on_reset_body);
}
