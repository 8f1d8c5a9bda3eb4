#include "front/e2b/control/template_find.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/images/build.h"
#include "daemon/tenant/tenant.h"
#include "front/web/reply.h"
#include "lib/base/hex.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

/* Bytes of a name as clients write it. */
#define TEXT_MAX 256

#define ALIAS "base" /* the default one's public name. Others: templates_is_alias() */

/* Clients write the operator's templates with any namespace, and the default one by its alias. name
 * is in lower case. */
static struct template_version *find_common(const struct core *c, const char *name)
{
	const char *slash = strchr(name, '/');
	char bare[STORE_NAME_MAX];
	size_t n;

	name = slash == NULL ? name : slash + 1;
	n = strcspn(name, ":");
	if (n == 0 || n >= sizeof(bare) || (name[n] == ':' && strcmp(name + n, ":default") != 0))
		return NULL;
	memcpy(bare, name, n);
	bare[n] = '\0';
	if (templates_is_alias(bare))
		return templates_find(c, NULL, core_config(c)->template);
	return slash == NULL ? NULL : templates_of(c, "", bare, "");
}

/* The tenant's own templates win over common ones. */
struct template_version *template_find(const struct core *c, const struct tenant *t,
				       const char *name)
{
	struct template_version *v;
	char lower[TEXT_MAX];
	size_t n = strlen(name);

	if (n >= sizeof(lower))
		return NULL;
	for (size_t i = 0; i <= n; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	v = templates_find(c, t, lower);
	return v != NULL ? v : find_common(c, lower);
}

/* ---- the tenant's own
 *
 * A template may have versions, builds, or both. on_version() looks at the versions,
 * find_in_builds() at the rows of builds. */

/* ret gets the id if found. Both flags may stay false: there is no such template. */
struct template_find_search {
	const struct tenant *t;
	const char *tenant, *name; /* a name or an id */
	bool found;
	bool others; /* one that the tenant knows of, but may not change */
	char *ret;
};

/* Deleted or replaced by a newer one. Running sandboxes still use it. */
static bool is_retired(const struct template_version *v)
{
	const struct store_template_tag *tags;

	return !template_row(v)->current && template_tags(v, &tags) == 0;
}

/* A private template of another tenant counts only if it was named by its id. */
static void on_version(const struct template_version *v, void *arg)
{
	struct template_find_search *f = arg;
	const struct store_template *row = template_row(v);
	bool same_id = strcmp(row->template_id, f->name) == 0;

	if (f->found || is_retired(v) || (!same_id && strcmp(row->name, f->name) != 0))
		return;
	if (strcmp(row->tenant, f->tenant) == 0) {
		str_copy_to(f->ret, STORE_ID_MAX, row->template_id);
		f->found = true;
	} else if (same_id || template_is_usable(v, f->t)) {
		f->others = true;
	}
}

/* -1: the store failed. By its name among the tenant's builds, then by its id among all. */
static int find_in_builds(struct core *c, const char *tenant, struct template_find_search *f,
			  struct err *e)
{
	struct store_build row;
	int rc = store_build_by_name(core_store(c), tenant, f->name, &row, e);

	if (rc < 0 && e->code == ERR_NOT_FOUND)
		rc = store_build_by_template(core_store(c), f->name, &row, e);
	if (rc < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	f->found = strcmp(row.tenant, tenant) == 0;
	f->others |= !f->found; /* by its id */
	str_copy_to(f->ret, STORE_ID_MAX, row.template_id);
	store_build_release(&row);
	return 0;
}

/* 403 is for public templates and, as the contract says, for clients that know a (random) id.
 * Another tenant's private name gets the answer of a missing one: names can be guessed. */
bool template_find_own(struct request *r, const char *name, char ret_id[STORE_ID_MAX])
{
	const char *tenant = tenant_row(r->tenant)->id;
	struct template_name ref = { 0 };
	struct template_find_search f = {
		.t = r->tenant, .tenant = tenant, .name = ref.name, .ret = ret_id
	};
	struct err e = { 0 };

	if (template_ref_read(name, &ref, &e) == 0) {
		templates_each(r->core, NULL, on_version, &f);
		if (!f.found && find_in_builds(r->core, tenant, &f, &e) < 0) {
			reply_error(r, &e);
			return false;
		}
		if (f.found)
			return true;
	}
	f.others |= templates_is_alias(ref.name);
	IGNORED(err_set(&e, ERR_NOT_FOUND, "template '%.60s' not found", name), "answered");
	err_sanitize(&e);
	if (f.others)
		reply_code(r, 403, "denied", "the template belongs to another");
	else
		reply_error(r, &e);
	return false;
}

/* For on_any(): the id to find, and the last version with it. */
struct any {
	const char *id;
	const struct store_template *row;
};

static void on_any(const struct template_version *v, void *arg)
{
	struct any *a = arg;

	if (strcmp(template_row(v)->template_id, a->id) == 0)
		a->row = template_row(v);
}

struct template_version *template_find_any(const struct core *c, const char *template_id)
{
	struct any a = { .id = template_id };

	templates_each(c, NULL, on_any, &a);
	return a.row == NULL ? NULL : templates_by_id(c, a.row->id);
}

/* ---- ids and names
 *
 * The operator's templates are known by names, the tenants' by ids. */

const char *template_find_id(const struct core *c, const struct store_template *row)
{
	if (row->tenant[0] != '\0')
		return row->template_id;
	return strcmp(row->name, core_config(c)->template) == 0 ? "base" : row->name;
}

/* A version that no build made has an id that follows from its own. */
int template_find_build(struct core *c, const struct store_template *row,
			char ret[TEMPLATE_FIND_BUILD_MAX], struct err *e)
{
	uint8_t hash[SHA256_SIZE];
	char digits[2 * 16 + 1];
	struct store_build build;

	if (store_build_by_version(core_store(c), row->id, &build, e) == 0) {
		memcpy(ret, build.id, TEMPLATE_FIND_BUILD_MAX);
		store_build_release(&build);
		return 0;
	}
	if (e->code != ERR_NOT_FOUND)
		return -1;
	sha256_of(row->id, strlen(row->id), hash);
	hash[6] = (uint8_t)((hash[6] & 0x0f) | 0x80); /* version 8: made by a rule of one's own */
	hash[8] = (uint8_t)((hash[8] & 0x3f) | 0x80);
	hex_encode(hash, 16, digits);
	(void)snprintf(ret, TEMPLATE_FIND_BUILD_MAX, "%.8s-%.4s-%.4s-%.4s-%.12s", digits,
		       digits + 8, digits + 12, digits + 16, digits + 20);
	return 0;
}

/* One published version is enough. */
static void on_public(const struct template_version *v, void *arg)
{
	struct template_find_search *f = arg;

	if (strcmp(template_row(v)->template_id, f->name) == 0 && template_row(v)->public)
		f->found = true;
}

bool template_find_is_public(struct core *c, const char *template_id)
{
	struct template_find_search f = { .name = template_id };

	templates_each(c, NULL, on_public, &f);
	return f.found;
}

/* The default template has its alias in front of its name. */
static void shape_common(struct json *j, const struct core *c, const char *name, const char *member)
{
	bool is_default = strcmp(name, core_config(c)->template) == 0;

	json_open(j, member, '[');
	if (is_default)
		json_text(j, NULL, ALIAS);
	if (!is_default || strcmp(name, ALIAS) != 0)
		json_text(j, NULL, name);
	json_close(j, ']');
}

/* A tenant's template has its namespace in names, and not in aliases. */
void template_find_shape_names(struct json *j, struct core *c, const char *tenant, const char *name)
{
	char space[STORE_NAME_MAX] = "", full[2 * STORE_NAME_MAX];
	const struct tenant *t;

	if (tenant[0] == '\0') {
		shape_common(j, c, name, "names");
		shape_common(j, c, name, "aliases");
		return;
	}
	t = tenant_find(c, tenant);
	if (t != NULL)
		build_namespace(t, space);
	(void)snprintf(full, sizeof(full), "%s/%s", space, name);
	json_open(j, "names", '[');
	json_text(j, NULL, full);
	json_close(j, ']');
	json_open(j, "aliases", '[');
	json_text(j, NULL, name);
	json_close(j, ']');
}
