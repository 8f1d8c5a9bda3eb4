/* api_snapshots.c - snapshots of sessions: made, listed, shown, removed. Those of other tenants do
 * not exist for a key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_handlers.h"
#include "capture_answer.h"
#include "json_members.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "snapshot.h"

#define SNAPSHOT_JSON_MAX 8192
#define KEEP_MAX_MS (3650ULL * 86400 * 1000)
#define NAME_TEXT_MAX (TEMPLATE_NAME_TEXT - 1)

static void show(struct json *j, const struct core *c, const struct template_version *v)
{
	const struct store_template *t = template_row(v);
	char id[SNAPSHOT_ID_MAX], name[SNAPSHOT_ID_MAX];

	snapshot_id(c, v, id);
	snapshot_name(c, v, name);
	json_open(j, NULL, '{');
	json_text(j, "id", id);
	json_text(j, "name", name[0] == '\0' ? NULL : name);
	json_text(j, "template_id", t->template_id);
	json_text(j, "version_id", t->id);
	json_text(j, "owner", snapshot_owner(c, v));
	json_text(j, "session_id", t->source);
	json_uint(j, "bytes", t->bytes);
	json_view_time(j, "created_at", t->created_ms);
	json_view_time(j, "expires_at", t->expires_ms);
	json_close(j, '}');
}

static void reply_snapshot(struct request *r, int status, const struct template_version *v)
{
	struct json j;

	json_init_heap(&j, SNAPSHOT_JSON_MAX);
	show(&j, r->core, v);
	reply_json(r, status, &j);
}

/* ---- making one */

static void on_made(struct request *r, const struct template_version *v, const struct err *e)
{
	if (e != NULL)
		reply_error(r, e);
	else
		reply_snapshot(r, 201, v);
}

/* {"name"?: text, "expires_in"?: time}, and for the route without a session {"session": id}. */
static int read_body(struct request *r, const uint8_t *body, size_t len, char name[SNAPSHOT_ID_MAX],
		     uint64_t *ret_keep_ms, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	const char *text = NULL, *session = NULL;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &text);
	json_members_time(&m, "expires_in", ret_keep_ms, NULL);
	if (*ret_keep_ms > KEEP_MAX_MS)
		(void)json_members_fail(&m, "expires_in", "must be at most 3650 days");
	if (r->session_id[0] == '\0') {
		json_members_text(&m, "session", SESSION_ID_MAX - 1, &session);
		if (session == NULL)
			(void)json_members_fail(&m, "session", "is missing");
		else
			(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session);
	}
	(void)snprintf(name, SNAPSHOT_ID_MAX, "%s", text == NULL ? "" : text);
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	char name[SNAPSHOT_ID_MAX];
	struct err e = { 0 };
	uint64_t keep_ms = 0;
	struct session *s;

	if (read_body(r, body, len, name, &keep_ms, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = request_session(r);
	if (s != NULL)
		capture_answer_snapshot(r, s, name, keep_ms, on_made);
}

void api_snapshots_create(struct request *r)
{
	request_body(r, on_body);
}

/* ---- lists */

/* The newest first. */
void api_snapshots_list(struct request *r)
{
	char session[SESSION_ID_MAX], name[SNAPSHOT_ID_MAX];
	struct snapshot_list l = { 0 };
	struct err e = { 0 };
	struct json j;

	if (request_text(r, "session", session, sizeof(session), &e) < 0 ||
	    request_text(r, "name", name, sizeof(name), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	snapshot_list_read(r->core, r->tenant, session, name, &l);
	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "snapshots", '[');
	for (size_t i = 0; i < l.n; i++)
		show(&j, r->core, l.found[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	snapshot_list_release(&l);
	reply_json(r, 200, &j);
}

void api_snapshots_get(struct request *r)
{
	const struct template_version *v = snapshot_find(r->core, r->tenant, r->id);

	if (v == NULL)
		reply_code(r, 404, "not_found", "there is no such snapshot");
	else
		reply_snapshot(r, 200, v);
}

void api_snapshots_delete(struct request *r)
{
	struct err e = { 0 };

	if (snapshot_remove(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
