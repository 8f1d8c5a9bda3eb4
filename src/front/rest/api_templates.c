/* api_templates.c - templates: listed, shown, added and removed. Only the operator can add
 * directories of the machine. All tenants can add archives (imports, below) and templates with the
 * layers of others. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/disk/storage_link.h"
#include "daemon/images/build.h"
#include "daemon/images/import.h"
#include "daemon/node/core_metrics.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/rest/spec_template.h"
#include "front/web/auth.h"
#include "front/web/body_feed.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/str.h"
#include "lib/json/json.h"
#include "lib/wire/cell_level.h"

/* ---- imports
 *
 * POST /v1/templates with an archive as body: the template is made when the
 * whole archive has arrived, and answered when it is there. */

/* The state of an import's request. The body_feed reads the body at the speed of the import. */
struct importing {
	struct body_feed body; /* first */
	struct import *import; /* owned */
};

/* By the Content-Type. Anything else is read as JSON. */
static bool template_is_archive(const struct request *r)
{
	static const char *const types[] = { "application/x-tar", "application/octet-stream",
					     "application/gzip", "application/zstd" };
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span type;

	if (http1_find(q->headers, q->headers_n, "content-type", &type) == 0)
		return false;
	type = http1_media_type(type);
	for (size_t i = 0; i < COUNT(types); i++)
		if (http1_span_is_nocase(type, types[i]))
			return true;
	return false;
}

static void template_import_release(struct request *r, bool answered)
{
	struct importing *v = r->state;

	import_free(v->import);
}

static void template_reply_made(struct request *r, const struct template_version *v)
{
	reply_location(r, "/v1/templates/", template_row(v)->name);
	api_template_reply(r, 201, v);
}

/* The feed calls this once. */
static void template_import_answer(struct request *r, const struct err *e)
{
	const struct importing *v = r->state;

	if (e != NULL)
		reply_error(r, e);
	else
		template_reply_made(r, import_made(v->import));
}

static size_t template_import_put(struct request *r, const uint8_t *data, size_t len)
{
	const struct importing *v = r->state;

	return import_put(v->import, data, len);
}

static bool template_import_end(struct request *r)
{
	const struct importing *v = r->state;

	return import_end(v->import);
}

/* The client left before the end, and nothing is kept. */
static void template_import_cut(struct request *r)
{
	struct importing *v = r->state;

	completion_cancel(&r->wait);
	import_free(v->import);
	v->import = NULL;
}

/* The parameters come in the query, because the body is the archive. */
static void template_import(struct request *r)
{
	char name[STORE_NAME_MAX + STORE_TAG_MAX], tag[STORE_TAG_MAX], user[OCI_USER_MAX];
	char workdir[OCI_WORKDIR_MAX];
	struct import_spec spec = { .name = name, .tag = tag, .user = user, .workdir = workdir };
	struct importing *v;
	struct err e = { 0 };

	if (auth_check_unlimited(r, &e) < 0 ||
	    request_text(r, "name", name, sizeof(name), &e) < 0 ||
	    request_text(r, "tag", tag, sizeof(tag), &e) < 0 ||
	    request_text(r, "user", user, sizeof(user), &e) < 0 ||
	    request_text(r, "workdir", workdir, sizeof(workdir), &e) < 0 ||
	    request_bool(r, "public", &spec.public, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	v = request_state(r, sizeof(*v), template_import_release);
	if (v == NULL)
		return;
	v->body = (struct body_feed){ .put = template_import_put,
				      .end = template_import_end,
				      .cut = template_import_cut,
				      .answer = template_import_answer };
	r->wait = (struct completion){ .on_done = body_feed_on_done, .arg = r };
	v->import = import_begin(r->core, r->tenant, &spec, request_actor(r), &r->wait,
				 body_feed_on_room, r, &e);
	if (v->import == NULL)
		reply_error(r, &e);
	else
		body_feed_start(&v->body, r, IMPORT_BYTES_MAX);
}

/* ---- files
 *
 * GET /v1/templates/{template}/files: the entries of a template's directory, for templates of
 * layers only. cordon-storage reads the layers.
 *
 * cordon-storage writes fixed records into a file without a name. on_listed() then shows them in
 * pieces. */

/* How long cordon-storage may take. */
#define DEADLINE_MS 60000
#define FILES_READ 8 /* entries at a time. One takes 5 KiB of JSON at most */

struct files_state {
	struct list_job list; /* first */
	struct storage_job job;
	int fd; /* owned: the result */
	char path[STORAGE_FILES_PATH];
	uint64_t limit, n; /* n: entries written */
};

static void template_files_release(struct list_job *w)
{
	struct files_state *s = (struct files_state *)w;

	storage_link_cancel(core_storage(w->r->core), &s->job);
	fd_close(s->fd);
}

static const char *type_of(uint32_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "directory"
	       : S_ISLNK(mode) ? "symlink"
			       : "other";
}

/* The records come from another process, so their texts are ended here before they are read. */
static void template_files_show(struct json *j, struct storage_file *f)
{
	char mode[8];

	f->name[sizeof(f->name) - 1] = f->link[sizeof(f->link) - 1] = '\0';
	(void)snprintf(mode, sizeof(mode), "%04o", f->mode & 07777U);
	json_open(j, NULL, '{');
	json_text(j, "name", f->name);
	json_text(j, "type", type_of(f->mode));
	json_uint(j, "size", f->size);
	json_text(j, "mode", mode);
	json_uint(j, "uid", f->uid);
	json_uint(j, "gid", f->gid);
	json_view_time(j, "modified_at", f->mtime < 0 ? 0 : (uint64_t)f->mtime * 1000);
	json_text(j, "target", S_ISLNK(f->mode) ? f->link : NULL);
	json_close(j, '}');
}

/* A long enough list ends early, as one at its limit does. */
static bool files_are_enough(const struct files_state *s)
{
	return s->n == s->limit || list_job_page_is_full(&s->list);
}

/* 1: there are more entries. The next one is read by its place in the file. */
static int on_files_piece(struct list_job *w, struct err *e)
{
	struct files_state *s = (struct files_state *)w;
	struct storage_file f[FILES_READ];

	while (!list_job_piece_is_full(w)) {
		ssize_t got = pread(s->fd, f, sizeof(f), (off_t)(s->n * sizeof(f[0])));
		size_t n = got < 0 ? 0 : (size_t)got / sizeof(f[0]);

		if (got < 0)
			return err_sys(e, "read the list of files");
		for (size_t i = 0; i < n && !files_are_enough(s); i++, s->n++)
			template_files_show(&w->j, &f[i]);
		if (n < FILES_READ || files_are_enough(s))
			return 0;
	}
	return 1;
}

static void on_files_finish(struct list_job *w)
{
	const struct files_state *s = (struct files_state *)w;

	json_close(&w->j, ']');
	json_bool(&w->j, "truncated", files_are_enough(s));
	json_close(&w->j, '}');
}

/* The file has all entries up to the limit. */
static void on_listed(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	struct files_state *s = r->state;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_open(&s->list.j, NULL, '{');
	json_text(&s->list.j, "path", s->path);
	json_open(&s->list.j, "entries", '[');
	list_job_start(&s->list);
}

/* Slashes around the path are removed, and `..` is refused. -1: e is the answer. */
static int template_files_compose(const struct request *r, const struct files_state *s,
				  struct storage_files *ret, struct err *e)
{
	const struct template_version *v = templates_find(r->core, r->tenant, r->id);
	struct template_stack stack;
	const char *path = s->path + strspn(s->path, "/");

	if (v == NULL)
		return templates_missing(r->core, r->tenant, r->id, e);
	if (template_stack_read(template_row(v), &stack, e) < 0)
		return -1;
	if (stack.base != TEMPLATE_BASE_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "files of the machine are in this template, and are not listed");
	ret->head = (struct storage_head){ .op = STORAGE_FILES, .deadline_ms = DEADLINE_MS };
	ret->nlower = (uint32_t)stack.nlayers;
	ret->limit = (uint32_t)s->limit;
	for (size_t i = 0; i < stack.nlayers; i++)
		str_copy(ret->lower[i], stack.layers[i]);
	str_copy(ret->path, path);
	for (size_t n = strlen(ret->path); n > 0 && ret->path[n - 1] == '/'; n--)
		ret->path[n - 1] = '\0';
	if (strstr(s->path, "..") != NULL)
		return err_set(e, ERR_INVALID, "path: must not have '..' in it");
	return 0;
}

/* Two descriptors of one file: the link takes one, this request keeps the other. */
void api_template_files(struct request *r)
{
	struct files_state *s = list_job_new(r, sizeof(*s), on_files_piece, on_files_finish);
	struct storage_files *q;
	struct err e = { 0 };
	int result = -1;

	if (s == NULL)
		return;
	s->list.release = template_files_release;
	s->fd = s->job.fd = -1;
	s->limit = 1000;
	q = calloc(1, sizeof(*q));
	if (q == NULL || request_text(r, "path", s->path, sizeof(s->path), &e) < 0 ||
	    request_number(r, "limit", 1, STORAGE_FILES_MAX, &s->limit, &e) < 0 ||
	    template_files_compose(r, s, q, &e) < 0) {
		free(q);
		reply_error(r, &e);
		return;
	}
	s->fd = openat(core_options(r->core)->state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		result = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (result < 0) {
		(void)err_sys(&e, "make a file in the state folder");
		reply_error(r, &e);
	} else {
		s->job.done = (struct completion){ .on_done = on_listed, .arg = r };
		s->job.tenant = tenant_row(r->tenant)->id;
		storage_link_ask(core_storage(r->core), &s->job, q, sizeof(*q), &result, 1);
	}
	free(q);
}

/* ---- tags
 *
 * Tags of templates, and whether others may use them. */

/* NULL: e says why the caller may not change it. */
static struct template_version *check_own(struct request *r, struct template_version *v,
					  struct err *e)
{
	if (v == NULL)
		IGNORED(templates_missing(r->core, r->tenant, r->id, e), "the answer");
	else if (!template_is_own(r->core, v, r->tenant))
		(void)err_set(e, ERR_DENIED, "the template belongs to another");
	else
		return v;
	return NULL;
}

/* The version in the path, to be changed. */
static struct template_version *own_version(struct request *r, struct err *e)
{
	return auth_check_template_owner(r, e) < 0
		       ? NULL
		       : check_own(r, templates_find(r->core, r->tenant, r->id), e);
}

/* As own_version(), for requests about all versions of a name. */
static struct template_version *template_own(struct request *r, struct err *e)
{
	return auth_check_template_owner(r, e) < 0
		       ? NULL
		       : check_own(r, templates_find_any(r->core, r->tenant, r->id), e);
}

/* The texts are borrowed from *ret_root, which the caller releases, also on failure. */
static int read_tags(const uint8_t *body, size_t len, json_t **ret_root,
		     const char *ret[TEMPLATES_TAGS_MAX], size_t *ret_n, struct err *e)
{
	struct json_members m;
	json_t *list;

	*ret_root = json_members_parse(body, len, e);
	if (*ret_root == NULL)
		return -1;
	json_members_begin(&m, *ret_root, "", e);
	list = json_members_array(&m, "tags", TEMPLATES_TAGS_MAX);
	*ret_n = json_array_size(list);
	if (*ret_n == 0)
		(void)json_members_fail(&m, "tags", "is missing");
	for (size_t i = 0; i < *ret_n; i++) {
		ret[i] = json_string_value(json_array_get(list, i));
		if (ret[i] == NULL)
			(void)json_members_fail(&m, "tags", "must be texts");
	}
	return json_members_end(&m);
}

static void on_tags_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct template_version *v = own_version(r, &e);
	const char *tags[TEMPLATES_TAGS_MAX];
	json_t *root = NULL;
	size_t n;

	if (v == NULL || read_tags(body, len, &root, tags, &n, &e) < 0 ||
	    templates_tag(r->core, v, tags, n, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		api_template_reply(r, 200, v);
	json_decref(root);
}

void api_template_tags_add(struct request *r)
{
	request_body(r, on_tags_body);
}

/* Any own version of the name will do. The tag then selects the one that has it. */
void api_template_tags_delete(struct request *r)
{
	struct err e = { 0 };
	struct template_version *v = template_own(r, &e);

	if (v != NULL)
		v = templates_of(r->core, template_row(v)->tenant, template_row(v)->name, r->part);
	if (v == NULL && e.code == ERR_NONE)
		(void)err_set(&e, ERR_NOT_FOUND, "the template does not have this tag");
	if (v == NULL || templates_untag(r->core, v, r->part, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* Only `public` can be changed. */
static void on_change_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct template_version *v = own_version(r, &e);
	json_t *root = json_members_parse(body, len, &e);
	struct json_members m;
	bool public;

	if (v == NULL || root == NULL) {
		reply_error(r, &e);
		json_decref(root);
		return;
	}
	public = template_row(v)->public;
	json_members_begin(&m, root, "", &e);
	json_members_bool(&m, "public", &public);
	if (json_members_end(&m) < 0 ||
	    templates_set_public(r->core, v, public, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		api_template_reply(r, 200, v);
	json_decref(root);
}

void api_template_change(struct request *r)
{
	request_body(r, on_change_body);
}

/* ---- templates as clients see them
 *
 * A template as JSON. */

/* The layers of the stack, and the places at which a cell has them. */
static void show_root(struct json *j, const struct core *c, const struct store_template *t)
{
	const struct core_host *host = &core_options(c)->host;

	json_open(j, "root", '{');
	json_text(j, "kind", template_kind_name(t->kind));
	json_open(j, "layers", '[');
	for (const char *line = t->layers; *line != '\0';) {
		size_t n = strcspn(line, "\n");

		json_bytes(j, NULL, line, n);
		line += n + (line[n] == '\n');
	}
	json_close(j, ']');
	json_close(j, '}');
	/* Where each layer is in a cell. */
	json_open(j, "layers", '[');
	for (uint32_t i = 0; t->kind == TEMPLATE_HOST && i < host->nlayers; i++)
		json_text(j, NULL, host->layers[i].at);
	if (t->kind != TEMPLATE_HOST)
		json_text(j, NULL, "/");
	json_close(j, ']');
}

/* The store keeps "NAME=value" with a NUL behind each. */
static void show_env(struct json *j, const struct store_template *t)
{
	const char *at = t->env;
	char name[256];

	json_open(j, "env", '{');
	for (size_t left = t->env_len; left > 0;) {
		size_t n = strlen(at) + 1, key = strcspn(at, "=");

		if (key < sizeof(name) && at[key] == '=') {
			(void)snprintf(name, sizeof(name), "%.*s", (int)key, at);
			json_text(j, name, at + key + 1);
		}
		at += n;
		left -= n < left ? n : left;
	}
	json_close(j, '}');
}

/* An empty text of the store is null for clients. */
static const char *or_null(const char *text)
{
	return text[0] == '\0' ? NULL : text;
}

static void show_use(struct json *j, const struct template_version *v)
{
	struct core_metrics_pool pool;

	template_pool(v, &pool);
	json_uint(j, "sessions", template_sessions(v));
	json_open(j, "pool", '{');
	json_uint(j, "size", pool.size);
	json_uint(j, "ready", pool.ready);
	json_uint(j, "hits", pool.hits);
	json_uint(j, "misses", pool.misses);
	json_close(j, '}');
}

/* The default tag is a flag of the version, the other tags are rows. */
static void show_tags(struct json *j, const struct template_version *v)
{
	const struct store_template_tag *tags;
	size_t n = template_tags(v, &tags);

	json_open(j, "tags", '[');
	if (template_row(v)->current)
		json_text(j, NULL, STORE_TAG_DEFAULT);
	for (size_t i = 0; i < n; i++)
		json_text(j, NULL, tags[i].tag);
	json_close(j, ']');
}

/* How much it is used is for the operator: tenants do not see each other's sessions. */
static void template_view_write(struct json *j, const struct core *c,
				const struct template_version *v, bool is_operator, bool in_list)
{
	const struct store_template *t = template_row(v);

	json_open(j, NULL, '{');
	json_text(j, "name", t->name);
	json_text(j, "id", t->id);
	json_text(j, "template_id", or_null(t->template_id));
	json_uint(j, "version", t->version);
	json_bool(j, "current", t->current);
	json_text(j, "owner", or_null(t->tenant));
	json_bool(j, "public", t->public || t->tenant[0] == '\0');
	show_tags(j, v);
	json_uint(j, "bytes", t->bytes);
	json_text(j, "level", cell_level_of(t->level)->name);
	show_root(j, c, t);
	json_view_mounts(j, t->mounts);
	if (in_list)
		json_none(j, "env");
	else
		show_env(j, t);
	json_text(j, "user", or_null(t->user));
	json_text(j, "workdir", or_null(t->workdir));
	json_text(j, "start_command", or_null(t->start_command));
	json_text(j, "ready_command", or_null(t->ready_command));
	json_bool(j, "start_restart", t->start_restart);
	json_bool(j, "interpreter", t->interpreter);
	json_raw(j, "offered_command", t->offered_command[0] == '\0' ? "null" : t->offered_command);
	json_view_lines(j, "provenance", t->provenance);
	json_view_time(j, "created_at", t->created_ms);
	if (is_operator) {
		show_use(j, v);
	} else {
		json_none(j, "sessions");
		json_none(j, "pool");
	}
	json_close(j, '}');
}

static void template_view(struct json *j, const struct core *c, const struct template_version *v,
			  bool is_operator)
{
	template_view_write(j, c, v, is_operator, false);
}

/* Write an object. is_operator: with how much it is used, which tenants do not see of others. In a
 * list without the environment, which may have 256 KiB: of others' public templates, too. */
static void template_view_in_list(struct json *j, const struct core *c,
				  const struct template_version *v, bool is_operator)
{
	template_view_write(j, c, v, is_operator, true);
}

/* ---- list, add, delete
 *
 * Adding takes one of three forms: an archive, directories of the machine, or another template's
 * layers. api_templates_add() chooses by the Content-Type, on_add_body() by the body. */

/* Bounds of a template's JSON and of a page. */
#define TEMPLATE_JSON_REST (64U << 10) /* of a template: its tags, numbers and names of members */
#define PAGE_MAX 1000
#define PAGE_BYTES (64U << 10) /* a page ends with the template that comes to this: one turn */

/* A page. It ends before the answer would be too large, however large the templates of others are.
 */
struct templates_list {
	struct json j;
	const struct core *core;
	bool is_operator;
	char after[STORE_ID_MAX]; /* the last version of the page before. "": none */
	bool begun;		  /* that one was seen */
	uint64_t n, limit;
	char last[STORE_ID_MAX];
	bool more;
};

/* templates_each() has no way to stop, so the rest is skipped. */
static void on_version(const struct template_version *v, void *arg)
{
	const char *id = template_row(v)->id;
	struct templates_list *l = arg;

	if (!l->begun) {
		l->begun = strcmp(id, l->after) == 0;
		return;
	}
	l->more = l->more || l->n == l->limit || l->j.len > PAGE_BYTES;
	if (l->more)
		return;
	template_view_in_list(&l->j, l->core, v, l->is_operator);
	str_copy(l->last, id);
	l->n++;
}

void api_templates_list(struct request *r)
{
	struct templates_list l = { .core = r->core,
				    .is_operator = auth_is_operator(r),
				    .limit = PAGE_MAX };
	struct err e = { 0 };

	if (request_number(r, "limit", 1, PAGE_MAX, &l.limit, &e) < 0 ||
	    request_text(r, "after", l.after, sizeof(l.after), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	l.begun = l.after[0] == '\0';
	json_init_heap(&l.j, REPLY_JSON_MAX);
	json_open(&l.j, NULL, '{');
	json_open(&l.j, "templates", '[');
	templates_each(r->core, l.is_operator ? NULL : r->tenant, on_version, &l);
	json_close(&l.j, ']');
	json_text(&l.j, "next", l.more ? l.last : NULL);
	json_close(&l.j, '}');
	if (l.begun) {
		reply_json(r, 200, &l.j);
		return;
	}
	json_release(&l.j);
	IGNORED(err_set(&e, ERR_INVALID,
			"after: there is no such version of a template any more; begin again"),
		"answered");
	reply_error(r, &e);
}

void api_template_reply(struct request *r, int status, const struct template_version *v)
{
	struct json j;

	/* A byte of a text comes to six at most, and its texts have bounds of their own. */
	json_init_heap(&j, TEMPLATE_JSON_REST + 6 * store_template_bytes(template_row(v)));
	template_view(&j, r->core, v, auth_is_operator(r));
	reply_json(r, status, &j);
}

/* Looked up again: the template may have been removed since the request began. */
static void reply_found(struct request *r, int status)
{
	const struct template_version *v = templates_find(r->core, r->tenant, r->id);

	struct err e;

	if (v != NULL)
		api_template_reply(r, status, v);
	else if (templates_missing(r->core, r->tenant, r->id, &e) < 0)
		reply_error(r, &e);
}

void api_templates_get(struct request *r)
{
	reply_found(r, 200);
}

/* templates_add() has ended. */
static void on_added(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		reply_found(r, 201);
}

/* The layers of another template, with commands of its own. */
static void api_templates_derive(struct request *r, struct spec_template *spec)
{
	const struct template_version *v = templates_find(r->core, r->tenant, spec->from);
	struct err e = { 0 };

	if (v == NULL)
		IGNORED(templates_missing(r->core, r->tenant, spec->from, &e), "answered");
	else if (!spec->level_given)
		spec->row.level = template_row(v)->level;
	if (v != NULL)
		v = templates_derive(r->core, r->tenant, v, &spec->row, request_actor(r), &e);
	if (v == NULL)
		reply_error(r, &e);
	else
		template_reply_made(r, v);
}

/* Directories of the machine are for the operator, layers of another template for all. */
static void on_add_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct spec_template spec;
	struct err e = { 0 };
	int adding = spec_template_read(body, len, core_options(r->core)->template_dir, &spec, &e);

	if (adding == 0 && spec.from[0] != '\0') {
		api_templates_derive(r, &spec);
		spec_template_release(&spec);
		return;
	}
	if (adding == 0)
		adding = auth_check_operator(r, &e);
	r->wait = (struct completion){ .on_done = on_added, .arg = r };
	str_copy(r->id, spec.row.name);
	if (adding == 0)
		adding = templates_add(r->core, &spec.row, request_actor(r), &r->wait, &e);
	spec_template_release(&spec);
	if (adding < 0)
		reply_error(r, &e);
}

void api_templates_add(struct request *r)
{
	struct err e = { 0 };

	if (template_is_archive(r)) {
		template_import(r);
		return;
	}
	if (auth_check_unlimited(r, &e) < 0)
		reply_error(r, &e);
	else
		request_long_body(r, on_add_body);
}

void api_templates_delete(struct request *r)
{
	struct err e = { 0 };
	struct template_version *v = template_own(r, &e);

	if (v == NULL || build_remove_template(r->core, template_row(v)->template_id, v,
					       request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
