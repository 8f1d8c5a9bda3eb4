/* snapshot_routes.c - snapshots of sandboxes as E2B has them: created, listed by pages, deleted as
 * templates are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

struct making {
	struct snapshot made;
	struct request *r;
};

static void release(struct request *r, bool answered)
{
	struct making *m = r->state;

	(void)answered;
	snapshot_cancel(&m->made);
}

static void on_made(struct completion *c, const struct err *e)
{
	struct making *m = c->arg;
	struct json j;

	if (e != NULL) {
		sandbox_fail(m->r, e);
		return;
	}
	json_init_heap(&j, SNAPSHOT_JSON_MAX);
	shape(&j, m->r->core, m->made.version);
	reply_json(m->r, 201, &j);
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
	struct making *m;
	struct session *s;

	if (len > 0 && read_name(body, len, name, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	m = request_state(r, sizeof(*m), release);
	if (m == NULL)
		return;
	m->r = r;
	m->made.done = (struct completion){ .on_done = on_made, .arg = m };
	snapshot_make(s, name, 0, request_actor(r), &m->made);
}

void snapshot_routes_create(struct request *r)
{
	request_body(r, on_create_body);
}

/* ---- list */

struct found {
	const struct template_version *v;
};

struct list {
	struct found *found; /* owned */
	size_t n, cap;
	struct sandbox_filter_cursor from; /* id "": from the start */
};

/* Without "tpl_": tokens of pages have letters and digits only. */
static const char *plain_id(const struct store_template *t)
{
	const char *line = strchr(t->id, '_');

	return line == NULL ? t->id : line + 1;
}

/* The newest first. */
static int order(uint64_t a_ms, const char *a_id, uint64_t b_ms, const char *b_id)
{
	if (a_ms != b_ms)
		return a_ms > b_ms ? -1 : 1;
	return strcmp(a_id, b_id);
}

static int compare(const void *a, const void *b)
{
	const struct store_template *x = template_row(((const struct found *)a)->v);
	const struct store_template *y = template_row(((const struct found *)b)->v);

	return order(x->created_ms, plain_id(x), y->created_ms, plain_id(y));
}

static void on_version(const struct template_version *v, void *arg)
{
	const struct store_template *t = template_row(v);
	struct list *l = arg;

	if (l->from.id[0] != '\0' && order(t->created_ms, plain_id(t), l->from.ms, l->from.id) <= 0)
		return; /* on an earlier page */
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
		void *more = realloc(l->found, cap * sizeof(*l->found));

		if (more == NULL)
			return;
		l->found = more;
		l->cap = cap;
	}
	l->found[l->n++].v = v;
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
		      uint64_t *ret_limit, struct list *l, struct err *e)
{
	char token[SANDBOX_FILTER_CURSOR_MAX];

	if (request_text(r, "sandboxID", source, REQUEST_ID_MAX, e) < 0 ||
	    request_text(r, "name", name, SNAPSHOT_ID_MAX, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MAX, ret_limit, e) < 0 ||
	    request_text(r, "nextToken", token, sizeof(token), e) < 0)
		return -1;
	return token[0] == '\0' ? 0 : sandbox_filter_cursor_read(token, &l->from, e);
}

void snapshot_routes_list(struct request *r)
{
	char source[REQUEST_ID_MAX], name[SNAPSHOT_ID_MAX];
	uint64_t limit = LIMIT_MAX;
	struct list l = { 0 };
	struct err e = { 0 };
	struct json j;

	if (read_query(r, source, name, &limit, &l, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	snapshot_each(r->core, r->tenant, source, name, on_version, &l);
	if (l.n > 0)
		qsort(l.found, l.n, sizeof(*l.found), compare);
	json_init_heap(&j, LIST_JSON_MAX);
	json_open(&j, NULL, '[');
	for (size_t i = 0; i < l.n && i < limit; i++)
		shape(&j, r->core, l.found[i].v);
	json_close(&j, ']');
	if (l.n > limit)
		set_next(r, template_row(l.found[limit - 1].v));
	free(l.found);
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
	if (snapshot_remove(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
	return true;
}
