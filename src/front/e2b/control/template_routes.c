/* template_routes.c - the templates that a tenant may use, as E2B shows templates: each with its
 * builds. The operator's belong to all tenants. A template with only a running build has no
 * version. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/images/build.h"
#include "daemon/tenant/tenant.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/control/template_find.h"
#include "front/web/auth.h"
#include "front/web/json_members.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

/* ---- change and delete
 *
 * Templates are deleted, published and made private again. */

/* Counts the tenant's live sessions with one template. */
struct template_routes_uses {
	const char *template_id;
	unsigned sessions;
};

static void on_session(struct session *s, void *arg)
{
	const struct store_template *t = session_template(s);
	struct template_routes_uses *u = arg;

	u->sessions += t != NULL && strcmp(t->template_id, u->template_id) == 0;
}

static int delete_template(struct request *r, const char *id, struct err *e)
{
	struct template_routes_uses u = { .template_id = id };

	/* Those of other tenants keep their version, and do not keep its owner from deleting it. */
	session_each(r->core, r->tenant, on_session, &u);
	if (u.sessions > 0)
		return err_set(e, ERR_INVALID,
			       "cannot delete template '%s' because there are sandboxes using it",
			       id);
	return build_remove_template(r->core, id, template_find_any(r->core, id), request_actor(r),
				     e);
}

/* Also how clients delete a snapshot. */
void template_changes_delete(struct request *r)
{
	char id[STORE_ID_MAX];
	struct err e = { 0 };

	if (snapshot_routes_delete(r) || !auth_is_template_owner(r) ||
	    !template_find_own(r, r->id, id))
		return;
	if (delete_template(r, id, &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* Members other than public are ignored. *given: it was there. */
static int read_public(const uint8_t *body, size_t len, bool *ret, bool *given, struct err *e)
{
	json_t *root = json_members_parse(body, len, e), *value;

	if (root == NULL)
		return -1;
	value = json_object_get(root, "public");
	*given = json_is_boolean(value);
	*ret = json_is_true(value);
	json_decref(root);
	return 0;
}

/* names: the answer of version 2 shows the names. */
static void template_changes_patch(struct request *r, const uint8_t *body, size_t len, bool names)
{
	struct template_version *v = NULL;
	bool public = false, given = false;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct json j;

	if (read_public(body, len, &public, &given, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!template_find_own(r, r->id, id))
		return;
	v = template_find_any(r->core, id);
	if (v == NULL) {
		reply_code(r, 404, "not_found", "the template has no finished build");
		return;
	}
	if (given && templates_set_public(r->core, v, public, request_actor(r), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (!names) {
		exchange_reply(r->x, 200, "application/json", "null", 4);
		return;
	}
	json_init_heap(&j, 4096);
	json_open(&j, NULL, '{');
	template_find_shape_names(&j, r->core, template_row(v)->tenant, template_row(v)->name);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static void on_patch_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	template_changes_patch(request_of(x), body, len, false);
}

static void on_patch_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	template_changes_patch(request_of(x), body, len, true);
}

void template_changes_patch_v1(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_patch_v1);
}

void template_changes_patch_v2(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_patch_v2);
}

/* ---- tags
 *
 * Tags of templates: a tag of a name points to one version, and so to one build. */

#define TEXT_MAX 256
#define JSON_MAX (256U << 10)

/* ---- bodies */

/* A body's tags. list points into texts, so the structure must not be copied. */
struct tags {
	json_t *root;
	const char *target; /* of `target` or `name` */
	size_t n;
	char texts[BUILD_TAGS_MAX][STORE_NAME_MAX];
	const char *list[BUILD_TAGS_MAX];
};

static int read_list(struct json_members *m, struct tags *ret)
{
	json_t *tags = json_members_array(m, "tags", BUILD_TAGS_MAX), *value;
	size_t i;

	if (tags == NULL || json_array_size(tags) == 0)
		return json_members_fail(m, "tags", "at least one tag is needed");
	json_array_foreach(tags, i, value)
	{
		if (!json_is_string(value))
			return json_members_fail(m, "tags", "must be an array of texts");
		if (template_ref_tag(json_string_value(value), ret->texts[i], m->e) < 0) {
			m->failed = true;
			return -1;
		}
		ret->list[i] = ret->texts[i];
		ret->n++;
	}
	return 0;
}

static int read_tags(const uint8_t *body, size_t len, const char *member, struct tags *ret,
		     struct template_name *ref, struct err *e)
{
	struct json_members m;

	*ret = (struct tags){ .root = json_members_parse(body, len, e) };
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, member, TEXT_MAX, &ret->target);
	if (ret->target == NULL)
		(void)json_members_fail(&m, member, "is missing");
	if (!m.failed)
		IGNORED(read_list(&m, ret), "kept in m");
	if (json_members_end_lenient(&m) < 0)
		return -1;
	return template_ref_read(ret->target, ref, e);
}

/* ---- POST /templates/tags */

static void reply_assigned(struct request *r, struct template_version *v, const struct tags *t)
{
	char build[TEMPLATE_FIND_BUILD_MAX];
	struct err e = { 0 };
	struct json j;

	if (template_find_build(r->core, template_row(v), build, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "buildID", build);
	json_open(&j, "tags", '[');
	for (size_t i = 0; i < t->n; i++)
		json_text(&j, NULL, t->list[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	reply_json(r, 201, &j);
}

/* The tags move to the version that target names. */
static void tag_routes_set(struct request *r, const struct tags *t, const struct template_name *ref)
{
	char id[STORE_ID_MAX];
	struct template_version *v;
	struct err e = { 0 };

	if (!template_find_own(r, t->target, id))
		return;
	v = templates_by_template_id(r->core, id, ref->tag);
	if (v == NULL) {
		IGNORED(err_set(&e, ERR_NOT_FOUND, "Template '%s' with tag '%s' not found",
				ref->name, ref->tag[0] == '\0' ? "default" : ref->tag),
			"answered");
		reply_error(r, &e);
	} else if (templates_tag(r->core, v, t->list, t->n, request_actor(r), &e) < 0) {
		reply_error(r, &e);
	} else {
		reply_assigned(r, v, t);
	}
}

static void on_assign(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct template_name ref;
	struct err e = { 0 };
	struct tags t;

	if (read_tags(body, len, "target", &t, &ref, &e) < 0)
		reply_error(r, &e);
	else
		tag_routes_set(r, &t, &ref);
	json_decref(t.root);
}

void tag_routes_assign(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_assign);
}

/* ---- DELETE /templates/tags */

/* All tags are looked up first, so a wrong one removes none. */
static int remove_all(struct request *r, const char *id, const struct tags *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++)
		if (templates_by_template_id(r->core, id, t->list[i]) == NULL)
			return err_set(e, ERR_NOT_FOUND, "tag '%s' not found", t->list[i]);
	for (size_t i = 0; i < t->n; i++) {
		struct template_version *v = templates_by_template_id(r->core, id, t->list[i]);

		if (v != NULL && templates_untag(r->core, v, t->list[i], request_actor(r), e) < 0)
			return -1;
	}
	return 0;
}

static int check_removal(const struct tags *t, const struct template_name *ref, struct err *e)
{
	if (ref->tag[0] != '\0')
		return err_set(e, ERR_INVALID, "name: must not have a tag");
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->list[i], TEMPLATE_REF_TAG_DEFAULT) == 0)
			return err_set(e, ERR_INVALID, "Cannot delete the 'default' tag");
	return 0;
}

static void on_remove(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct template_name ref;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct tags t;

	if (read_tags(body, len, "name", &t, &ref, &e) < 0 || check_removal(&t, &ref, &e) < 0)
		reply_error(r, &e);
	else if (template_find_own(r, t.target, id)) {
		if (remove_all(r, id, &t, &e) < 0)
			reply_error(r, &e);
		else
			reply_empty(r, 204);
	}
	json_decref(t.root);
}

void tag_routes_remove(struct request *r)
{
	if (auth_is_template_owner(r))
		request_body(r, on_remove);
}

/* ---- GET /templates/{template}/tags */

#define TAG_ROUTES_LISTED_MAX (TEMPLATES_TAGS_MAX + 1)

/* The tags of one template, sorted as they are added. */
struct listed {
	const char *id;
	size_t n;
	struct {
		const char *tag;
		const struct store_template *row;
		uint64_t created_ms;
	} tags[TAG_ROUTES_LISTED_MAX];
};

static void list_in(struct listed *l, const char *tag, const struct store_template *row,
		    uint64_t created_ms)
{
	size_t at = l->n;

	if (l->n == TAG_ROUTES_LISTED_MAX)
		return;
	for (; at > 0 && strcmp(l->tags[at - 1].tag, tag) > 0; at--)
		l->tags[at] = l->tags[at - 1];
	l->tags[at].tag = tag;
	l->tags[at].row = row;
	l->tags[at].created_ms = created_ms;
	l->n++;
}

static void tag_routes_on_version(const struct template_version *v, void *arg)
{
	const struct store_template *row = template_row(v);
	const struct store_template_tag *tags;
	struct listed *l = arg;
	size_t n;

	if (strcmp(row->template_id, l->id) != 0)
		return;
	if (row->current)
		list_in(l, TEMPLATE_REF_TAG_DEFAULT, row, row->created_ms);
	n = template_tags(v, &tags);
	for (size_t i = 0; i < n; i++)
		list_in(l, tags[i].tag, row, tags[i].created_ms);
}

void tag_routes_list(struct request *r)
{
	char id[STORE_ID_MAX], build[TEMPLATE_FIND_BUILD_MAX];
	struct listed l = { .id = id };
	struct err e = { 0 };
	struct json j;

	if (!template_find_own(r, r->id, id))
		return;
	templates_each(r->core, NULL, tag_routes_on_version, &l);
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '[');
	for (size_t i = 0; i < l.n; i++) {
		if (template_find_build(r->core, l.tags[i].row, build, &e) < 0) {
			json_release(&j);
			reply_error(r, &e);
			return;
		}
		json_open(&j, NULL, '{');
		json_text(&j, "tag", l.tags[i].tag);
		json_text(&j, "buildID", build);
		sandbox_shape_time(&j, "createdAt", l.tags[i].created_ms);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	reply_json(r, 200, &j);
}

/* ---- list and show */

#define TEMPLATES_JSON_MAX (4U << 20)
#define MEGA (1U << 20)
#define LIMIT_MAX 100
#define LISTED_MAX 1000

/* The resources of a sandbox that does not request any. */
static void shape_size(struct json *j, const struct core *c, uint64_t cpu_millis,
		       uint64_t memory_bytes)
{
	const struct config *g = core_config(c);
	unsigned can = core_restrictions(c)->limits;
	struct cell_limits limits = {
		.memory_bytes = memory_bytes > 0		 ? memory_bytes
				: (can & CELL_LIMIT_MEMORY) == 0 ? 0
								 : g->memory_default,
		.cpu_millis = cpu_millis > 0		    ? cpu_millis
			      : (can & CELL_LIMIT_CPU) == 0 ? 0
							    : g->cpus_default_milli,
		.disk_bytes = g->disk_default,
	};
	struct sandbox_size size;

	sandbox_size(&limits, &size);
	json_uint(j, "cpuCount", size.cpus);
	json_uint(j, "memoryMB", size.memory_bytes / MEGA);
	json_uint(j, "diskSizeMB", size.disk_bytes / MEGA);
	json_text(j, "envdVersion", E2B_ENVD_VERSION);
}

/* ---- one template, with a version or with builds only */

struct shown {
	struct core *core;
	const struct store_template *row; /* NULL: it has no version */
	struct store_build build;	  /* the newest. id "": none */
	bool built;			  /* there is one. Owned */
};

static int find_newest_build(struct shown *s, const char *template_id, struct err *e)
{
	s->built = store_build_by_template(core_store(s->core), template_id, &s->build, e) == 0;
	if (!s->built)
		s->build = (struct store_build){ .status = BUILD_READY };
	return s->built || e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* The members common to Template and TemplateWithBuilds. */
static void shape_facts(struct json *j, const struct shown *s)
{
	const struct store_template *t = s->row;
	uint64_t created = t != NULL ? t->created_ms : s->build.created_ms;
	uint64_t updated = s->build.updated_ms > created ? s->build.updated_ms : created;

	json_text(j, "templateID", t != NULL ? template_find_id(s->core, t) : s->build.template_id);
	json_bool(j, "public", t != NULL && (t->tenant[0] == '\0' || t->public));
	template_find_shape_names(j, s->core, t != NULL ? t->tenant : s->build.tenant,
				  t != NULL ? t->name : s->build.name);
	sandbox_shape_time(j, "createdAt", created);
	sandbox_shape_time(j, "updatedAt", updated);
	json_none(j, "lastSpawnedAt");
	json_uint(j, "spawnCount", 0);
}

/* The id of its newest build, and how many builds there are. */
static int count_builds(struct shown *s, const char *template_id,
			char ret_build[TEMPLATE_FIND_BUILD_MAX], uint64_t *ret_n, struct err *e)
{
	if (find_newest_build(s, template_id, e) < 0)
		return -1;
	if (!s->built)
		return s->row == NULL ? 0 : template_find_build(s->core, s->row, ret_build, e);
	memcpy(ret_build, s->build.id, TEMPLATE_FIND_BUILD_MAX);
	return store_build_count_of(core_store(s->core), template_id, ret_n, e);
}

static void shape_counted(struct json *j, const struct shown *s, const char *build, uint64_t n)
{
	json_open(j, NULL, '{');
	shape_facts(j, s);
	json_text(j, "buildID", build);
	if (s->row != NULL)
		shape_size(j, s->core, s->row->cpu_millis, s->row->memory_bytes);
	else
		shape_size(j, s->core, s->build.cpu_millis, s->build.memory_bytes);
	json_none(j, "createdBy");
	json_uint(j, "buildCount", n);
	json_text(j, "buildStatus", build_status_name(s->build.status));
	json_close(j, '}');
}

static int shape_template(struct json *j, struct shown *s, const char *template_id, struct err *e)
{
	char build[TEMPLATE_FIND_BUILD_MAX] = "";
	uint64_t n = 1;
	int result = count_builds(s, template_id, build, &n, e);

	if (result == 0)
		shape_counted(j, s, build, n);
	if (s->built)
		store_build_release(&s->build);
	return result;
}

/* ---- the list
 *
 * One entry for each template with versions, then one for each with only a running build. It is
 * made in pieces (list_job.h): a tenant may use thousands of templates, and the store is asked
 * three questions for each. */

#define LIST_PIECE 64 /* templates of a piece */

/* A part of the list: from one place to another. */
struct template_routes_page {
	struct list_job job; /* first */
	uint64_t at, from, to;
	unsigned piece;			  /* templates that this piece has shown */
	const struct store_template *row; /* in a piece: the next to list. NULL: none */
	char owner[STORE_ID_MAX], name[STORE_NAME_MAX]; /* the last listed template */
	struct err failure;				/* of the store. Code ERR_NONE: none */
	bool walked;					/* templates with versions are listed */
	size_t nown;
	char own[TEMPLATES_TENANT_MAX][STORE_ID_MAX]; /* the tenant's listed templates */
	size_t nbuilds, build;			      /* builds[build] is next */
	char builds[LISTED_MAX][STORE_ID_MAX];	      /* templates without a version */
};

static void list_template(struct template_routes_page *p, const struct store_template *row,
			  const char *template_id)
{
	struct shown s = { .core = p->job.r->core, .row = row };
	struct err e;

	if (p->at >= p->from && p->at < p->to && p->failure.code == ERR_NONE) {
		if (shape_template(&p->job.j, &s, template_id, &e) < 0)
			p->failure = e;
		p->piece++;
	}
	p->at++;
}

static bool is_image(const struct store_template *row)
{
	return strncmp(row->name, BUILD_IMAGE_PREFIX, strlen(BUILD_IMAGE_PREFIX)) == 0;
}

/* The template whose versions were seen. */
static void list_row(struct template_routes_page *p)
{
	const struct store_template *row = p->row;

	if (row == NULL)
		return;
	p->row = NULL;
	str_copy(p->owner, row->tenant);
	str_copy(p->name, row->name);
	if (is_image(row))
		return;
	if (p->nown < COUNT(p->own) && strcmp(row->tenant, tenant_row(p->job.r->tenant)->id) == 0)
		str_copy(p->own[p->nown++], row->template_id);
	list_template(p, row, row->template_id);
}

/* Versions of a template are neighbours. Show the current one, or else the first. */
static bool on_version(const struct template_version *v, void *arg)
{
	const struct store_template *row = template_row(v);
	struct template_routes_page *p = arg;

	if (p->row != NULL && strcmp(p->row->template_id, row->template_id) == 0) {
		if (row->current)
			p->row = row;
		return true;
	}
	list_row(p);
	if (p->piece >= LIST_PIECE)
		return false;
	p->row = row;
	return true;
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int on_build(const struct store_build *row, void *cookie)
{
	struct template_routes_page *p = cookie;

	if (bsearch(row->template_id, p->own, p->nown, STORE_ID_MAX, compare_ids) == NULL &&
	    p->nbuilds < LISTED_MAX)
		str_copy(p->builds[p->nbuilds++], row->template_id);
	return 0;
}

static int find_unbuilt(struct template_routes_page *p, struct err *e)
{
	struct request *r = p->job.r;

	p->walked = true;
	qsort(p->own, p->nown, STORE_ID_MAX, compare_ids);
	return store_build_templates(core_store(r->core), tenant_row(r->tenant)->id, "", LISTED_MAX,
				     on_build, p, e);
}

static int on_piece(struct list_job *w, struct err *e)
{
	struct template_routes_page *p = (struct template_routes_page *)w;

	p->piece = 0;
	if (!p->walked) {
		if (templates_each_behind(w->r->core, w->r->tenant, p->owner, p->name, on_version,
					  p)) {
			list_row(p);
			return find_unbuilt(p, e) < 0 ? -1 : 1;
		}
	} else {
		while (p->build < p->nbuilds && p->piece < LIST_PIECE)
			list_template(p, NULL, p->builds[p->build++]);
	}
	if (p->failure.code != ERR_NONE) {
		*e = p->failure;
		return -1;
	}
	return !p->walked || p->build < p->nbuilds;
}

static void on_finish(struct list_job *w)
{
	const struct template_routes_page *p = (struct template_routes_page *)w;
	char next[24];

	json_close(&w->j, ']');
	if (p->to >= p->at)
		return;
	(void)snprintf(next, sizeof(next), "%" PRIu64, p->to);
	exchange_header(w->r->x, "X-Next-Token", next);
}

static void list_from(struct request *r, uint64_t from, uint64_t to)
{
	struct template_routes_page *p = list_job_new(r, sizeof(*p), on_piece, on_finish);

	if (p == NULL)
		return;
	p->from = from;
	p->to = to;
	json_open(&p->job.j, NULL, '[');
	list_job_start(&p->job);
}

void template_routes_list_v1(struct request *r)
{
	list_from(r, 0, UINT64_MAX);
}

void template_routes_list_v2(struct request *r)
{
	uint64_t limit = LIMIT_MAX, from = 0;
	struct err e = { 0 };

	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, UINT32_MAX, &from, &e) < 0)
		reply_error(r, &e);
	else
		list_from(r, from, from + limit);
}

/* ---- one */

static void template_routes_missing(struct request *r)
{
	struct err e = { 0 };

	IGNORED(err_set(&e, ERR_NOT_FOUND, "template '%.60s' not found", r->id), "answered");
	err_sanitize(&e);
	reply_error(r, &e);
}

struct builds_page {
	struct json *j;
	struct core *core;
	size_t n;
};

static void shape_build(struct builds_page *p, const struct store_build *row)
{
	json_open(p->j, NULL, '{');
	json_text(p->j, "buildID", row->id);
	json_text(p->j, "status", build_status_name(row->status));
	sandbox_shape_time(p->j, "createdAt", row->created_ms);
	sandbox_shape_time(p->j, "updatedAt", row->updated_ms);
	if (row->finished_ms > 0)
		sandbox_shape_time(p->j, "finishedAt", row->finished_ms);
	shape_size(p->j, p->core, row->cpu_millis, row->memory_bytes);
	json_close(p->j, '}');
	p->n++;
}

static int on_one_build(const struct store_build *row, void *cookie)
{
	shape_build(cookie, row);
	return 0;
}

/* A template that no build made shows its current version as one. */
static int shape_builds(struct json *j, struct core *c, const struct store_template *row,
			const char *template_id, unsigned limit, unsigned skip, struct err *e)
{
	struct builds_page p = { .j = j, .core = c };
	struct store_build build = { .status = BUILD_READY };

	json_open(j, "builds", '[');
	if (store_build_list(core_store(c), template_id, limit, skip, on_one_build, &p, e) < 0)
		return -1;
	if (p.n == 0 && skip == 0 && row != NULL) {
		if (template_find_build(c, row, build.id, e) < 0)
			return -1;
		build.created_ms = build.updated_ms = build.finished_ms = row->created_ms;
		build.cpu_millis = row->cpu_millis;
		build.memory_bytes = row->memory_bytes;
		shape_build(&p, &build);
	}
	json_close(j, ']');
	return 0;
}

static int shape_one(struct json *j, struct shown *s, const char *id, unsigned limit, unsigned from,
		     struct err *e)
{
	int result;

	if (find_newest_build(s, id, e) < 0)
		return -1;
	json_open(j, NULL, '{');
	shape_facts(j, s);
	result = shape_builds(j, s->core, s->row, id, limit, from, e);
	json_close(j, '}');
	if (s->built)
		store_build_release(&s->build);
	return result;
}

void template_routes_get(struct request *r)
{
	struct template_version *v = template_find(r->core, r->tenant, r->id);
	struct shown s = { .core = r->core, .row = v == NULL ? NULL : template_row(v) };
	uint64_t limit = LIMIT_MAX, from = 0;
	char id[STORE_ID_MAX];
	struct err e = { 0 };
	struct json j;

	if (v != NULL)
		str_copy(id, s.row->template_id);
	else if (!template_find_own(r, r->id, id))
		return;
	if (request_number(r, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
	    request_number(r, "nextToken", 0, INT32_MAX, &from, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	if (shape_one(&j, &s, id, (unsigned)limit, (unsigned)from, &e) == 0) {
		reply_json(r, 200, &j);
		return;
	}
	json_release(&j);
	reply_error(r, &e);
}

void template_routes_alias(struct request *r)
{
	const struct template_version *v = template_find(r->core, r->tenant, r->id);
	const struct store_template *row = v == NULL ? NULL : template_row(v);
	char id[STORE_ID_MAX];
	struct json j;

	/* A name with a tag that nothing has is not there, even if the name is. */
	if (row == NULL && strchr(r->id, ':') != NULL) {
		template_routes_missing(r);
		return;
	}
	if (row == NULL && !template_find_own(r, r->id, id))
		return;
	json_init_heap(&j, TEMPLATES_JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "templateID", row == NULL ? id : template_find_id(r->core, row));
	json_bool(&j, "public", row != NULL && (row->tenant[0] == '\0' || row->public));
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
