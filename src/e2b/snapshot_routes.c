/* snapshot_routes.c - snapshots of sandboxes as E2B has them: created, listed by pages, deleted as
 * templates are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_answer.h"
#include "auth.h"
#include "e2b_private.h"
#include "json_members.h"
#include "reply.h"
#include "sandbox.h"
#include "sandbox_filter.h"
#include "snapshot.h"

#define SNAPSHOT_JSON_MAX 4096
#define LIST_JSON_MAX (256U << 10)
#define LIMIT_MAX 100

static void shape(struct json *j, const struct core *c, const struct template_version *v)
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

static void on_made(struct request *r, const struct template_version *v, const struct err *e)
{
	struct json j;

	if (e != NULL) {
		sandbox_fail(r, e);
		return;
	}
	json_init_heap(&j, SNAPSHOT_JSON_MAX);
	shape(&j, r->core, v);
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
	(void)snprintf(ret, SNAPSHOT_ID_MAX, "%s", text == NULL ? "" : text);
	read = json_members_end_lenient(&m);
	json_decref(root);
	return read;
}

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

/* ---- list */

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

/* Where the page of the cursor begins; its id is "" for the first page. */
static size_t find_page(const struct snapshot_list *l, const struct sandbox_filter_cursor *c)
{
	size_t i = 0;

	while (c->id[0] != '\0' && i < l->n && !is_behind(template_row(l->found[i]), c))
		i++;
	return i;
}

static void set_next(struct request *r, const struct store_template *last)
{
	struct sandbox_filter_cursor next = { .ms = last->created_ms };
	char token[SANDBOX_FILTER_CURSOR_MAX];

	(void)snprintf(next.id, sizeof(next.id), "%s", plain_id(last));
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
		shape(&j, r->core, l.found[i]);
	json_close(&j, ']');
	if (l.n - at > limit)
		set_next(r, template_row(l.found[at + limit - 1]));
	snapshot_list_release(&l);
	reply_json(r, 200, &j);
}

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
