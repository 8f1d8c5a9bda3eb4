/* templates.c - see templates.h. */
#include "daemon/template/templates.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/cells/pool.h"
#include "daemon/node/core_metrics.h"
#include "daemon/session/session.h"
#include "daemon/store/store_build.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_name.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/err_missing.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

const struct store_template *session_template(const struct session *s)
{
	return s->template == NULL ? NULL : &s->template->row;
}

const struct store_template *template_row(const struct template_version *v)
{
	return &v->row;
}

bool template_has_memory(const struct template_version *v)
{
	return v->row.kind == TEMPLATE_SNAPSHOT &&
	       cell_level_can(cell_level_of(v->row.level), CELL_CAN_KEEP_MEMORY);
}

unsigned template_sessions(const struct template_version *v)
{
	return v->sessions;
}

const char *template_kind_name(uint32_t kind)
{
	static const char *const names[TEMPLATE_KINDS] = { "host", "layers", "stack", "snapshot" };

	return kind < TEMPLATE_KINDS ? names[kind] : "unknown";
}

bool templates_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	return n > 0 && n < STORE_NAME_MAX && name[n] == '\0' && strchr("._-", name[0]) == NULL;
}

bool templates_is_alias(const char *name)
{
	return strcmp(name, "base") == 0 || strcmp(name, "mcp-gateway") == 0;
}

bool templates_is_reserved(const char *name)
{
	return templates_is_alias(name) || strcmp(name, TEMPLATES_HOST) == 0 ||
	       strcmp(name, TEMPLATES_INTERPRETER) == 0;
}

/* ---- finding */

static bool is_of(const struct template_version *v, const char *tenant, const char *name)
{
	return strcmp(v->row.tenant, tenant) == 0 && strcmp(v->row.name, name) == 0;
}

struct template_version *templates_of(const struct core *c, const char *tenant, const char *name,
				      const char *tag)
{
	struct template_version *v = c->templates;

	while (v != NULL && !(is_of(v, tenant, name) && template_has_tag(v, tag)))
		v = v->next;
	return v;
}

struct template_version *templates_by_template_id(const struct core *c, const char *id,
						  const char *tag)
{
	struct template_version *v = c->templates;

	while (v != NULL && !(strcmp(v->row.template_id, id) == 0 && template_has_tag(v, tag)))
		v = v->next;
	return v;
}

bool template_is_own(const struct core *c, const struct template_version *v, const struct tenant *t)
{
	return strcmp(v->row.tenant, t->row.id) == 0 ||
	       (v->row.tenant[0] == '\0' && t == tenant_operator(c));
}

bool template_is_usable(const struct template_version *v, const struct tenant *t)
{
	return v->row.tenant[0] == '\0' || (v->row.public && !template_has_memory(v)) ||
	       (t != NULL && strcmp(v->row.tenant, t->row.id) == 0);
}

/* The tenant of a namespace: its name or its id. */
static const struct tenant *find_space(const struct core *c, const char *space)
{
	const struct tenant *t = c->tenants;

	while (t != NULL && (t->row.disabled || (strcmp(t->row.id, space) != 0 &&
						 strcasecmp(t->row.name, space) != 0)))
		t = t->next;
	return t;
}

/* An own template wins over the operator's with the same name. A namespace means one owner only. */
static struct template_version *find_parts(const struct core *c, const struct tenant *t,
					   const struct template_name *n)
{
	const struct tenant *owner = t;
	struct template_version *v = NULL;

	if (n->space[0] != '\0') {
		owner = find_space(c, n->space);
		if (owner == NULL)
			return NULL;
	}
	if (owner != NULL)
		v = templates_of(c, owner->row.id, n->name, n->tag);
	if (v == NULL && (n->space[0] == '\0' || owner == tenant_operator(c)))
		v = templates_of(c, "", n->name, n->tag);
	if (v == NULL && n->space[0] == '\0')
		v = templates_by_template_id(c, n->name, n->tag);
	return v != NULL && template_is_usable(v, t) ? v : NULL;
}

struct template_version *templates_find(const struct core *c, const struct tenant *t,
					const char *name)
{
	struct template_name parts;
	struct err e;

	return template_name_read(name, &parts, &e) < 0 ? NULL : find_parts(c, t, &parts);
}

/* One with any tag. The tenant's own comes first. */
static struct template_version *find_tagged(const struct core *c, const struct tenant *t,
					    const struct template_name *n)
{
	struct template_version *found = NULL;

	for (struct template_version *v = c->templates; v != NULL; v = v->next) {
		if (v->ntags == 0 || !template_is_usable(v, t))
			continue;
		if (t != NULL && is_of(v, t->row.id, n->name))
			return v;
		if (found == NULL &&
		    (is_of(v, "", n->name) || strcmp(v->row.template_id, n->name) == 0))
			found = v;
	}
	return found;
}

struct template_version *templates_find_any(const struct core *c, const struct tenant *t,
					    const char *name)
{
	struct template_version *v;
	struct template_name n;
	struct err e;

	if (template_name_read(name, &n, &e) < 0)
		return NULL;
	v = find_parts(c, t, &n);
	return v != NULL || n.space[0] != '\0' || n.tag[0] != '\0' ? v : find_tagged(c, t, &n);
}

/* The message names a tag that exists, or the command that gets an image. */
int templates_missing(const struct core *c, const struct tenant *t, const char *name, struct err *e)
{
	const struct template_version *v = NULL;
	struct template_name n;

	if (template_name_read(name, &n, e) == 0 && n.space[0] == '\0')
		v = find_tagged(c, t, &n);
	if (v == NULL && strpbrk(name, ":/") != NULL) /* as names of images have */
		return err_set(
			e, ERR_NOT_FOUND,
			"no such template '%.60s'; `cordon template pull %.60s` gets an image",
			name, name);
	if (v == NULL)
		return err_missing(e, "template", name);
	return err_set(e, ERR_NOT_FOUND, "no such template '%.60s'; there is %s:%s", name, n.name,
		       v->tags[0].tag);
}

struct template_version *templates_by_id(const struct core *c, const char *id)
{
	struct template_version *v = c->templates;

	while (v != NULL && strcmp(v->row.id, id) != 0)
		v = v->next;
	return v;
}

/* A walk over the list for a tenant. The list is in the order of owners and names, and the
 * operator's come first: `own` is at the tenant's versions of the same name or behind it. */
struct template_walk {
	const struct tenant *t;
	const struct template_version *own;
	const struct template_version *last; /* of the operator's: the last one read */
	bool hidden;			     /* that one */
};

static const struct template_version *first_of(const struct core *c, const char *tenant)
{
	const struct template_version *v = c->templates;

	while (v != NULL && strcmp(v->row.tenant, tenant) != 0)
		v = v->next;
	return v;
}

/* Has the tenant a current template of that name? One of the operator's is not listed then: the
 * name means the own one. */
static bool is_hidden(struct template_walk *w, const struct template_version *v)
{
	const struct template_version *own = w->own;
	const char *id = w->t->row.id;

	if (w->last != NULL && strcmp(w->last->row.name, v->row.name) == 0)
		return w->hidden;
	w->last = v;
	while (own != NULL && strcmp(own->row.tenant, id) == 0 &&
	       strcmp(own->row.name, v->row.name) < 0)
		own = own->next;
	w->own = own;
	while (own != NULL && is_of(own, id, v->row.name) && !own->row.current)
		own = own->next;
	w->hidden = own != NULL && is_of(own, id, v->row.name);
	return w->hidden;
}

/* t NULL: everything. Snapshots have lists of their own (snapshot.h). */
static bool is_listed(struct template_walk *w, const struct template_version *v)
{
	if (w->t == NULL)
		return true;
	if (v->row.kind == TEMPLATE_SNAPSHOT || (!v->row.current && v->ntags == 0) ||
	    !template_is_usable(v, w->t))
		return false;
	return v->row.tenant[0] != '\0' || !is_hidden(w, v);
}

static struct template_walk walk_begin(const struct core *c, const struct tenant *t)
{
	return (struct template_walk){ .t = t, .own = t == NULL ? NULL : first_of(c, t->row.id) };
}

void templates_each(const struct core *c, const struct tenant *t,
		    void (*see)(const struct template_version *v, void *arg), void *arg)
{
	struct template_walk w = walk_begin(c, t);

	/* alone: see() looks at a version, and frees none */
	LIST_WALK(const struct template_version, v, c->templates)
		if (is_listed(&w, v))
			see(v, arg);
}

/* The list's order is owner, then name. Pages continue behind the last entry of the page before. */
static bool is_behind(const struct template_version *v, const char *owner, const char *name)
{
	int order = strcmp(v->row.tenant, owner);

	return order > 0 || (order == 0 && strcmp(v->row.name, name) > 0);
}

bool templates_each_behind(const struct core *c, const struct tenant *t, const char *owner,
			   const char *name,
			   bool (*see)(const struct template_version *v, void *arg), void *arg)
{
	struct template_walk w = walk_begin(c, t);

	/* alone: as in templates_each() */
	LIST_WALK(const struct template_version, v, c->templates)
		if (is_behind(v, owner, name) && is_listed(&w, v) && !see(v, arg))
			return false;
	return true;
}

/* A retired version counts for its payer. With the table full, a tenant still has a small share. */
int templates_check_room(const struct core *c, const struct store_template *row, struct err *e)
{
	size_t bytes = store_template_bytes(row);
	unsigned n = c->templates_adding, own = 0;

	for (const struct template_version *v = c->templates; v != NULL; v = v->next) {
		n++;
		if (strcmp(v->row.payer[0] != '\0' ? v->row.payer : v->row.tenant, row->tenant) !=
		    0)
			continue;
		own++;
		bytes += v->bytes;
	}
	if (own >= TEMPLATES_TENANT_MAX || (n >= TEMPLATES_MAX && own >= TEMPLATES_SHARE))
		return err_set_reason(e, REASON_QUOTA_TEMPLATES,
				      "there are %u versions of templates, %u of this tenant, the "
				      "most there can be: remove some, or sessions of removed "
				      "ones",
				      n, own);
	if (bytes > TEMPLATES_TENANT_BYTES)
		return err_set_reason(e, REASON_QUOTA_TEMPLATES,
				      "environments, commands and other texts of a tenant's "
				      "templates may have %u MiB together: remove some",
				      TEMPLATES_TENANT_BYTES >> 20);
	return 0;
}

/* ---- the pools of a version: template_pools.c makes them */

void template_close_pools(struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL)
			pool_close(v->pools[i]->pool);
}

/* True if no cell is being made for any of its pools. */
bool template_pools_are_idle(const struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL && !pool_is_idle(v->pools[i]->pool))
			return false;
	return true;
}

/* In a running server the pools are idle before: a cell being made belongs to one. */
void template_free_pools(struct template_version *v)
{
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		if (v->pools[i] != NULL) {
			pool_free(v->pools[i]->pool);
			free(v->pools[i]);
		}
}

static void add_numbers(struct core_metrics_pool *sum, const struct core_metrics_pool *one)
{
	sum->size += one->size;
	sum->ready += one->ready;
	sum->hits += one->hits;
	sum->misses += one->misses;
}

/* Hits and misses of freed versions are part of the sums. */
void templates_pools(const struct core *c, struct core_metrics_pool *ret)
{
	*ret = (struct core_metrics_pool){ 0 };
	for (const struct template_version *v = c->templates; v != NULL; v = v->next) {
		struct core_metrics_pool one;

		template_pool(v, &one);
		add_numbers(ret, &one);
	}
	ret->hits += c->pool_hits;
	ret->misses += c->pool_misses;
}

/* The sums of one version over all levels. */
void template_pool(const struct template_version *v, struct core_metrics_pool *ret)
{
	*ret = (struct core_metrics_pool){ 0 };
	for (unsigned i = 0; i < CELL_LEVELS; i++) {
		struct core_metrics_pool one;

		if (v->pools[i] == NULL)
			continue;
		pool_numbers(v->pools[i]->pool, &one.size, &one.ready, &one.hits, &one.misses);
		add_numbers(ret, &one);
	}
}

/* ---- versions in memory */

/* The pool of a default template is made with it. NULL: no memory for the texts. */
struct template_version *template_new(struct core *c, const struct store_template *row,
				      struct err *e)
{
	struct template_version *v = calloc(1, sizeof(*v));

	assert(v != NULL);
	v->core = c;
	v->row = *row;
	if (store_template_own(&v->row, e) < 0) {
		free(v);
		return NULL;
	}
	v->bytes = store_template_bytes(&v->row);
	if (c->on_new_template != NULL)
		c->on_new_template(v);
	return v;
}

/* The row in the store stays. Numbers of its pools stay in the node's sums. */
void template_free(struct template_version *v)
{
	struct core_metrics_pool had;

	template_pool(v, &had);
	v->core->pool_hits += had.hits;
	v->core->pool_misses += had.misses;
	LIST_REMOVE(v);
	template_free_pools(v);
	free(v->tags);
	store_template_release(&v->row);
	free(v);
}

/* A version with a tag keeps its pools: new sessions may ask for it by the tag. */
void template_retire(struct template_version *v)
{
	v->row.current = false;
	v->payer_due = true;
	if (v->ntags == 0)
		template_close_pools(v);
}

static int template_compare(const struct store_template *a, const struct store_template *b)
{
	int order = strcmp(a->tenant, b->tenant);

	if (order == 0)
		order = strcmp(a->name, b->name);
	if (order == 0)
		order = a->version < b->version ? -1 : a->version > b->version;
	return order;
}

/* Only one of a name is current. */
static void retire_others(struct template_version *v)
{
	/* alone: a retired version is freed by templates_collect() */
	LIST_WALK(struct template_version, x, v->core->templates)
		if (x != v && x->row.current && is_of(x, v->row.tenant, v->row.name))
			template_retire(x);
}

void template_make_current(struct template_version *v)
{
	retire_others(v);
	v->row.current = true;
}

/* The order of the list is a part of its contract: is_hidden() and templates_adapt() rely on it. */
void template_list_in(struct template_version *v)
{
	struct template_version **at;

	if (v->row.current)
		retire_others(v);
	at = &v->core->templates;
	while (*at != NULL && template_compare(&(*at)->row, &v->row) < 0)
		at = &(*at)->next;
	LIST_PUSH(at, v);
}

struct template_version *template_use(struct template_version *v)
{
	if (v != NULL)
		v->sessions++;
	return v;
}

void template_unuse(struct template_version *v)
{
	if (v == NULL)
		return;
	v->sessions--;
	v->payer_due = true; /* it may have been the last of its tenant */
}

/* The templates of a removed tenant go with it. *of is the owner last looked up: the list is by
 * owners. */
static void retire_of_removed(struct core *c, struct template_version *v, const struct tenant **of)
{
	struct err e;

	if (*of == NULL || strcmp((*of)->row.id, v->row.tenant) != 0)
		*of = tenant_find(c, v->row.tenant);
	if (*of != NULL && !(*of)->row.disabled)
		return;
	if (store_template_tag_clear(c->store, v->row.template_id, &e) < 0 ||
	    store_template_retire(c->store, v->row.id, &e) < 0) {
		log_warn("template could not be removed", "name=%s error=%s", v->row.name, e.msg);
		return;
	}
	v->ntags = 0;
	template_retire(v);
}

/* Its layers lose a use with it. */
static int delete_row(struct core *c, struct template_version *v, struct err *e)
{
	bool own;

	if (store_join(c->store, &own, e) < 0 ||
	    store_layer_hand_over(c->store, v->row.id, e) < 0 ||
	    store_template_delete(c->store, v->row.id, e) < 0 ||
	    store_layer_unuse(c->store, STORE_LAYER_OF_TEMPLATE, v->row.id, e) < 0 ||
	    store_layer_unuse(c->store, STORE_LAYER_GUEST_OF_TEMPLATE, v->row.id, e) < 0 ||
	    store_layer_unuse(c->store, STORE_LAYER_GUEST_OF_SNAPSHOT, v->row.id, e) < 0)
		return -1;
	return store_leave(c->store, own, e);
}

/* ---- for whom a version counts
 *
 * A version that no new session can get is kept by its sessions. If its tenant has none of them, it
 * counts for the tenant of the oldest, with the layers that nothing else of its tenant uses. */

#define PAYERS_PIECE 64 /* in one turn. The others wait for the next second */

static bool is_retired(const struct template_version *v)
{
	return !v->row.current && v->ntags == 0 && v->row.tenant[0] != '\0';
}

/* Find for each due version if its tenant has a session of it, and the oldest session of another.
 */
static void see_session(struct session *s, void *arg)
{
	struct template_version *v = s->template;

	if (v == NULL || !v->payer_due)
		return;
	if (strcmp(s->row.tenant, v->row.tenant) == 0)
		v->has_own = true;
	else if (v->oldest == NULL || s->row.created_ms < v->oldest->row.created_ms)
		v->oldest = s;
}

static void set_payer(struct template_version *v)
{
	const char *payer = v->has_own || v->oldest == NULL ? "" : v->oldest->row.tenant;
	struct err e;

	if (strcmp(v->row.payer, payer) != 0) {
		if (store_layer_pay(v->core->store, v->row.id, payer, &e) < 0) {
			log_warn("a template's version counts for its tenant", "name=%s error=%s",
				 v->row.name, e.msg);
			return; /* tried again in a second */
		}
		str_copy(v->row.payer, payer);
	}
	v->payer_due = false;
}

/* One walk over all sessions serves all due versions. */
static void find_payers(struct core *c)
{
	unsigned due = 0;

	for (struct template_version *v = c->templates; v != NULL; v = v->next) {
		v->payer_due = v->payer_due && is_retired(v) && v->sessions > 0;
		v->has_own = false;
		v->oldest = NULL;
		due += v->payer_due;
	}
	if (due == 0)
		return;
	session_each(c, NULL, see_session, NULL);
	due = 0;
	for (struct template_version *v = c->templates; v != NULL && due < PAYERS_PIECE;
	     v = v->next)
		if (v->payer_due && ++due > 0)
			set_payer(v);
}

/* Free versions that nothing uses any more. Not before all sessions of an earlier daemon are known.
 */
void templates_collect(struct core *c)
{
	const struct tenant *owner = NULL;
	bool deleted = false;
	struct err e;

	if (!c->recovered)
		return;
	find_payers(c);
	/* alone: only this loop frees versions */
	LIST_WALK_ENDING(struct template_version, v, c->templates) {
		if ((v->row.current || v->ntags > 0) && v->row.tenant[0] != '\0')
			retire_of_removed(c, v, &owner);
		if (v->row.current || v->ntags > 0 || v->sessions > 0 ||
		    !template_pools_are_idle(v))
			continue;
		if (delete_row(c, v, &e) < 0 && e.code != ERR_NOT_FOUND) {
			log_warn("template version could not be deleted", "name=%s error=%s",
				 v->row.name, e.msg);
			return; /* tried again in a second */
		}
		log_info("template version deleted", "name=%s version=%llu", v->row.name,
			 (unsigned long long)v->row.version);
		template_free(v);
		deleted = true;
	}
	if (deleted) /* and perhaps the last use of a layer */
		layers_collect(&c->layers, false, NULL);
}

/* ---- the start and the end */

struct loading {
	struct core *core;
	struct err *e;
	int result;
};

static int on_row(const struct store_template *row, void *cookie)
{
	struct loading *l = cookie;
	struct template_version *v = template_new(l->core, row, l->e);

	if (v == NULL) {
		l->result = -1;
		return 1;
	}
	template_list_in(v);
	return 0;
}

int templates_load(struct core *c, struct err *e)
{
	struct loading l = { .core = c, .e = e };

	if (store_template_each(c->store, on_row, &l, e) < 0 || l.result < 0 ||
	    templates_load_tags(c, e) < 0)
		return err_wrap(e, "templates");
	/* alone: a retired version is freed by templates_collect() */
	LIST_WALK(struct template_version, v, c->templates)
		if (!v->row.current)
			template_retire(v);
	return 0;
}

void templates_free(struct core *c)
{
	while (c->templates != NULL)
		template_free(c->templates);
}

/* ---- removal */

/* The versions stay in the store until their last session has ended. They are not current any more.
 */
static int write_removal(struct core *c, const struct template_version *v,
			 const struct store_actor *who, struct err *e)
{
	const char *tenant = v->row.tenant[0] == '\0' ? tenant_operator(c)->row.id : v->row.tenant;

	if (store_template_tag_clear(c->store, v->row.template_id, e) < 0 ||
	    store_build_delete_template(c->store, v->row.template_id, e) < 0)
		return -1;
	for (const struct template_version *x = c->templates; x != NULL; x = x->next)
		if (x->row.current && is_of(x, v->row.tenant, v->row.name) &&
		    store_template_retire(c->store, x->row.id, e) < 0)
			return -1;
	return event_log_append(
		c, who, tenant, v->row.source, "",
		v->row.kind == TEMPLATE_SNAPSHOT ? "snapshot.removed" : "template.removed", e,
		"name\t%s\nversion\t%llu\n", v->row.name, (unsigned long long)v->row.version);
}

int templates_check_removal(const struct core *c, const struct template_version *v, struct err *e)
{
	if (v->row.tenant[0] == '\0' &&
	    (v->row.kind == TEMPLATE_HOST || strcmp(v->row.name, c->o.config->template) == 0))
		return err_set(e, ERR_CONFLICT, "template %.60s cannot be removed: %s", v->row.name,
			       v->row.kind == TEMPLATE_HOST
				       ? "it is a part of the server"
				       : "it is the one of sessions that name none");
	return 0;
}

/* v may be freed by this, so its texts are copied first. */
int templates_remove(struct core *c, struct template_version *v, const struct store_actor *who,
		     struct err *e)
{
	char tenant[STORE_ID_MAX], name[STORE_NAME_MAX];

	memcpy(tenant, v->row.tenant, sizeof(tenant));
	memcpy(name, v->row.name, sizeof(name));
	if (templates_check_removal(c, v, e) < 0)
		return -1;
	if (store_begin(c->store, e) < 0 || write_removal(c, v, who, e) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return err_wrap(e, "template %.60s", name);
	}
	/* alone: a retired version is freed by templates_collect(), below */
	LIST_WALK(struct template_version, x, c->templates)
		if (is_of(x, tenant, name)) {
			x->ntags = 0;
			template_retire(x);
		}
	templates_collect(c);
	return 0;
}
