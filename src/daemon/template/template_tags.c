/* template_tags.c - tags of versions, and versions that get tags when they are added: what images,
 * snapshots and builds make.
 *
 * The tag "default" is not in the lists here: it means the current version. A version with a tag is
 * kept as a current one is. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_name.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/list.h"
#include "lib/base/rand.h"

static bool is_default(const char *tag)
{
	return strcmp(tag, STORE_TAG_DEFAULT) == 0;
}

size_t template_tags(const struct template_version *v, const struct store_template_tag **ret)
{
	*ret = v->tags;
	return v->ntags;
}

bool template_has_tag(const struct template_version *v, const char *tag)
{
	for (size_t i = 0; i < v->ntags; i++)
		if (strcmp(v->tags[i].tag, tag) == 0)
			return true;
	return tag[0] == '\0' || is_default(tag) ? v->row.current : false;
}

/* ---- lists in memory */

/* Did it have the tag? */
static bool take_tag(struct template_version *v, const char *tag)
{
	for (size_t i = 0; i < v->ntags; i++) {
		if (strcmp(v->tags[i].tag, tag) != 0)
			continue;
		v->ntags--;
		memmove(&v->tags[i], &v->tags[i + 1], (v->ntags - i) * sizeof(v->tags[0]));
		return true;
	}
	return false;
}

/* A version without tags that is not current either gets no session any more. */
static void drop_tag(struct template_version *v, const char *tag)
{
	if (take_tag(v, tag) && !v->row.current)
		template_retire(v);
}

static void add_tag(struct template_version *v, const struct store_template_tag *tag)
{
	v->tags = realloc(v->tags, (v->ntags + 1) * sizeof(v->tags[0]));
	assert(v->tags != NULL);
	v->tags[v->ntags++] = *tag;
}

void template_tag_list_in(struct template_version *v, const struct store_template_tag *tag)
{
	/* alone: a retired version is freed by templates_collect() */
	LIST_WALK(struct template_version, x, v->core->templates)
		if (x != v && strcmp(x->row.template_id, v->row.template_id) == 0)
			drop_tag(x, tag->tag);
	take_tag(v, tag->tag); /* it is not retired in between */
	add_tag(v, tag);
}

/* All versions in the order of their ids: there are thousands, each may have many tags, and a start
 * waits for all of them. */
struct tag_loading {
	struct template_version **versions; /* owned */
	size_t n;
};

static int compare_versions(const void *a, const void *b)
{
	const struct template_version *const *x = a, *const *y = b;

	return strcmp((*x)->row.id, (*y)->row.id);
}

static int compare_with_version(const void *id, const void *version)
{
	const struct template_version *const *v = version;

	return strcmp(id, (*v)->row.id);
}

/* In the store a tag means one version of a template: none is to be dropped. */
static int on_tag(const struct store_template_tag *row, void *cookie)
{
	const struct tag_loading *l = cookie;
	struct template_version **found = bsearch(row->version, l->versions, l->n,
						  sizeof(l->versions[0]), compare_with_version);

	if (found != NULL)
		add_tag(*found, row);
	return 0;
}

/* At the start, when all versions are in the list. */
int templates_load_tags(struct core *c, struct err *e)
{
	struct tag_loading l = { 0 };
	int result;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		l.n++;
	if (l.n == 0)
		return 0;
	l.versions = calloc(l.n, sizeof(struct template_version *));
	assert(l.versions != NULL);
	l.n = 0;
	for (struct template_version *v = c->templates; v != NULL; v = v->next)
		l.versions[l.n++] = v;
	qsort(l.versions, l.n, sizeof(struct template_version *), compare_versions);
	result = store_template_tag_each(c->store, on_tag, &l, e);
	free(l.versions);
	return result;
}

static struct store_template_tag a_tag(const struct template_version *v, const char *tag)
{
	struct store_template_tag t = { .created_ms = core_now_ms() };

	memcpy(t.template_id, v->row.template_id, sizeof(t.template_id));
	memcpy(t.version, v->row.id, sizeof(t.version));
	memcpy(t.tag, tag, strlen(tag) + 1);
	return t;
}

static int check_tags(const char *const *tags, size_t ntags, struct err *e)
{
	if (ntags > TEMPLATES_TAGS_MAX)
		return err_set(e, ERR_LIMIT, "tags: more than %d", TEMPLATES_TAGS_MAX);
	for (size_t i = 0; i < ntags; i++)
		if (!template_name_is_tag(tags[i]))
			return err_set(e, ERR_INVALID,
				       "Invalid tag: %.60s: must be of a-z, 0-9, '-', '_' and '.'",
				       tags[i]);
	return 0;
}

static bool is_among(const char *tag, const char *const *tags, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(tags[i], tag) == 0)
			return true;
	return false;
}

/* Would the template of that name have too many? A tag that moves to another version of it counts
 * once. */
static int check_number(const struct core *c, const struct store_template *of,
			const char *const *tags, size_t ntags, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < ntags; i++)
		n += !is_default(tags[i]) && !is_among(tags[i], tags, i);
	for (const struct template_version *x = c->templates; x != NULL; x = x->next)
		for (size_t i = 0; i < x->ntags && strcmp(x->row.tenant, of->tenant) == 0 &&
				   strcmp(x->row.name, of->name) == 0;
		     i++)
			n += !is_among(x->tags[i].tag, tags, ntags);
	if (n > TEMPLATES_TAGS_MAX)
		return err_set_reason(e, REASON_QUOTA_TEMPLATES,
				      "template %.60s would have %zu tags; a template has at most "
				      "%d: remove some",
				      of->name, n, TEMPLATES_TAGS_MAX);
	return 0;
}

/* ---- changes */

static int write_tags(struct core *c, const struct template_version *v, const char *const *tags,
		      size_t ntags, struct err *e)
{
	for (size_t i = 0; i < ntags; i++) {
		struct store_template_tag t;

		if (is_default(tags[i])) {
			if (store_template_make_current(c->store, &v->row, e) < 0)
				return -1;
			continue;
		}
		t = a_tag(v, tags[i]);
		if (store_template_tag_set(c->store, &t, e) < 0)
			return -1;
	}
	return 0;
}

static int template_tags_record(struct core *c, const struct template_version *v,
				const struct store_actor *who, const char *what, const char *tag,
				struct err *e)
{
	const char *tenant = v->row.tenant[0] == '\0' ? tenant_operator(c)->row.id : v->row.tenant;

	return event_log_append(c, who, tenant, v->row.source, "", what, e,
				"name\t%s\nversion\t%llu\n?tag\t%s\n", v->row.name,
				(unsigned long long)v->row.version, tag == NULL ? "" : tag);
}

/* The store first, then the lists in memory: after an error both are as before. */
int templates_tag(struct core *c, struct template_version *v, const char *const *tags, size_t ntags,
		  const struct store_actor *who, struct err *e)
{
	if (check_tags(tags, ntags, e) < 0 || check_number(c, &v->row, tags, ntags, e) < 0)
		return -1;
	if (store_begin(c->store, e) < 0)
		return -1;
	if (write_tags(c, v, tags, ntags, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	for (size_t i = 0; i < ntags; i++)
		if (template_tags_record(c, v, who, "template.tagged", tags[i], e) < 0) {
			store_rollback(c->store);
			return -1;
		}
	if (store_commit(c->store, e) < 0)
		return -1;
	for (size_t i = 0; i < ntags; i++) {
		struct store_template_tag t;

		if (is_default(tags[i])) {
			template_make_current(v);
			continue;
		}
		t = a_tag(v, tags[i]);
		template_tag_list_in(v, &t);
	}
	templates_collect(c);
	return 0;
}

/* v may be freed by this, as it may have lost its last tag. */
int templates_untag(struct core *c, struct template_version *v, const char *tag,
		    const struct store_actor *who, struct err *e)
{
	if (is_default(tag))
		return err_set(e, ERR_INVALID, "the tag default cannot be removed");
	if (!template_has_tag(v, tag))
		return err_set(e, ERR_NOT_FOUND, "Template '%.60s' with tag '%.60s' not found",
			       v->row.name, tag);
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_template_tag_delete(c->store, v->row.template_id, tag, e) < 0 ||
	    template_tags_record(c, v, who, "template.untagged", tag, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	drop_tag(v, tag);
	templates_collect(c);
	return 0;
}

static int write_expiry(struct core *c, const struct template_version *v, struct err *e)
{
	for (size_t i = 0; i < v->ntags; i++)
		if (store_template_tag_delete(c->store, v->row.template_id, v->tags[i].tag, e) < 0)
			return -1;
	if (v->row.current && store_template_retire(c->store, v->row.id, e) < 0)
		return -1;
	return template_tags_record(c, v, NULL, "snapshot.expired", NULL, e);
}

/* Tags and the current place go together. v may be freed by this. */
int templates_expire(struct core *c, struct template_version *v, struct err *e)
{
	if (store_begin(c->store, e) < 0)
		return -1;
	if (write_expiry(c, v, e) < 0 || store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	v->ntags = 0;
	template_retire(v);
	templates_collect(c);
	return 0;
}

/* Not with memory: the engine of a session reads the state of devices that another engine wrote,
 * which a guest may have taken over. */
static int check_public(const struct core *c, const struct template_version *v, struct err *e)
{
	for (const struct template_version *x = c->templates; x != NULL; x = x->next)
		if (strcmp(x->row.template_id, v->row.template_id) == 0 && template_has_memory(x))
			return err_set(e, ERR_UNSUPPORTED,
				       "public: a snapshot with memory is for its own tenant only");
	return 0;
}

/* All versions of a template share this property. */
int templates_set_public(struct core *c, struct template_version *v, bool public,
			 const struct store_actor *who, struct err *e)
{
	if (public && check_public(c, v, e) < 0)
		return -1;
	if (v->row.public == public)
		return 0;
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_template_set_public(c->store, v->row.template_id, public, e) < 0 ||
	    template_tags_record(c, v, who, public ? "template.published" : "template.unpublished",
				 NULL, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	for (struct template_version *x = c->templates; x != NULL; x = x->next)
		if (strcmp(x->row.template_id, v->row.template_id) == 0)
			x->row.public = public;
	return 0;
}

/* ---- a version with its tags and layers */

static int write_uses(struct core *c, const struct template_version *v, struct err *e)
{
	struct template_stack stack;

	if (v->row.kind != TEMPLATE_STACK && v->row.kind != TEMPLATE_SNAPSHOT)
		return 0;
	if (template_stack_read(&v->row, &stack, e) < 0)
		return -1;
	return store_layer_use(c->store, STORE_LAYER_OF_TEMPLATE, v->row.id,
			       (const char(*)[STORE_ID_MAX])stack.layers, stack.nlayers, e);
}

/* New layers, the version, its tags and its uses of layers, in the caller's transaction. */
static int write_version(struct core *c, struct template_version *v, const char *const *tags,
			 size_t ntags, const struct template_new_layers *made,
			 const struct store_actor *who, struct err *e)
{
	for (size_t i = 0; made != NULL && i < made->n; i++)
		if (store_layer_insert(c->store, &made->rows[i], e) < 0)
			return -1;
	if (store_template_insert_tagged(c->store, &v->row, tags, ntags, e) < 0 ||
	    write_uses(c, v, e) < 0)
		return -1;
	return template_tags_record(
		c, v, who, v->row.kind == TEMPLATE_SNAPSHOT ? "snapshot.created" : "template.added",
		NULL, e);
}

/* The result of a build, a pull or an import may come after its tenant was removed: its version
 * would be collected as soon as it is listed. */
static int check_tenant(struct core *c, const char *tenant, struct err *e)
{
	const struct tenant *t = tenant_find(c, tenant);

	if (tenant[0] == '\0' || (t != NULL && !t->row.disabled))
		return 0;
	return err_set(e, ERR_CONFLICT, "the tenant was removed");
}

/* The version is current or has its tags when it is returned. */
struct template_version *templates_insert(struct core *c, const struct store_template *row,
					  const char *const *tags, size_t ntags,
					  const struct template_new_layers *made,
					  const struct store_actor *who, struct err *e)
{
	struct store_template copy = *row;
	struct template_version *v;

	if (check_tags(tags, ntags, e) < 0 || check_tenant(c, row->tenant, e) < 0 ||
	    check_number(c, row, tags, ntags, e) < 0 || templates_check_room(c, row, e) < 0)
		return NULL;
	copy.created_ms = core_now_ms();
	copy.payer[0] = '\0'; /* the version it comes from may have one */
	if (copy.id[0] == '\0')
		rand_id("tpl_", copy.id, sizeof(copy.id));
	v = template_new(c, &copy, e);
	if (v == NULL)
		return NULL;
	if (store_begin(c->store, e) < 0 || write_version(c, v, tags, ntags, made, who, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		template_free(v);
		return NULL;
	}
	template_list_in(v);
	for (size_t i = 0; i < ntags; i++)
		if (!is_default(tags[i])) {
			struct store_template_tag t = a_tag(v, tags[i]);

			template_tag_list_in(v, &t);
		}
	template_use(v); /* it is returned, whatever else is not needed any more */
	templates_collect(c);
	template_unuse(v);
	return v;
}
