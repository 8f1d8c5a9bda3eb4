/* template_add.c - a template is added at run time: checked, tried, then written.
 *
 * It is tried by making a cell of it, in which a program is started as its user, and which ends at
 * once. So the keeper has opened and checked the directory, the mounts have been made, PID 1 has
 * run in it and its user exists before the first session can ask for it. If cordond is killed in
 * between, nothing was added, and the next one ends the cell, which belongs to no session. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cells/live_cell.h"
#include "daemon/node/core.h"
#include "daemon/session/session_spec.h"
#include "daemon/template/template_name.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* Templates of the server itself. They belong to the operator. */
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

/* Written at the first start, or when the commands have changed with the server. */
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

/* A template with changed files: a new version, whose pool takes the place of the old one's.
 */
static int template_add_renew(struct core *c, const struct template_version *old, struct err *e)
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

/* The machine's packages have changed. Cells made before keep the old files, so their pools are
 * emptied. */
void templates_host_changed(struct core *c, const char *name, uint64_t bytes)
{
	struct err e;

	str_copy(c->o.host.name, name);
	c->o.host.bytes = bytes;
	template_pools_empty(c);
	for (size_t i = 0; i < COUNT(built_in); i++) {
		const struct template_version *v = templates_of(c, "", built_in[i].name, "");

		if (v != NULL && v->row.kind == TEMPLATE_HOST && template_add_renew(c, v, &e) < 0)
			log_error("no new version of a template", "name=%s error=%s",
				  built_in[i].name, e.msg);
	}
	templates_collect(c);
}

/* The default template must exist, or the server does not start. */
int templates_setup(struct core *c, struct err *e)
{
	c->on_new_template = template_make_pool;
	if (templates_load(c, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(built_in); i++)
		if (!has_built_in(c, &built_in[i]) && add_built_in(c, &built_in[i], e) < 0)
			return err_wrap(e, "templates");
	if (templates_of(c, "", c->o.config->template, "") == NULL)
		return err_set(e, ERR_NOT_FOUND, "template: there is no template '%.60s'",
			       c->o.config->template);
	return 0;
}

#define PROBE_MS 10000 /* for a program to start in the trial's cell */

/* A request to add a template, from its check to its answer. */
struct template_adding {
	struct template_version *version; /* owned, until it is listed */
	struct live_cell *cell;		  /* of the trial, once it is up */
	struct live_program probe;
	struct loop_timer timer;
	struct store_actor actor;
	struct completions when_done;
};

/* ---- is it well-formed? */

/* A name in template_dir: one component, and none that begins with a dot. */
static bool is_entry(const char *name, size_t n)
{
	if (n == 0 || n >= CELL_PATH_MAX || name[0] == '.')
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] == '/' || (unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return true;
}

static int check_root(const struct core *c, const struct store_template *row, struct err *e)
{
	size_t n = strcspn(row->layers, "\n");

	if (row->kind != TEMPLATE_LAYERS)
		return err_set(e, ERR_INVALID, "root: only directories can be added");
	if (c->o.template_dir[0] == '\0')
		return err_set(e, ERR_UNSUPPORTED, "this server has no template_dir");
	if (row->layers[n] != '\0')
		return err_set(e, ERR_UNSUPPORTED, "root: more than one layer is not supported");
	if (!is_entry(row->layers, n))
		return err_set(e, ERR_INVALID,
			       "root: must be a directory directly below %.100s, whose name does "
			       "not begin with a dot",
			       c->o.template_dir);
	return 0;
}

/* It becomes a template of the operator. Trials at a time are bounded. */
static int check_room(const struct core *c, const struct store_template *row, struct err *e)
{
	struct store_template own = *row;

	own.tenant[0] = '\0';
	if (templates_check_room(c, &own, e) < 0)
		return -1;
	if (c->templates_adding >= TEMPLATES_ADDING_MAX)
		return err_set_reason(e, REASON_QUOTA_TEMPLATES,
				      "%u templates are being added already", c->templates_adding);
	return 0;
}

int templates_check_name(const struct core *c, const char *name, struct err *e)
{
	if (!templates_is_name(name))
		return err_set(e, ERR_INVALID,
			       "name: must be of a-z, 0-9, '.', '_' and '-', and begin with a "
			       "letter or digit");
	if (templates_is_reserved(name))
		return err_set(e, ERR_CONFLICT, "name: %s is taken by the server", name);
	for (const struct template_version *v = c->templates; v != NULL; v = v->next)
		if (strcmp(v->row.template_id, name) == 0)
			return err_set(e, ERR_CONFLICT, "name: %s is the id of a template", name);
	return 0;
}

static int template_add_check(const struct core *c, const struct store_template *row, struct err *e)
{
	if (templates_check_name(c, row->name, e) < 0)
		return -1;
	if (core_level_check(c, cell_level_of(row->level), e) < 0)
		return -1;
	if (check_root(c, row, e) < 0 || session_spec_check_mounts(c, row->mounts, e) < 0)
		return -1;
	return check_room(c, row, e);
}

/* ---- the trial, and what follows */

static void template_add_finish(struct template_adding *a, const struct err *e)
{
	struct completions told = { 0 };

	completions_move(&a->when_done, &told);
	free(a);
	completions_end_all(&told, e);
}

/* Row and event are one transaction. */
static int write_row(struct core *c, struct template_version *v, const struct store_actor *who,
		     struct err *e)
{
	if (store_begin(c->store, e) == 0 && store_template_insert(c->store, &v->row, e) == 0 &&
	    event_log_append(c, who, tenant_operator(c)->row.id, "", "", "template.added", e,
			     "name\t%s\nversion\t%llu\n", v->row.name,
			     (unsigned long long)v->row.version) == 0 &&
	    store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	return err_wrap(e, "template %.60s", v->row.name);
}

/* The trial has ended: e is NULL if the template is good. */
static void end_trial(struct template_adding *a, const struct err *e)
{
	struct template_version *v = a->version;
	struct core *c = v->core;
	struct err why;

	c->templates_adding--;
	loop_timer_cancel(c->loop, &a->timer);
	if (e == NULL && write_row(c, v, &a->actor, &why) == 0) {
		template_list_in(v);
		templates_collect(c);
		template_add_finish(a, NULL);
		return;
	}
	if (e != NULL)
		why = *e;
	template_free(v);
	template_add_finish(a, &why);
}

/* ---- does its user exist? */

static struct template_adding *of_probe(struct live_program *p)
{
	return (struct template_adding *)((uintptr_t)p - offsetof(struct template_adding, probe));
}

static void end_probe(struct template_adding *a, const struct err *e)
{
	live_cell_remove(a->cell, &a->probe);
	live_cell_abandon(a->cell);
	end_trial(a, e);
}

/* Any answer ends the trial: the program has started, its user does not exist, or it cannot start.
 */
static void on_probe(struct live_program *p, struct live_cell *cell, enum agent_type type,
		     const struct agent_event *v)
{
	struct template_adding *a = of_probe(p);
	const char *user = a->version->row.user;
	struct err e;

	if (type == AGENT_STARTED) { /* its descriptors are closed, at which it ends */
		end_probe(a, NULL);
	} else if (type == AGENT_FAILED && v->stage == AGENT_AT_USER) {
		(void)err_set(&e, ERR_INVALID,
			      user[0] == '\0'
				      ? "user: the template has no user named 'user' in its "
					"etc/passwd; name the one that commands run as"
				      : "user: the template has no user '%.60s' in its etc/passwd",
			      user);
		end_probe(a, &e);
	} else if (type == AGENT_FAILED) {
		errno = v->sys;
		(void)err_sys(&e, "no program can be started in it");
		end_probe(a, &e);
	}
}

static void on_probe_late(struct loop_timer *t)
{
	struct err e;

	(void)err_set_reason(&e, REASON_TIMEOUT, "a cell of it does not answer");
	end_probe(t->arg, &e);
}

/* PID 1 looks the user up for any program that it starts. This one does nothing. */
static int send_probe(struct template_adding *a, struct err *e)
{
	static const char words[] = "stat\0/";
	const struct agent_spawn r = { .handle = a->probe.handle,
				       .flags = AGENT_BUILTIN | AGENT_NO_STDIN,
				       .argc = 2,
				       .user = a->version->row.user,
				       .cwd = "/",
				       .strings = words,
				       .strings_len = sizeof(words) };

	if (agent_send_spawn(&a->cell->agent, &r, e) < 0)
		return -1;
	live_cell_flush(a->cell);
	return 0;
}

static void on_probe_dead(struct live_cell *cell)
{
	struct err e;

	(void)err_set(&e, ERR_SYSTEM, "no cell can be made of it: it ended by itself");
	end_probe(cell->owner, &e);
}

/* Not called: the cell has another owner as soon as the trial has ended. */
static void on_probe_gone(struct live_cell *cell)
{
}

/* Say the keeper's error in words of the request: the keeper names layers and roots by number. */
static void template_add_explain(const struct core *c, const struct store_template *row,
				 const struct err *e, struct err *ret)
{
	static const char mount_at[] = "mount at ";
	const char *place = strstr(e->msg, mount_at);
	size_t n = strcspn(row->layers, "\n");

	*ret = *e;
	if (e->sys != ENOENT && e->sys != ENOTDIR) {
		IGNORED(err_wrap(ret, "no cell can be made of it"), "told by the caller");
		return;
	}
	if (place == NULL)
		(void)err_set(ret, ERR_NOT_FOUND, "root: there is no directory %.*s in %.100s",
			      (int)n, row->layers, c->o.template_dir);
	else
		(void)err_set(ret, ERR_NOT_FOUND,
			      "root: the directory %.*s has no %.*s, which a cell needs: make it",
			      (int)n, row->layers, (int)strcspn(place + strlen(mount_at), ": "),
			      place + strlen(mount_at));
}

/* The keeper has made the cell, or has refused. */
static void on_trial_up(struct live_cell *cell, const struct err *e)
{
	struct template_adding *a = cell->owner;
	struct loop *l = a->version->core->loop;
	struct err why;

	if (e != NULL) {
		template_add_explain(a->version->core, &a->version->row, e, &why);
		end_trial(a, &why);
		return;
	}
	a->cell = cell;
	a->probe.on_event = on_probe;
	a->timer = (struct loop_timer){ .on_expire = on_probe_late, .arg = a };
	live_cell_add(cell, &a->probe);
	loop_timer_set(l, &a->timer, clock_now_ns() + PROBE_MS * CLOCK_MS);
	if (send_probe(a, &why) < 0)
		end_probe(a, &why);
}

static const struct live_cell_events trial_events = { .on_up = on_trial_up,
						      .on_dead = on_probe_dead,
						      .on_gone = on_probe_gone };

/* w ends when the trial has ended. row's texts are copied. */
int templates_add(struct core *c, const struct store_template *row, const struct store_actor *who,
		  struct completion *w, struct err *e)
{
	struct store_template made = *row;
	struct keeper_create plan;
	struct template_version *v;
	struct template_adding *a;

	if (core_check_ready(c, e) < 0)
		return -1;
	if (template_add_check(c, row, e) < 0)
		return -1;
	made.tenant[0] = '\0';
	made.created_ms = core_now_ms();
	rand_id("tpl_", made.id, sizeof(made.id));
	v = template_new(c, &made, e);
	if (v == NULL)
		return -1;
	if (template_plan(v, &plan, e) < 0) {
		template_free(v);
		return -1;
	}
	a = calloc(1, sizeof(*a));
	assert(a != NULL);
	a->version = v;
	a->actor = *who;
	completion_begin(w, c->loop, &a->when_done);
	c->templates_adding++;
	(void)live_cell_make(&c->cells, &plan, made.tenant, true, &trial_events, a);
	return 0;
}

/* ---- a template made of another one: no cell tries it, since sessions use these layers already */

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
	str_copy(row.tenant, t == tenant_operator(c) ? "" : t->row.id);
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
