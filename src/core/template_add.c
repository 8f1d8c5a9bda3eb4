/* template_add.c - a template is added at run time: checked, tried, then written.
 *
 * It is tried by making a cell of it, in which a program is started as its user, and which ends at
 * once. So the keeper has opened and checked the directory, the mounts have been made, PID 1 has
 * run in it and its user exists before the first session can ask for it. If cordond is killed
 * meanwhile, nothing was added, and the next one ends the cell, which belongs to no session. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event_log.h"
#include "live_cell.h"
#include "rand.h"
#include "session_spec.h"
#include "templates_private.h"

#define PROBE_MS 10000 /* for a program to start in the trial's cell */

struct adding {
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

static int check(const struct core *c, const struct store_template *row, struct err *e)
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

static void finish(struct adding *a, const struct err *e)
{
	struct completions told = { 0 };

	completions_move(&a->when_done, &told);
	free(a);
	completions_end_all(&told, e);
}

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
static void end_trial(struct adding *a, const struct err *e)
{
	struct template_version *v = a->version;
	struct core *c = v->core;
	struct err why;

	c->templates_adding--;
	loop_timer_cancel(c->loop, &a->timer);
	if (e == NULL && write_row(c, v, &a->actor, &why) == 0) {
		template_list_in(v);
		templates_collect(c);
		finish(a, NULL);
		return;
	}
	if (e != NULL)
		why = *e;
	template_free(v);
	finish(a, &why);
}

/* ---- does its user exist? */

static struct adding *of_probe(struct live_program *p)
{
	return (struct adding *)((uintptr_t)p - offsetof(struct adding, probe));
}

static void end_probe(struct adding *a, const struct err *e)
{
	live_cell_remove(a->cell, &a->probe);
	live_cell_abandon(a->cell);
	end_trial(a, e);
}

static void on_probe(struct live_program *p, struct live_cell *cell, enum agent_type type,
		     const struct agent_event *v)
{
	struct adding *a = of_probe(p);
	const char *user = a->version->row.user;
	struct err e;

	(void)cell;
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

/* PID 1 looks the user up for any program that it starts; this one does nothing. */
static int send_probe(struct adding *a, struct err *e)
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

/* Not called: the cell has another owner as soon as the trial is over. */
static void on_probe_gone(struct live_cell *cell)
{
	(void)cell;
}

/* What the keeper could not do, in words of the request: it names layers and roots by number. */
static void explain(const struct core *c, const struct store_template *row, const struct err *e,
		    struct err *ret)
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

static void on_trial_up(struct live_cell *cell, const struct err *e)
{
	struct adding *a = cell->owner;
	struct loop *l = a->version->core->loop;
	struct err why;

	if (e != NULL) {
		explain(a->version->core, &a->version->row, e, &why);
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

int templates_add(struct core *c, const struct store_template *row, const struct store_actor *who,
		  struct completion *w, struct err *e)
{
	struct store_template made = *row;
	struct keeper_create plan;
	struct template_version *v;
	struct adding *a;
	const char *why;

	if (!core_ready(c, &why))
		return err_set_reason(e, REASON_UNAVAILABLE, "not ready: %s", why);
	if (check(c, row, e) < 0)
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
	(void)live_cell_make(&c->cells, &plan, true, &trial_events, a);
	return 0;
}
