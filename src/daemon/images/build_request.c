/* build_request.c - builds are asked for: names, tags, sizes, quotas, and what waits is superseded.
 * See build.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/images/build_private.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/hex.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define TEMPLATE_ID_CHARS 20
#define BUILDS_KEPT 50 /* of a template, that made no version which exists */
#define CPUS_MAX 1024
#define MEMORY_MB_MIN 128
#define MEMORY_MB_MAX (1U << 24)

/* Lower-case letters, digits, '_' and '-'. Two tenants may get the same. */
void build_namespace(const struct tenant *t, char ret[STORE_NAME_MAX])
{
	const char *name = tenant_row(t)->name;
	size_t n = 0;

	for (; *name != '\0' && n < STORE_NAME_MAX - 1; name++)
		ret[n++] = isalnum((unsigned char)*name) || *name == '_'
				   ? (char)tolower((unsigned char)*name)
				   : '-';
	ret[n] = '\0';
}

/* ---- tags */

bool build_has_tag(const char *tags, const char *tag)
{
	size_t n = strlen(tag);

	for (; *tags != '\0'; tags += strcspn(tags, "\n") + 1)
		if (strncmp(tags, tag, n) == 0 && tags[n] == '\n')
			return true;
	return false;
}

void build_tags_each(const char *tags, void (*fn)(const char *tag, void *arg), void *arg)
{
	char tag[STORE_NAME_MAX];

	for (; *tags != '\0'; tags += strcspn(tags, "\n") + 1) {
		size_t n = strcspn(tags, "\n");

		if (n >= sizeof(tag))
			continue;
		memcpy(tag, tags, n);
		tag[n] = '\0';
		fn(tag, arg);
	}
}

bool build_shares_tag(const char *a, const char *b)
{
	char tag[STORE_NAME_MAX];

	for (; *a != '\0'; a += strcspn(a, "\n") + 1) {
		size_t n = strcspn(a, "\n");

		if (n >= sizeof(tag))
			continue;
		memcpy(tag, a, n);
		tag[n] = '\0';
		if (build_has_tag(b, tag))
			return true;
	}
	return false;
}

/* ---- requests */

/* The tag of the name comes first. Without any, "default". */
static int collect_tags(const struct template_name *ref, const struct build_ask *ask,
			struct buf *ret, struct err *e)
{
	char tag[STORE_NAME_MAX];

	if (ref->tag[0] != '\0' && strcmp(ref->tag, TEMPLATE_REF_TAG_DEFAULT) != 0)
		buf_printf(ret, "%s\n", ref->tag);
	for (unsigned i = 0; i < ask->ntags; i++) {
		if (template_ref_tag(ask->tags[i], tag, e) < 0)
			return -1;
		if (!build_has_tag(buf_text(ret), tag))
			buf_printf(ret, "%s\n", tag);
	}
	if (ret->len == 0)
		buf_put_text(ret, TEMPLATE_REF_TAG_DEFAULT "\n");
	return buf_check(ret, e);
}

/* 0 asks for the default. Settings of the server bound both numbers. */
static int check_size(struct core *c, const struct build_ask *ask, struct err *e)
{
	const struct config *g = core_config(c);

	if (ask->cpus > 1 && ask->cpus % 2 != 0)
		return err_set(e, ERR_INVALID, "CPU count must be 1 or an even number");
	if (ask->cpus > CPUS_MAX || (g->cpus_max_milli > 0 && ask->cpus * 1000 > g->cpus_max_milli))
		return err_set(e, ERR_INVALID, "CPU count exceeds the limit of the server (%llu)",
			       (unsigned long long)g->cpus_max_milli / 1000);
	if (ask->free_mb > 0 && layers_check_reserve(core_layers(c), ask->free_mb << 20, e) < 0)
		return -1;
	if (ask->memory_mb == 0)
		return 0;
	if (ask->memory_mb < MEMORY_MB_MIN || ask->memory_mb % 2 != 0)
		return err_set(e, ERR_INVALID, "Memory must be at least %d MiB and an even number",
			       MEMORY_MB_MIN);
	if (ask->memory_mb > MEMORY_MB_MAX ||
	    (g->memory_max > 0 && ask->memory_mb << 20 > g->memory_max))
		return err_set(e, ERR_INVALID, "Memory exceeds the limit of the server (%llu MiB)",
			       (unsigned long long)g->memory_max >> 20);
	return 0;
}

/* Tenants build in their own namespace only, and not under names of the server. */
static int check_ref(const struct tenant *t, const struct template_name *ref, struct err *e)
{
	char space[STORE_NAME_MAX];

	build_namespace(t, space);
	if (ref->space[0] != '\0' && strcmp(ref->space, space) != 0)
		return err_set(e, ERR_INVALID, "namespace '%s' must match your team '%s'",
			       ref->space, space);
	if (templates_is_reserved(ref->name))
		return err_set(e, ERR_DENIED, "template '%s' belongs to the server", ref->name);
	return 0;
}

static int check_quota(struct core *c, const struct tenant *t, struct err *e)
{
	uint64_t waiting = 0;

	if (store_build_count(core_store(c), tenant_row(t)->id, BUILD_WAITING, &waiting, e) < 0)
		return -1;
	if (waiting >= BUILD_WAITING_MAX)
		return err_set_reason(e, REASON_QUOTA_BUILDS,
				      "%llu builds of this tenant wait to be started, the most "
				      "there can be",
				      (unsigned long long)waiting);
	return 0;
}

/* A random UUID of version 4. */
static void make_uuid(char ret[STORE_BUILD_ID_MAX])
{
	uint8_t bytes[16];
	char digits[33];

	rand_bytes(bytes, sizeof(bytes));
	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
	hex_encode(bytes, sizeof(bytes), digits);
	(void)snprintf(ret, STORE_BUILD_ID_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", digits, digits + 8,
		       digits + 12, digits + 16, digits + 20);
}

struct own_name {
	const char *tenant, *name;
	char *ret;
};

static void on_version(const struct template_version *v, void *arg)
{
	const struct own_name *o = arg;
	const struct store_template *row = template_row(v);

	if (strcmp(row->tenant, o->tenant) == 0 && strcmp(row->name, o->name) == 0)
		str_copy_to(o->ret, STORE_ID_MAX, row->template_id);
}

/* The id of a template that the tenant has: one with a version, or one only being built. "": there
 * is none. */
static int find_own(struct core *c, const struct tenant *t, const char *name,
		    char ret[STORE_ID_MAX], struct err *e)
{
	struct own_name o = { .tenant = tenant_row(t)->id, .name = name, .ret = ret };
	struct store_build row;

	ret[0] = '\0';
	templates_each(c, t, on_version, &o);
	if (ret[0] != '\0')
		return 0;
	if (store_build_by_name(core_store(c), o.tenant, name, &row, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	str_copy_to(ret, STORE_ID_MAX, row.template_id);
	store_build_release(&row);
	return 0;
}

/* A name that is another template's id would make requests by that word ambiguous. */
static int check_not_id(struct core *c, const char *name, struct err *e)
{
	struct store_build other;

	if (templates_by_template_id(c, name, "") == NULL) {
		if (store_build_by_template(core_store(c), name, &other, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		store_build_release(&other);
	}
	return err_set(e, ERR_CONFLICT, "name '%s' is the id of a template", name);
}

/* ---- names are bounded */

#define FORGET_MAX 16 /* names in one go: to find them takes a step for each that there is */

struct forgotten {
	unsigned n;
	char ids[FORGET_MAX][STORE_ID_MAX];
};

static int on_unmade(const struct store_build *row, void *cookie)
{
	struct forgotten *f = cookie;

	if (f->n < FORGET_MAX)
		memcpy(f->ids[f->n++], row->template_id, STORE_ID_MAX);
	return 0;
}

/* All of them or none. Their logs and archives follow in pieces. */
static int build_request_forget(struct core *c, const struct forgotten *f, struct err *e)
{
	struct store *s = core_store(c);
	int rc = store_begin(s, e);

	for (unsigned i = 0; rc == 0 && i < f->n; i++)
		rc = store_build_delete_template(s, f->ids[i], e);
	if (rc == 0)
		rc = store_commit(s, e);
	if (rc < 0)
		store_rollback(s);
	else
		build_gone_start(c);
	return rc;
}

/* Room for one more name. Templates that never got a version go, the oldest first: a client
 * that asks for builds and cancels them would fill the store. */
static int make_name_room(struct core *c, const char *tenant, struct err *e)
{
	static const uint32_t open[] = { BUILD_WAITING, BUILD_BUILDING };
	struct forgotten f = { 0 };
	uint64_t n = 0;

	if (store_build_names(core_store(c), tenant, &n, e) < 0)
		return -1;
	if (n < BUILD_NAMES_MAX)
		return 0;
	if (store_build_unmade(core_store(c), tenant, open, FORGET_MAX, on_unmade, &f, e) < 0)
		return -1;
	if (f.n == 0)
		return err_set_reason(e, REASON_QUOTA_BUILDS,
				      "%llu templates of this tenant have builds, the most there "
				      "can be",
				      (unsigned long long)n);
	return build_request_forget(c, &f, e);
}

/* The id of the template with that name, perhaps a new one. */
static int find_id(struct core *c, const struct tenant *t, const char *name, char ret[STORE_ID_MAX],
		   struct err *e)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	if (find_own(c, t, name, ret, e) < 0)
		return -1;
	if (ret[0] != '\0')
		return 0;
	if (check_not_id(c, name, e) < 0 || make_name_room(c, tenant_row(t)->id, e) < 0)
		return -1;
	for (size_t i = 0; i < TEMPLATE_ID_CHARS; i++)
		ret[i] = chars[rand_below(sizeof(chars) - 1)];
	ret[TEMPLATE_ID_CHARS] = '\0';
	return 0;
}

/* ---- builds that wait are superseded */

struct others {
	const char *tags, *not_id;
	unsigned n;
	char ids[BUILD_WAITING_MAX][STORE_BUILD_ID_MAX];
};

/* Ids are collected first: rows must not change while they are listed. */
static int on_other(const struct store_build *row, void *cookie)
{
	struct others *o = cookie;

	if (row->status == BUILD_WAITING && strcmp(row->id, o->not_id) != 0 &&
	    o->n < BUILD_WAITING_MAX && (o->tags == NULL || build_shares_tag(row->tags, o->tags)))
		memcpy(o->ids[o->n++], row->id, STORE_BUILD_ID_MAX);
	return 0;
}

void build_end_waiting(struct core *c, const char *template_id, const char *tags,
		       const char *not_id, const char *reason)
{
	struct others o = { .tags = tags, .not_id = not_id };
	struct store_build row;
	struct err e;

	if (store_build_list(core_store(c), template_id, 200, 0, on_other, &o, &e) < 0)
		return;
	for (unsigned i = 0; i < o.n; i++) {
		if (store_build_get(core_store(c), o.ids[i], &row, &e) < 0)
			continue;
		row.status = BUILD_ERROR;
		row.reason = reason;
		row.updated_ms = row.finished_ms = core_now_ms();
		IGNORED(store_build_update(core_store(c), &row, &e), "then it waits on");
		store_build_release(&row);
	}
}

/* The row, the removal of old builds and the event are one transaction. */
static int write_request(struct core *c, const struct store_build *row,
			 const struct store_actor *who, struct err *e)
{
	if (store_begin(core_store(c), e) == 0 && store_build_insert(core_store(c), row, e) == 0 &&
	    store_build_prune(core_store(c), row->template_id, BUILDS_KEPT, e) == 0 &&
	    event_log_append(c, who, row->tenant, "", "", "build.requested", e,
			     "build\t%s\ntemplate\t%s\nname\t%s\n", row->id, row->template_id,
			     row->name) == 0 &&
	    store_commit(core_store(c), e) == 0) {
		build_gone_start(c);
		return 0;
	}
	store_rollback(core_store(c));
	return -1;
}

int build_request(struct core *c, struct tenant *t, const struct build_ask *ask,
		  const struct store_actor *who, struct store_build *ret, struct err *e)
{
	struct buf tags = BUF_INIT((size_t)(BUILD_TAGS_MAX + 1) * STORE_NAME_MAX);
	struct store_build row = { .status = BUILD_WAITING,
				   .cpu_millis = ask->cpus * 1000,
				   .memory_bytes = ask->memory_mb << 20,
				   .created_ms = core_now_ms(),
				   .reason = "" };
	struct template_name ref;
	int rc = -1;

	row.updated_ms = row.created_ms;
	if (template_ref_read(ask->name, &ref, e) == 0 && check_ref(t, &ref, e) == 0 &&
	    collect_tags(&ref, ask, &tags, e) == 0 && check_size(c, ask, e) == 0 &&
	    check_quota(c, t, e) == 0 && find_id(c, t, ref.name, row.template_id, e) == 0) {
		make_uuid(row.id);
		memcpy(row.name, ref.name, sizeof(row.name));
		str_copy(row.tenant, tenant_row(t)->id);
		row.tags = buf_text(&tags);
		build_end_waiting(c, row.template_id, row.tags, "",
				  "the build was superseded by a newer one");
		rc = write_request(c, &row, who, e);
	}
	buf_release(&tags);
	return rc < 0 ? -1 : store_build_get(core_store(c), row.id, ret, e);
}

int build_get(struct core *c, const struct tenant *t, const char *template_id, const char *id,
	      struct store_build *ret, struct err *e)
{
	if (store_build_get(core_store(c), id, ret, e) < 0)
		return -1;
	if (strcmp(ret->tenant, tenant_row(t)->id) == 0 &&
	    (strcmp(ret->template_id, template_id) == 0 || strcmp(ret->name, template_id) == 0))
		return 0;
	store_build_release(ret);
	return err_set(e, ERR_NOT_FOUND, "build '%.60s' not found", id);
}
