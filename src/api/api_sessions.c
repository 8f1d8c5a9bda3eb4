/* api_sessions.c - creates, shows, pauses, resumes and ends sessions. */
#include <string.h>

#include "api_handlers.h"
#include "session_request.h"
#include "json_members.h"
#include "reply.h"
#include "request.h"
#include "json_view.h"
#include "json_members.h"
#include "server_spec.h"
#include "session_cold.h"
#include "spec_session.h"

#define SESSION_JSON_MAX (256U << 10)
/* fresh: it has used nothing yet, so the kernel need not be asked. */
static void reply_session(struct request *r, int status, struct session *s, bool fresh)
{
	struct json j;

	json_init_heap(&j, SESSION_JSON_MAX);
	json_view_session(&j, NULL, session_row(s), s, !fresh, (r->scopes & TENANT_SESSIONS) != 0);
	reply_json(r, status, &j);
}

/* ---- create */

static void on_created(struct request *r, struct session *s)
{
	reply_session(r, 201, s, true);
}

static void on_create_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct spec_session spec;
	struct err e = { 0 };
	unsigned retry_s = 0;
	OWN_MEM char *servers = NULL;
	int making;

	/* Reading lockfiles costs time, also if the session is refused afterwards. */
	if (session_request_count(r->tenant, body, len, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	making = spec_session_read(body, len, &spec, &e);
	if (making == 0 && spec.mcp != NULL) {
		making = server_spec_check(spec.mcp, &servers, &e);
		spec.spec.client = servers;
	}
	if (making == 0)
		making = spec_volumes_find(&spec, r->core, r->tenant, &e);
	if (making == 0)
		making = session_request_start(r, &spec.spec, on_created, &retry_s, &e);
	spec_session_release(&spec);
	if (making < 0)
		reply_refusal(r, &e, retry_s);
}

void api_sessions_create(struct request *r)
{
	request_lockfiles_body(r, on_create_body);
}

/* ---- show */

void api_sessions_get(struct request *r)
{
	struct session *live = NULL;
	struct store_session row = { 0 };
	struct err e = { 0 };
	struct json j;

	if (request_owns(r, &live, &e) < 0 ||
	    (live == NULL && session_get(r->core, r->tenant, r->session_id, &row, &e) < 0)) {
		reply_error(r, &e);
	} else if (live != NULL) {
		reply_session(r, 200, live, false);
	} else {
		json_init_heap(&j, SESSION_JSON_MAX);
		json_view_session(&j, NULL, &row, NULL, false, false);
		store_session_release(&row);
		reply_json(r, 200, &j);
	}
}

/* ---- change */

void api_sessions_delete(struct request *r)
{
	struct err e = { 0 };

	if (session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

static void on_changed(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		api_sessions_get(r);
}

static void change(struct request *r, void (*how)(struct session *s, const struct store_actor *who,
						  struct completion *w))
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s == NULL) {
		reply_error(r, &e);
		return;
	}
	r->wait.on_done = on_changed;
	how(s, request_actor(r), &r->wait);
}

static void pause_without_memory(struct session *s, const struct store_actor *who,
				 struct completion *w)
{
	session_cold_pause(s, COLD_CAPTURE, who, w);
}

static int read_pause(const uint8_t *body, size_t len, bool *ret_memory, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_bool(&m, "memory", ret_memory);
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_pause_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	bool memory = true;

	if (len > 0 && read_pause(body, len, &memory, &e) < 0)
		reply_error(r, &e);
	else
		change(r, memory ? session_pause : pause_without_memory);
}

void api_sessions_pause(struct request *r)
{
	request_body(r, on_pause_body);
}

void api_sessions_reset(struct request *r)
{
	change(r, session_cold_reset);
}

void api_sessions_resume(struct request *r)
{
	change(r, session_resume);
}

static int read_timeout(const uint8_t *body, size_t len, uint64_t *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	bool given = false;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_time(&m, "timeout", ret, &given);
	if (!given)
		(void)json_members_fail(&m, "timeout", "is missing");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_timeout_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	uint64_t ms = 0;

	if (s == NULL || read_timeout(body, len, &ms, &e) < 0 ||
	    session_set_timeout(s, ms, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_session(r, 200, s, false);
}

void api_sessions_timeout(struct request *r)
{
	request_body(r, on_timeout_body);
}
