/* template_built_in.c - the templates that every server has: rows like others, which are added to a
 * store that does not have them. */
#include <string.h>

#include "event_log.h"
#include "log.h"
#include "rand.h"
#include "templates_private.h"
#include "tenant.h"

static const struct store_template built_in[] = {
	{ .name = TEMPLATES_HOST, .kind = TEMPLATE_HOST, .start_command = "", .ready_command = "" },
	{ .name = TEMPLATES_INTERPRETER,
	  .kind = TEMPLATE_HOST,
	  .start_command = "/opt/cordon/bin/cordon-interpreter serve",
	  .ready_command = "/opt/cordon/bin/cordon-interpreter ready",
	  .start_restart = true,
	  .interpreter = true },
};

/* Is it there, as this version of the server has it? */
static bool has_built_in(const struct core *c, const struct store_template *want)
{
	const struct template_version *v = templates_of(c, "", want->name, "");

	if (v != NULL && want->start_command[0] == '\0')
		return true;
	return v != NULL && v->row.kind == want->kind &&
	       strcmp(v->row.start_command, want->start_command) == 0 &&
	       strcmp(v->row.ready_command, want->ready_command) == 0;
}

static int add_built_in(struct core *c, const struct store_template *want, struct err *e)
{
	struct store_template row = *want;
	struct template_version *v;

	row.created_ms = core_now_ms();
	rand_id("tpl_", row.id, sizeof(row.id));
	if (store_template_insert(c->store, &row, e) < 0)
		return -1;
	v = template_new(c, &row, e);
	if (v == NULL)
		return -1;
	template_list_in(v);
	return 0;
}

/* The same template with other files: a new version, whose pool takes the place of the old one's.
 */
static int renew(struct core *c, const struct template_version *old, struct err *e)
{
	struct store_template row = old->row;
	struct template_version *v;

	row.created_ms = core_now_ms();
	row.owned = NULL;
	rand_id("tpl_", row.id, sizeof(row.id));
	if (store_begin(c->store, e) < 0)
		return -1;
	if (store_template_insert(c->store, &row, e) < 0 ||
	    event_log_append(c, NULL, tenant_operator(c)->row.id, "", "", "template.added", e,
			     "name\t%s\nversion\t%llu\n", row.name,
			     (unsigned long long)row.version) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		return -1;
	}
	v = template_new(c, &row, e);
	if (v == NULL)
		return -1;
	template_list_in(v);
	return 0;
}

void templates_host_changed(struct core *c)
{
	struct err e;

	template_pools_empty(c);
	for (size_t i = 0; i < COUNT(built_in); i++) {
		const struct template_version *v = templates_of(c, "", built_in[i].name, "");

		if (v != NULL && v->row.kind == TEMPLATE_HOST && renew(c, v, &e) < 0)
			log_error("no new version of a template", "name=%s error=%s",
				  built_in[i].name, e.msg);
	}
	templates_collect(c);
}

int template_built_in_add(struct core *c, struct err *e)
{
	for (size_t i = 0; i < COUNT(built_in); i++)
		if (!has_built_in(c, &built_in[i]) && add_built_in(c, &built_in[i], e) < 0)
			return -1;
	return 0;
}
