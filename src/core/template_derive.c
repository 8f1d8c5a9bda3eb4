/* template_derive.c - a template from another one: the same layers, with commands of its own
 * (templates.h). No cell is made of it first: sessions are made from these layers already. */
#include <stdio.h>
#include <string.h>

#include "template_name.h"
#include "template_stack.h"
#include "templates_private.h"
#include "tenant.h"

#define PROVENANCE_MAX 512

struct template_version *templates_derive(struct core *c, const struct tenant *t,
					  const struct template_version *from,
					  const struct store_template *ask,
					  const struct store_actor *who, struct err *e)
{
	char layers[TEMPLATE_STACK_TEXT], provenance[PROVENANCE_MAX];
	struct store_template row = from->row;
	const char *tags[1];
	struct template_name name;
	struct template_stack stack;

	if (template_has_memory(from)) {
		IGNORED(err_set(e, ERR_UNSUPPORTED,
				"from: the snapshot has the memory of a session, and its files are "
				"in that: no template can be made of it"),
			"returned");
		return NULL;
	}
	if (template_name_read(ask->name, &name, e) < 0 ||
	    templates_check_name(c, name.name, e) < 0 ||
	    core_level_check(c, cell_level_of(ask->level), e) < 0 ||
	    template_stack_read(&from->row, &stack, e) < 0)
		return NULL;
	if (name.space[0] != '\0') {
		IGNORED(err_set(e, ERR_INVALID, "name: must be without a namespace"), "returned");
		return NULL;
	}
	template_stack_write(&stack, layers);
	(void)snprintf(provenance, sizeof(provenance), "template\t%s\nversion\t%s\n",
		       from->row.name, from->row.id);
	row.id[0] = row.template_id[0] = row.source[0] = '\0';
	memcpy(row.name, name.name, sizeof(row.name));
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s",
		       t == tenant_operator(c) ? "" : t->row.id);
	row.kind = TEMPLATE_STACK;
	row.layers = layers;
	row.provenance = provenance;
	row.public = false;
	row.expires_ms = 0;
	row.start_command = ask->start_command;
	row.ready_command = ask->ready_command;
	row.start_restart = ask->start_restart;
	row.interpreter = ask->interpreter;
	row.level = ask->level;
	tags[0] = name.tag[0] == '\0' ? STORE_TAG_DEFAULT : name.tag;
	return templates_insert(c, &row, tags, 1, NULL, who, e);
}
