/* snapshot_routes.c - snapshots of sandboxes as E2B has them: created, listed by pages, deleted as
 * templates are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/session_suspend.h"
#include "daemon/template/snapshot.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/control/sandbox_filter.h"
#include "front/web/auth.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/session_request.h"
#include "lib/base/str.h"

/* ---- forks
 *
 * Forks of a sandbox (E2B), and clone and reset (Novita, whose clients speak E2B's
 * protocol with a few more routes). */

#define FORK_JSON_MAX (1U << 20)
#define TIMEOUT_V1_S 15
#define TIMEOUT_V2_S 300

/* The status of each fork is its own, as the answer's status is 201. */
static void shape_error(struct json *j, const struct err *e)
{
	json_open(j, "error", '{');
	json_int(j, "code", reply_status_of(e));
	json_text(j, "message", e->msg);
	json_close(j, '}');
}

/* Write one entry for each requested sandbox: {sandbox} or {error}. */
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

/* Clones that failed are left out. */
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

/* strict: fewer clones than asked for are none. */
static void on_cloned_strictly(struct request *r, const struct session_fork *f, const struct err *e)
{
	if (e != NULL || !fails_strictly(r, f))
		on_cloned(r, f, e);
}

/* ---- the request
 *
 * fork_routes_start() reads the body for all three routes, which differ in the timeout and the form
 * of the answer. */

/* A body's members, with the route's defaults set before. */
struct snapshot_routes_asked {
	uint64_t count, timeout_s;
	bool strict, given;
};

/* count is checked by hand, for a message in E2B's words. */
static int read_body(const uint8_t *body, size_t len, struct snapshot_routes_asked *ret,
		     struct err *e)
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

/* A clone is a fork by a snapshot, which stays and is named in the answer. */
static void fork_routes_start(struct exchange *x, const uint8_t *body, size_t len,
			      uint64_t timeout_s, bool is_clone)
{
	struct request *r = request_of(x);
	struct snapshot_routes_asked asked = { .count = 1, .timeout_s = timeout_s };
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
	fork_routes_start(x, body, len, TIMEOUT_V1_S, false);
}

static void on_fork_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	fork_routes_start(x, body, len, TIMEOUT_V2_S, false);
}

static void on_clone(struct exchange *x, const uint8_t *body, size_t len)
{
	fork_routes_start(x, body, len, 0, true);
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

/* ---- reset
 *
 * The sandbox loses its changed files and its processes, and begins again. */

/* resume false: the sandbox stays paused after the reset. */
struct resetting {
	bool resume, given;
	uint64_t timeout_s;
};

/* The timeout is set only for a sandbox that runs. */
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

/* Strictly: a reset loses files. */
static int read_reset(const uint8_t *body, size_t len, struct resetting *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "timeout", 0, INT32_MAX, &ret->timeout_s);
	json_members_bool(&m, "resume", &ret->resume);
	read = json_members_end_lenient(&m);
	ret->given = ret->timeout_s > 0;
	json_decref(root);
	return read;
}

/* Without a body the sandbox is started again. */
static void on_reset_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct resetting asked = { .resume = true }, *k;
	struct err e = { 0 };
	struct session *s;

	if (len > 0 && read_reset(body, len, &asked, &e) < 0) {
		reply_error(r, &e);
		return;
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

/* ---- snapshots */

#define SNAPSHOT_JSON_MAX 4096
#define LIST_JSON_MAX (256U << 10)
#define LIMIT_MAX 100

/* A snapshot without a name is known by its id. */
static void snapshot_routes_shape(struct json *j, const struct core *c,
				  const struct template_version *v)
{
	char id[SNAPSHOT_ID_MAX], name[SNAPSHOT_ID_MAX];

	snapshot_id(c, v, id);
	snapshot_name(c, v, name);
	json_open(j, NULL, '{');
	json_text(j, "snapshotID", id);
	json_open(j, "names", '[');
	if (name[0] != '\0')
		json_text(j, NULL, name);
	json_close(j, ']');
	json_close(j, '}');
}

/* ---- create */

/* Called once, when the snapshot is on disk or has failed. */
static void on_made(struct request *r, const struct template_version *v,
		    const struct session_capture_found *found, const struct err *e)
{
	struct json j;

	if (e != NULL) {
		sandbox_fail(r, e);
		return;
	}
	json_init_heap(&j, SNAPSHOT_JSON_MAX);
	snapshot_routes_shape(&j, r->core, v);
	reply_json(r, 201, &j);
}

static int read_name(const uint8_t *body, size_t len, char ret[SNAPSHOT_ID_MAX], struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	const char *text = NULL;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", SNAPSHOT_ID_MAX - 1, &text);
	str_copy_to(ret, SNAPSHOT_ID_MAX, text == NULL ? "" : text);
	read = json_members_end_lenient(&m);
	json_decref(root);
	return read;
}

/* Without a time to expire: the contract has none. */
static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	char name[SNAPSHOT_ID_MAX] = "";
	struct err e = { 0 };
	struct session *s;

	if (len > 0 && read_name(body, len, name, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = sandbox_find(r);
	if (s != NULL)
		capture_answer_snapshot(r, s, name, 0, on_made);
}

void snapshot_routes_create(struct request *r)
{
	request_body(r, on_create_body);
}

/* ---- list
 *
 * snapshot_list_read() gives all snapshots sorted, and a page is cut out. */

/* Without "tpl_": tokens of pages have letters and digits only. */
static const char *plain_id(const struct store_template *t)
{
	const char *line = strchr(t->id, '_');

	return line == NULL ? t->id : line + 1;
}

/* Is it on the page of the cursor or a later one? Lists have the newest first. */
static bool is_behind(const struct store_template *t, const struct sandbox_filter_cursor *c)
{
	if (t->created_ms != c->ms)
		return t->created_ms < c->ms;
	return strcmp(plain_id(t), c->id) > 0;
}

/* The start of the cursor's page. Its id is "" for the first page. */
static size_t find_page(const struct snapshot_list *l, const struct sandbox_filter_cursor *c)
{
	size_t i = 0;

	while (c->id[0] != '\0' && i < l->n && !is_behind(template_row(l->found[i]), c))
		i++;
	return i;
}

/* The cursor behind the last row shown. */
static void set_next(struct request *r, const struct store_template *last)
{
	struct sandbox_filter_cursor next = { .ms = last->created_ms };
	char token[SANDBOX_FILTER_CURSOR_MAX];

	str_copy(next.id, plain_id(last));
	sandbox_filter_cursor_write(&next, token);
	exchange_header(r->x, "X-Next-Token", token);
}

static int read_query(struct request *r, char source[REQUEST_ID_MAX], char name[SNAPSHOT_ID_MAX],
		      uint64_t *ret_limit, struct sandbox_filter_cursor *ret_from, struct err *e)
{
	char token[SANDBOX_FILTER_CURSOR_MAX];

	if (request_text(r, "sandboxID", source, REQUEST_ID_MAX, e) < 0 ||
	    request_text(r, "name", name, SNAPSHOT_ID_MAX, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, ret_limit, e) < 0 ||
	    request_text(r, "nextToken", token, sizeof(token), e) < 0)
		return -1;
	return token[0] == '\0' ? 0 : sandbox_filter_cursor_read(token, ret_from, e);
}

void snapshot_routes_list(struct request *r)
{
	char source[REQUEST_ID_MAX], name[SNAPSHOT_ID_MAX];
	uint64_t limit = LIMIT_MAX;
	struct sandbox_filter_cursor from = { 0 };
	struct snapshot_list l = { 0 };
	struct err e = { 0 };
	struct json j;
	size_t at;

	if (read_query(r, source, name, &limit, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	snapshot_list_read(r->core, r->tenant, source, name, &l);
	at = find_page(&l, &from);
	json_init_heap(&j, LIST_JSON_MAX);
	json_open(&j, NULL, '[');
	for (size_t i = at; i < l.n && i - at < limit; i++)
		snapshot_routes_shape(&j, r->core, l.found[i]);
	json_close(&j, ']');
	if (l.n - at > limit)
		set_next(r, template_row(l.found[at + limit - 1]));
	snapshot_list_release(&l);
	reply_json(r, 200, &j);
}

/* The route's scope allows two kinds of keys. A snapshot needs the one for sessions. */
bool snapshot_routes_delete(struct request *r)
{
	struct err e = { 0 };

	if (snapshot_is_removed(r->core, r->tenant, r->id)) {
		reply_code(r, 404, "not_found", "there is no such snapshot");
		return true;
	}
	if (snapshot_find(r->core, r->tenant, r->id) == NULL)
		return false;
	if (auth_check_scope(r, TENANT_SESSIONS, &e) < 0 ||
	    snapshot_remove(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
	return true;
}
