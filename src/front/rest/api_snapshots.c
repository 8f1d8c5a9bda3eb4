/* api_snapshots.c - snapshots of sessions: made, listed, shown, removed. Those of other tenants do
 * not exist for a key.
 *
 * A snapshot is a version of a template. The answer to a create comes when its layer is on disk.
 * With Idempotency-Key a repetition gets the first one's snapshot (once.h). If the daemon dies in
 * between, a repetition makes another one. */
#include <stdlib.h>
#include <string.h>

#include "daemon/template/snapshot.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/once.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/session_request.h"
#include "lib/base/str.h"

#define SNAPSHOT_JSON_MAX 24576
#define KEEP_MAX_MS (3650ULL * 86400 * 1000)
#define NAME_TEXT_MAX (TEMPLATE_NAME_TEXT - 1)

/* found: the snapshot just made, or NULL. */
static void snapshots_show(struct json *j, const struct core *c, const struct template_version *v,
			   const struct session_capture_found *found)
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
	if (found != NULL)
		json_view_secrets_found(j, found);
	json_close(j, '}');
}

/* 201: the answer names the place of the new one. */
static void reply_snapshot(struct request *r, int status, const struct template_version *v,
			   const struct session_capture_found *found)
{
	char id[SNAPSHOT_ID_MAX];
	struct json j;

	snapshot_id(r->core, v, id);
	if (status == 201)
		reply_location(r, "/v1/snapshots/", id);
	json_init_heap(&j, SNAPSHOT_JSON_MAX);
	snapshots_show(&j, r->core, v, found);
	reply_json(r, status, &j);
}

/* ---- making one
 *
 * on_body() asks for the capture. on_made() follows once, when the layer is on disk or has failed.
 */

/* capture_answer_snapshot() calls this once. On failure v and found are not read. */
static void on_made(struct request *r, const struct template_version *v,
		    const struct session_capture_found *found, const struct err *e)
{
	struct err why;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	IGNORED(once_write(r, template_row(v)->id, &why), "a repetition makes another one");
	reply_snapshot(r, 201, v, found);
}

/* The snapshot that the first request with this key made. False: it is gone. */
static bool reply_again(struct request *r, const char *id)
{
	const struct template_version *v = templates_by_id(r->core, id);
	char name[SNAPSHOT_ID_MAX];

	/* Sessions keep the version of a deleted snapshot. */
	if (v != NULL) {
		snapshot_id(r->core, v, name);
		if (snapshot_find(r->core, r->tenant, name) != v)
			v = NULL;
	}
	if (v == NULL) {
		once_forget(r);
		return false;
	}
	once_replayed(r);
	reply_snapshot(r, 201, v, NULL);
	return true;
}

/* {"name"?: text, "expires_in"?: time} Both members may be absent. Without a name the snapshot is
 * found by its id only. */
static int read_body(const uint8_t *body, size_t len, char name[SNAPSHOT_ID_MAX],
		     uint64_t *ret_keep_ms, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	const char *text = NULL;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &text);
	json_members_time(&m, "expires_in", NULL, ret_keep_ms, NULL);
	if (*ret_keep_ms > KEEP_MAX_MS)
		(void)json_members_fail(&m, "expires_in", "must be at most 3650 days");
	str_copy_to(name, SNAPSHOT_ID_MAX, text == NULL ? "" : text);
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

/* A repetition is answered before its body is parsed. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	char name[SNAPSHOT_ID_MAX], before[STORE_ID_MAX];
	struct err e = { 0 };
	uint64_t keep_ms = 0;
	struct session *s;
	int again = once_begin(r, body, len, before, &e);

	if (again > 0 && reply_again(r, before))
		return;
	if (again < 0 || read_body(body, len, name, &keep_ms, &e) < 0) {
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

/* ---- lists
 *
 * snapshot_list_read() gives all of the tenant's snapshots, and a page is made in one turn. */

/* Is it behind the last one of the page before, in the order of snapshot_list_read()? */
static bool is_after(const struct list_part *p, const struct store_template *t)
{
	return p->last[0] == '\0' || t->created_ms < p->ms ||
	       (t->created_ms == p->ms && strcmp(t->id, p->last) > 0);
}

/* The newest first. */
void api_snapshots_list(struct request *r)
{
	char session[SESSION_ID_MAX], name[SNAPSHOT_ID_MAX];
	struct snapshot_list l = { 0 };
	struct list_part part;
	struct err e = { 0 };

	if (request_text(r, "session", session, sizeof(session), &e) < 0 ||
	    request_text(r, "name", name, sizeof(name), &e) < 0 ||
	    list_part_begin(&part, r, "snapshots", true, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	snapshot_list_read(r->core, r->tenant, session, name, &l);
	for (size_t i = 0; i < l.n && !part.more; i++) {
		const struct store_template *t = template_row(l.found[i]);

		if (is_after(&part, t) && list_part_admits(&part, t->created_ms, t->id))
			snapshots_show(&part.j, r->core, l.found[i], NULL);
	}
	snapshot_list_release(&l);
	list_part_reply(&part, r);
}

void api_snapshots_get(struct request *r)
{
	const struct template_version *v = snapshot_find(r->core, r->tenant, r->id);

	if (v == NULL)
		reply_missing(r, "snapshot", r->id);
	else
		reply_snapshot(r, 200, v, NULL);
}

/* Sessions made from the snapshot keep its layers. */
void api_snapshots_delete(struct request *r)
{
	struct err e = { 0 };

	if (snapshot_remove(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
