/* snapshot.c - see snapshot.h. */
#include "daemon/template/snapshot.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/guest/session_memory.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_spec.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/err_missing.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"

#define CODE 20 /* characters of a template_id */

/* ---- names */

/* A name that no template has. */
static void make_code(char ret[STORE_NAME_MAX])
{
	char more[RAND_ID_MAX];

	rand_id("", ret, STORE_NAME_MAX);
	rand_id("", more, sizeof(more));
	(void)snprintf(ret + strlen(ret), STORE_NAME_MAX - strlen(ret), "%.*s",
		       (int)(CODE - strlen(ret)), more);
}

static bool has_name(const struct template_version *v)
{
	return strcmp(v->row.name, v->row.template_id) != 0;
}

/* Its name, if that can be part of an id. */
const char *snapshot_owner(const struct core *c, const struct template_version *v)
{
	const struct tenant *t = tenant_find((struct core *)(uintptr_t)c, v->row.tenant);
	struct template_name n;
	char text[TEMPLATE_NAME_TEXT];
	struct err e;

	if (t == NULL)
		return v->row.tenant;
	(void)snprintf(text, sizeof(text), "%s/x", t->row.name);
	if (template_name_read(text, &n, &e) < 0 || strcmp(n.space, t->row.name) != 0)
		return v->row.tenant;
	return t->row.name;
}

/* The tag by which an id names this version. */
static const char *tag_of(const struct template_version *v)
{
	return v->row.current || v->ntags == 0 ? STORE_TAG_DEFAULT : v->tags[0].tag;
}

void snapshot_name(const struct core *c, const struct template_version *v,
		   char ret[SNAPSHOT_ID_MAX])
{
	ret[0] = '\0';
	if (has_name(v))
		(void)snprintf(ret, SNAPSHOT_ID_MAX, "%s/%s", snapshot_owner(c, v), v->row.name);
}

void snapshot_id(const struct core *c, const struct template_version *v, char ret[SNAPSHOT_ID_MAX])
{
	char name[SNAPSHOT_ID_MAX];

	snapshot_name(c, v, name);
	(void)snprintf(ret, SNAPSHOT_ID_MAX, "%.*s:%s", SNAPSHOT_ID_MAX - STORE_TAG_MAX - 2,
		       name[0] == '\0' ? v->row.template_id : name, tag_of(v));
}

static bool is_owner(const struct tenant *t, const char *space)
{
	return space[0] == '\0' || strcmp(space, t->row.id) == 0 ||
	       strcasecmp(space, t->row.name) == 0;
}

/* ---- finding */

static bool is_snapshot_of(const struct template_version *v, const struct tenant *t)
{
	return v->row.kind == TEMPLATE_SNAPSHOT && strcmp(v->row.tenant, t->row.id) == 0 &&
	       (v->row.current || v->ntags > 0);
}

/* Only the tenant's own. NULL: it does not exist, or was removed. */
struct template_version *snapshot_find(const struct core *c, const struct tenant *t, const char *id)
{
	struct template_version *v = templates_find(c, t, id);

	return v != NULL && is_snapshot_of(v, t) ? v : NULL;
}

/* True if sessions still keep versions of a snapshot that no id finds any more. */
bool snapshot_is_removed(const struct core *c, const struct tenant *t, const char *id)
{
	struct template_name n;
	bool found = false;
	struct err e;

	if (template_name_read(id, &n, &e) < 0)
		return false;
	for (const struct template_version *v = c->templates; v != NULL; v = v->next) {
		if (strcmp(v->row.tenant, t->row.id) != 0 ||
		    (strcmp(v->row.template_id, n.name) != 0 && strcmp(v->row.name, n.name) != 0))
			continue;
		if (v->row.kind != TEMPLATE_SNAPSHOT || v->row.current || v->ntags > 0)
			return false;
		found = true;
	}
	return found;
}

/* ---- lists */

static void list_add(struct snapshot_list *l, const struct template_version *v)
{
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : 2 * l->cap;
		void *more = realloc(l->found, cap * sizeof(const struct template_version *));

		assert(more != NULL);
		l->found = more;
		l->cap = cap;
	}
	l->found[l->n++] = v;
}

/* The newest first. */
static int snapshot_compare(const void *a, const void *b)
{
	const struct store_template *x = &(*(const struct template_version *const *)a)->row;
	const struct store_template *y = &(*(const struct template_version *const *)b)->row;

	if (x->created_ms != y->created_ms)
		return x->created_ms > y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

void snapshot_list_read(const struct core *c, const struct tenant *t, const char *source,
			const char *name, struct snapshot_list *ret)
{
	bool named = name != NULL && name[0] != '\0';
	bool any_tag = named && strchr(name, ':') == NULL;
	struct template_name n = { 0 };
	struct err e;

	if (named && (template_name_read(name, &n, &e) < 0 || !is_owner(t, n.space)))
		return;
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (is_snapshot_of(v, t) &&
		    (source == NULL || source[0] == '\0' || strcmp(v->row.source, source) == 0) &&
		    (!named ||
		     (strcmp(v->row.name, n.name) == 0 && (any_tag || template_has_tag(v, n.tag)))))
			list_add(ret, v);
	if (ret->n > 0)
		qsort(ret->found, ret->n, sizeof(const struct template_version *),
		      snapshot_compare);
}

void snapshot_list_release(struct snapshot_list *l)
{
	free(l->found);
	*l = (struct snapshot_list){ 0 };
}

/* ---- removal */

/* An id with a tag removes that tag only. */
int snapshot_remove(struct core *c, const struct tenant *t, const char *id,
		    const struct store_actor *who, struct err *e)
{
	struct template_version *v = snapshot_find(c, t, id);
	struct template_name n;

	if (v == NULL || template_name_read(id, &n, e) < 0)
		return err_missing(e, "snapshot", id);
	if (n.tag[0] != '\0')
		return templates_untag(c, v, n.tag, who, e);
	return templates_remove(c, v, who, e);
}

/* ---- expiry */

bool snapshot_expire_piece(struct core *c)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	struct template_version *v = c->templates;
	uint64_t now = core_now_ms();
	unsigned long long dropped;
	struct err e;

	while (v != NULL && (v->row.kind != TEMPLATE_SNAPSHOT || v->row.expires_ms == 0 ||
			     v->row.expires_ms > now || (!v->row.current && v->ntags == 0)))
		v = v->next;
	if (v == NULL)
		return false;
	if (templates_expire(c, v, &e) == 0)
		return true;
	if (log_limit(&limit, &dropped))
		log_warn("expired snapshot not removed, tried again in a second",
			 "id=%s error=%s dropped=%llu", v->row.id, e.msg, dropped);
	return false;
}

/* ---- making */

/* Cancel everything in progress, and drop the uses of its layers. */
static void snapshot_release(struct snapshot *p)
{
	session_capture_cancel(&p->capture);
	session_memory_free(&p->memory);
	layer_fold_release(&p->fold);
	if (p->core == NULL)
		return;
	session_capture_release(p->core, &p->capture);
	template_unuse(p->base);
	p->base = NULL;
	p->core = NULL;
}

/* Before the version exists: a version without memory would begin with other files. Uses of an
 * unwritten version are dropped at the next start. */
static int write_memory(struct snapshot *p, const char *version, struct err *e)
{
	char layers[2][STORE_ID_MAX];

	memcpy(layers[0], p->memory->root, sizeof(layers[0]));
	memcpy(layers[1], p->memory->layer, sizeof(layers[1]));
	return store_layer_use(p->core->store, STORE_LAYER_GUEST_OF_SNAPSHOT, version,
			       (const char(*)[STORE_ID_MAX])layers, 2, e);
}

/* A snapshot gets no name that already means a template, the tenant's or the operator's: it would
 * take its place for all keys of the tenant, and needs no key that may change templates. */
static int check_name_is_free(const struct core *c, const char *name, const char *tenant,
			      struct err *e)
{
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (v->row.kind != TEMPLATE_SNAPSHOT && strcmp(v->row.name, name) == 0 &&
		    (v->row.current || v->ntags > 0) &&
		    (v->row.tenant[0] == '\0' || strcmp(v->row.tenant, tenant) == 0))
			return err_set(e, ERR_CONFLICT, "name '%.60s' is that of a template", name);
	return 0;
}

static int snapshot_insert(struct snapshot *p, struct err *e)
{
	struct store_template row = p->base->row;
	struct err ignored;
	char text[TEMPLATE_STACK_TEXT];
	const char *tags[] = { p->name.tag[0] == '\0' ? STORE_TAG_DEFAULT : p->name.tag };

	template_stack_write(&p->stack, text);
	row.id[0] = row.template_id[0] = '\0';
	memcpy(row.tenant, p->tenant, sizeof(row.tenant));
	memcpy(row.name, p->name.name, sizeof(row.name));
	memcpy(row.source, p->source, sizeof(row.source));
	if (p->unnamed)
		memcpy(row.template_id, row.name, CODE + 1);
	row.kind = TEMPLATE_SNAPSHOT;
	row.public = false;
	row.level = p->level;
	row.layers = text;
	row.bytes = p->capture.bytes;
	row.provenance = "";
	row.expires_ms = p->keep_ms == 0 ? 0 : core_now_ms() + p->keep_ms;
	if (p->with_memory) {
		row.memory_bytes = p->memory_bytes;
		row.memory_profile = p->memory_profile;
		row.memory_read_only = p->memory_read_only;
		row.provenance = p->guest;
		row.bytes = p->memory->bytes;
		rand_id("tpl_", row.id, sizeof(row.id));
		if (write_memory(p, row.id, e) < 0)
			return -1;
	}
	/* Again: a template may have got the name while files or memory were written. */
	p->version = check_name_is_free(p->core, p->name.name, p->tenant, e) < 0
			     ? NULL
			     : templates_insert(p->core, &row, tags, 1, NULL, &p->actor, e);
	if (p->version == NULL && p->with_memory)
		IGNORED(store_layer_unuse(p->core->store, STORE_LAYER_GUEST_OF_SNAPSHOT, row.id,
					  &ignored),
			"dropped at the next start");
	return p->version == NULL ? -1 : 0;
}

static void snapshot_finish(struct snapshot *p, const struct err *e)
{
	struct err why;
	bool failed = e != NULL;

	if (failed)
		why = *e;
	else
		failed = snapshot_insert(p, &why) < 0;
	snapshot_release(p);
	completion_end(&p->done, failed ? &why : NULL);
}

static void on_folded(struct completion *c, const struct err *e)
{
	snapshot_finish(c->arg, e);
}

/* The captured layer goes on top, and a high stack is folded. */
static void on_captured(struct completion *c, const struct err *e)
{
	struct snapshot *p = c->arg;
	struct err why;

	if (e != NULL) {
		snapshot_finish(p, e);
	} else if (template_stack_push(&p->stack, (const char(*)[STORE_ID_MAX])p->capture.layer, 1,
				       &why) < 0) {
		snapshot_finish(p, &why);
	} else {
		p->fold.done = (struct completion){ .on_done = on_folded, .arg = p };
		layer_fold(p->core, p->tenant, &p->stack, 0, &p->fold);
	}
}

static int set_name(struct snapshot *p, const struct tenant *t, const char *name, struct err *e)
{
	memset(&p->name, 0, sizeof(p->name));
	p->unnamed = name == NULL || name[0] == '\0';
	if (p->unnamed) {
		make_code(p->name.name);
		return 0;
	}
	if (template_name_read(name, &p->name, e) < 0)
		return -1;
	if (!is_owner(t, p->name.space))
		return err_set(e, ERR_INVALID, "Invalid name: the namespace %s is not yours",
			       p->name.space);
	if (templates_is_reserved(p->name.name))
		return err_set(e, ERR_INVALID, "Invalid name: %s is taken by the server",
			       p->name.name);
	return 0;
}

/* All checks come before the capture, which takes long. */
static int snapshot_prepare(struct session *s, const char *name, struct snapshot *p, struct err *e)
{
	struct store_template row;

	p->with_memory = cell_level_can(session_level(s), CELL_CAN_KEEP_MEMORY);
	p->memory_bytes = s->row.limits.memory_bytes;
	p->memory_profile = s->row.profile;
	p->memory_read_only = s->row.read_only;
	memcpy(p->guest, s->row.guest_origin, sizeof(p->guest));
	if (p->with_memory && session_parts_check_memory(s, false, e) < 0)
		return -1;
	if (set_name(p, s->tenant, name, e) < 0 ||
	    check_name_is_free(s->core, p->name.name, s->row.tenant, e) < 0)
		return -1;
	row = s->template->row; /* the texts of the version will be those */
	memcpy(row.tenant, s->row.tenant, sizeof(row.tenant));
	if (templates_check_room(s->core, &row, e) < 0)
		return -1;
	return session_spec_stack(s->template, &s->row, s->own, &p->stack, NULL, e);
}

void snapshot_make(struct session *s, const char *name, uint64_t keep_ms,
		   const struct store_actor *who, struct snapshot *p)
{
	struct err e;

	p->core = NULL;
	p->fold = (struct layer_fold){ .job.fd = -1 };
	p->capture = (struct session_capture){ .done = { .on_done = on_captured, .arg = p } };
	p->memory = NULL;
	completion_begin(&p->done, s->core->loop, NULL);
	if (snapshot_prepare(s, name, p, &e) < 0) {
		completion_end(&p->done, &e);
		return;
	}
	p->core = s->core;
	p->keep_ms = keep_ms > 0 ? keep_ms : s->core->o.config->snapshot_keep_ms;
	p->actor = store_actor_copy(who);
	p->base = template_use(s->template);
	p->level = s->row.level;
	memcpy(p->tenant, s->row.tenant, sizeof(p->tenant));
	memcpy(p->source, s->row.id, sizeof(p->source));
	if (p->with_memory) {
		p->memory = session_memory_new(on_folded, p);
		session_memory(s, "snapshot", SESSION_MEMORY_SAVE, 0, p->memory);
	} else
		session_capture(s, "snapshot", false, &p->capture);
}

void snapshot_cancel(struct snapshot *p)
{
	completion_cancel(&p->done);
	snapshot_release(p);
}
