/* session_fork.c - see session_fork.h.
 *
 * The capture's layer is held until all sessions have their own uses of it, added with their
 * records. At a level with memory there is no capture: children map the source's memory image
 * (guest_image.h), and the changed pages follow.
 */
#include "daemon/session/session_fork.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/guest/guest_image.h"
#include "daemon/guest/session_memory.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_boot.h"
#include "daemon/session/session_capture.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_spec.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/image_charge.h"

/* Copies of the source row's texts, cut into parts in place. */
struct texts {
	char *mounts, *rules; /* owned */
};

/* Only the source's own mounts: session_spec_check() adds those of the template. */
static void read_mounts(const struct session *s, struct texts *t, struct session_spec *spec)
{
	size_t skip = strlen(s->template->row.mounts); /* these come from the template */
	char *at;

	t->mounts = strdup(strlen(s->row.mounts) > skip ? s->row.mounts + skip : "");
	assert(t->mounts != NULL);
	for (at = t->mounts; *at != '\0' && spec->nmounts < CELL_MOUNTS_MAX;) {
		char *target = strchr(at, '\t'),
		     *mode = target == NULL ? NULL : strchr(target + 1, '\t');
		char *end = mode == NULL ? NULL : strchr(mode, '\n');

		if (end == NULL)
			return;
		*target++ = *mode++ = *end++ = '\0';
		spec->mounts[spec->nmounts].source = at;
		spec->mounts[spec->nmounts].target = target;
		spec->mounts[spec->nmounts++].writable = strcmp(mode, "rw") == 0;
		at = end;
	}
}

static void read_rules(const struct session *s, struct texts *t, struct session_spec *spec)
{
	char *second;

	t->rules = strdup(s->row.rules);
	assert(t->rules != NULL);
	second = strchr(t->rules, '\n');
	if (second != NULL) {
		*second++ = '\0';
		spec->exportable = second;
	}
	spec->writable = t->rules;
}

/* Everything in the spec points into the source's row, so the source must stay until all sessions
 * are created. */
static void copy_spec(const struct session *s, const struct session_fork *f, struct texts *t,
		      struct session_spec *spec)
{
	const struct store_session *row = &s->row;

	*spec = (struct session_spec){ .profile = (int)row->profile,
				       .level = cell_level_of(row->level)->name,
				       .timeout_ms =
					       f->timeout_given ? f->timeout_ms : row->timeout_ms,
				       .timeout_given = true,
				       .idle_ms = row->idle_ms,
				       .idle_given = true,
				       .on_timeout = (enum session_action)row->on_timeout,
				       .on_idle = (enum session_action)row->on_idle,
				       .limits = row->limits,
				       .env = row->env,
				       .env_len = row->env_len,
				       .metadata = row->metadata,
				       .network = row->network,
				       .policy = row->policy,
				       .secrets = row->secrets,
				       .client = row->client,
				       .alarms = row->alarms,
				       .redact = row->redact,
				       .watch_reads = row->watch_reads,
				       .trace = (enum session_trace)row->trace,
				       .version = s->template->row.id,
				       .actor = &f->actor };
	spec->storage = (enum session_storage)row->storage;
	spec->storage_given = true;
	spec->read_only = row->read_only;
	read_mounts(s, t, spec);
	read_rules(s, t, spec);
}

/* ---- the new sessions */

/* The fork ends when all children are ready or have failed. */
static void check_end(struct session_fork *f)
{
	if (f->waiting > 0)
		return;
	layer_fold_release(&f->fold);
	session_memory_free(&f->memory);
	guest_image_unuse(f->image);
	f->image = NULL;
	if (f->core != NULL)
		session_capture_release(f->core, &f->capture);
	completion_end(&f->done, NULL);
}

/* A child is ready for its user, or has failed. */
static void on_ready(struct completion *c, const struct err *e)
{
	struct session_fork_one *one = c->arg;

	one->failed = e != NULL;
	if (e != NULL)
		one->err = *e;
	one->session = NULL;
	one->fork->waiting--;
	check_end(one->fork);
}

static void on_running(struct completion *c, const struct err *e)
{
	struct session_fork_one *one = c->arg;

	if (e == NULL)
		memcpy(one->id, one->session->row.id, sizeof(one->id));
	if (e != NULL || !session_boot_is_needed(one->session)) {
		on_ready(c, e);
		return;
	}
	one->wait.on_done = on_ready;
	session_boot(one->session, &one->fork->actor, &one->wait);
}

/* A refused child has its error in the list. The others continue. */
static void make_one(struct session_fork *f, struct session_fork_one *one,
		     const struct session_spec *spec)
{
	struct session *made = NULL;
	unsigned retry_s;

	one->fork = f;
	one->wait = (struct completion){ .on_done = on_running, .arg = one };
	if (session_create(f->core, f->tenant, spec, &one->wait, &made, &retry_s, &one->err) < 0) {
		one->failed = true;
		return;
	}
	f->waiting++;
	if (completion_is_waiting(&one->wait)) /* else it failed, and on_running() follows */
		one->session = made;
}

/* The fork counts itself as waiting, because session_create() may call back before this returns. */
static void make_all(struct session_fork *f, const char *version, const struct template_stack *own)
{
	struct session_spec spec;
	struct texts texts;

	copy_spec(f->source, f, &texts, &spec);
	if (version != NULL)
		spec.version = version;
	spec.layers = own == NULL ? NULL : own->layers;
	spec.nlayers = own == NULL ? 0 : own->nlayers;
	spec.image = f->image;
	f->waiting = 1 + f->early; /* so that it does not end inside the loop. An early child also
				      waits for the memory */
	for (unsigned i = 0; i < f->n; i++)
		make_one(f, &f->list[i], &spec);
	f->waiting--;
	free(texts.mounts);
	free(texts.rules);
	f->source = NULL;
	check_end(f);
}

/* ---- the capture */

/* Delete the sessions made so far. */
static void drop_children(struct session_fork *f)
{
	struct err e;

	for (unsigned i = 0; i < f->n; i++) {
		struct session_fork_one *one = &f->list[i];

		if (one->session !=
		    NULL) /* a queued session has no id, and is dropped with its waiter */
			memcpy(one->id, one->session->row.id, sizeof(one->id));
		completion_cancel(&one->wait);
		one->session = NULL;
		if (one->id[0] != '\0')
			IGNORED(session_delete(f->core, f->tenant, one->id, &f->actor, &e),
				"then it ends by its timeout");
		one->id[0] = '\0';
	}
}

static void fork_fail(struct session_fork *f, const struct err *e)
{
	struct err why = *e;

	f->source = NULL;
	drop_children(f);
	layer_fold_release(&f->fold);
	session_memory_free(&f->memory);
	session_capture_release(f->core, &f->capture);
	completion_end(&f->done, &why);
}

/* Find the source again by its id: it may have ended during the capture. */
static bool find_again(struct session_fork *f, struct err *why)
{
	f->source = session_by_id(f->core, f->id);
	if (f->source != NULL && f->source->template != NULL)
		return true;
	(void)err_set_reason(why, REASON_GONE, "session %s has ended", f->id);
	return false;
}

/* A failed fold leaves the layers unfolded, which work as well. */
static void on_folded(struct completion *c, const struct err *e)
{
	struct session_fork *f = c->arg;
	struct template_stack own;
	struct err why;

	if (!find_again(f, &why)) {
		fork_fail(f, &why);
		return;
	}
	template_stack_above(&f->stack, f->fold.stay, &own);
	make_all(f, NULL, &own);
}

static void on_captured(struct completion *c, const struct err *e)
{
	struct session_fork *f = c->arg;
	const struct session *s = f->source;
	size_t stay;
	struct err why;

	if (e != NULL) {
		fork_fail(f, e);
	} else if (session_spec_stack(s->template, &s->row, s->own, &f->stack, &stay, &why) < 0 ||
		   template_stack_push(&f->stack, (const char(*)[STORE_ID_MAX])f->capture.layer, 1,
				       &why) < 0) {
		fork_fail(f, &why);
	} else {
		f->source = NULL;
		f->fold.done = (struct completion){ .on_done = on_folded, .arg = f };
		layer_fold(f->core, f->tenant->row.id, &f->stack, stay, &f->fold);
	}
}

static void take_text(char to[STORE_ID_MAX], char from[STORE_ID_MAX])
{
	memcpy(to, from, STORE_ID_MAX);
	from[0] = '\0';
}

/* Move the saved pages and their quota hold from the source to the image. */
static void take_changes(struct session_memory *m, struct guest_image *g)
{
	take_text(g->changes_held, m->held);
	take_text(g->lender, m->lender);
	guest_image_settle(g, TAKE_FD(m->image[1]), TAKE_FD(m->image[0]));
}

/* Make the memory image for the children from the source's saved memory. */
static struct guest_image *take_image(struct session_memory *m, const struct session *source)
{
	struct guest_image *g = guest_image_new(source, m->root);

	if (m->base < 0) {
		g->image[0] = TAKE_FD(m->image[0]);
		g->image[1] = TAKE_FD(m->image[1]);
		g->bytes = m->bytes;
		take_text(g->held, m->held);
		return g;
	}
	g->image[0] = TAKE_FD(m->base);
	g->bytes = m->base_bytes;
	take_text(g->held, m->base_held);
	take_changes(m, g);
	return g;
}

/* The memory is saved, and the source runs again. */
static void on_remembered(struct completion *c, const struct err *e)
{
	struct session_fork *f = c->arg;
	struct err why;

	if (e == NULL && f->early && f->memory->base < 0) {
		(void)err_set(&why, ERR_INVALID, "the memory of a guest came as a whole");
		e = &why;
	}
	if (e != NULL || (!f->early && !find_again(f, &why))) {
		fork_fail(f, e != NULL ? e : &why);
		return;
	}
	if (f->early) {
		take_changes(f->memory, f->image);
		f->waiting--;
		check_end(f);
		return;
	}
	f->image = take_image(f->memory, f->source);
	make_all(f, NULL, f->source->own); /* the layers below the memory, as in the source */
}

static void on_snapshot(struct completion *c, const struct err *e)
{
	struct session_fork *f = c->arg;
	struct err why;

	if (e != NULL || !find_again(f, &why)) {
		fork_fail(f, e != NULL ? e : &why);
		return;
	}
	snapshot_id(f->core, f->made.version, f->snapshot);
	make_all(f, template_row(f->made.version)->id, NULL);
}

/* Set up the image with the parts known before the memory is saved. */
static int begin_image(struct session_fork *f, struct err *e)
{
	struct session *s = f->source;
	struct guest_image *g;
	int base = fcntl(live_guest_base(s->cell), F_DUPFD_CLOEXEC, 0);

	if (base < 0)
		return err_sys(e, "memory of a guest");
	g = guest_image_new(f->source, f->memory->root);
	g->image[0] = base;
	g->pending = true;
	memcpy(g->held, s->row.image, sizeof(g->held));
	g->bytes = s->row.image_bytes;
	image_charge_use(f->core, s->tenant, g->held, g->bytes);
	f->image = g;
	return 0;
}

/* The cell of an only child is made, and its engine started, while the source is stopped and its
 * changes are written. This hides most of the child's start. */
static void begin_early(struct session_fork *f)
{
	f->early = true;
	make_all(f, NULL, f->source->own);
}

/* A guest's memory may hold secret values. They may not reach a child without a right to them. */
static void fork_remember(struct session_fork *f)
{
	struct err e;

	if (session_parts_check_memory(f->source, true, &e) < 0) {
		fork_fail(f, &e);
		return;
	}
	f->memory = session_memory_new(on_remembered, f);
	session_memory(f->source, "fork", 0, f->n, f->memory);
	/* Changes alone suffice only if the base image is known now. */
	if (f->n == 1 && session_memory_gives_changes(f->memory) && begin_image(f, &e) == 0)
		begin_early(f);
}

void session_fork(struct session *s, unsigned n, bool timeout_given, uint64_t timeout_ms,
		  bool keep_snapshot, const struct store_actor *who, struct session_fork *f)
{
	assert(n > 0 && n <= SESSION_FORK_MAX);
	f->core = s->core;
	f->source = s;
	f->tenant = s->tenant;
	f->n = n;
	f->timeout_given = timeout_given;
	f->timeout_ms = timeout_ms;
	f->by_snapshot = keep_snapshot;
	f->actor = store_actor_copy(who);
	f->fold = (struct layer_fold){ .job.fd = -1 };
	f->list = calloc(n, sizeof(*f->list));
	assert(f->list != NULL);
	completion_begin(&f->done, s->core->loop, NULL);
	f->capture.done = (struct completion){ .on_done = on_captured, .arg = f };
	f->made.done = (struct completion){ .on_done = on_snapshot, .arg = f };
	memcpy(f->id, s->row.id, sizeof(f->id));
	if (!keep_snapshot && cell_level_can(session_level(s), CELL_CAN_KEEP_MEMORY))
		fork_remember(f);
	else if (keep_snapshot)
		snapshot_make(s, NULL, 0, who, &f->made);
	else
		session_capture(s, "fork", false, &f->capture);
}

void session_fork_release(struct session_fork *f)
{
	bool unanswered = completion_is_waiting(&f->done);

	if (f->core == NULL)
		return;
	completion_cancel(&f->done);
	session_capture_cancel(&f->capture);
	layer_fold_release(&f->fold);
	session_memory_free(&f->memory);
	guest_image_unuse(f->image);
	f->image = NULL;
	snapshot_cancel(&f->made);
	if (unanswered)
		drop_children(f);
	session_capture_release(f->core, &f->capture);
	free(f->list);
	f->list = NULL;
	f->core = NULL;
}
