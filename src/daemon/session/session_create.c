/* session_create.c - makes a session from a client's request, or from its row after a restart,
 * until session_lifecycle.c takes over, and deletes one on request (session.h).
 *
 * A create passes the gates in the order of the table `gates`. A refused session is freed, and
 * nothing of it is in the store.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/guest/guest_image.h"
#include "daemon/guest/session_guest.h"
#include "daemon/guest/session_level.h"
#include "daemon/node/core.h"
#include "daemon/node/core_metrics.h"
#include "daemon/node/core_private.h"
#include "daemon/session/redact.h"
#include "daemon/session/session.h"
#include "daemon/session/session_alloc.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_lifecycle.h"
#include "daemon/session/session_queue.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_spec.h"
#include "daemon/session/session_stop.h"
#include "daemon/store/store_layer.h"
#include "daemon/store/store_once.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/tenant/allow.h"
#include "daemon/tenant/image_charge.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

bool session_drop_queued(struct session *s, const struct err *why)
{
	if (s->row.id[0] != '\0')
		return false;
	session_queue_remove(s);
	session_free_for(s, why);
	return true;
}

static void on_queue_timeout(struct loop_timer *t)
{
	struct session *s = t->arg;
	struct err e;

	(void)err_set_reason(&e, REASON_QUEUE_TIMEOUT, "no room within %llu ms",
			     (unsigned long long)quota_queue_ms(s));
	core_metrics_refused(e.reason);
	(void)session_drop_queued(s, &e);
}

/* A caller inside the server may name a version, which need not be the current one of a template.
 */
static int find_template(struct session *s, const struct session_spec *spec, struct err *e)
{
	const char *name = spec->template != NULL && *spec->template != '\0'
				   ? spec->template
				   : s->core->o.config->template;

	s->template =
		template_use(spec->version != NULL ? templates_by_id(s->core, spec->version)
						   : templates_find(s->core, s->tenant, name));
	if (s->template == NULL)
		return templates_missing(s->core, s->tenant, name, e);
	return 0;
}

static int set_layers(struct session *s, const struct session_spec *spec, struct err *e)
{
	struct template_stack own = { 0 };

	if (spec->nlayers == 0)
		return 0;
	if (template_stack_push(&own, spec->layers, spec->nlayers, e) < 0)
		return -1;
	s->own = malloc(sizeof(*s->own));
	assert(s->own != NULL);
	*s->own = own;
	return 0;
}

/* Set the memory image that the guest will map, and its name for the quota: the image must fit as
 * the session itself does. The memory of a snapshot is loaded for each session, so it gets a name
 * of its own. */
static void set_image(struct session *s, const struct session_spec *spec)
{
	s->guest.image = spec->image == NULL ? NULL : guest_image_use(spec->image);
	if (s->guest.image != NULL) {
		memcpy(s->row.image, s->guest.image->held, sizeof(s->row.image));
		s->row.image_bytes = s->guest.image->bytes;
	} else if (template_has_memory(s->template) && s->own == NULL) {
		image_charge_name(s->row.image);
		s->row.image_bytes = template_row(s->template)->bytes;
	}
}

/* ---- the gates of a create */

/* A create on its way through the gates. */
struct creation {
	struct core *core;
	struct tenant *tenant;
	const struct session_spec *spec;
	struct session *session; /* owned until all gates are passed. NULL before make_session() */
	struct store_allow key;	 /* the bounds of the client's key */
	unsigned *ret_retry_s;
	bool waits; /* no room now, and the session may wait for it */
};

static int pass_ready(struct creation *g, struct err *e)
{
	return core_check_ready(g->core, e);
}

static int pass_tenant(struct creation *g, struct err *e)
{
	return tenant_check(g->tenant, e);
}

static int pass_descriptors(struct creation *g, struct err *e)
{
	return fd_budget_check(&g->core->cells.fds, e);
}

/* The clock is checked first, because the row gets wall clock times. */
static int make_session(struct creation *g, struct err *e)
{
	session_timer_check_clock(g->core);
	g->session = session_new(g->core, g->tenant);
	session_set_actor(g->session, g->spec->actor);
	return 0;
}

/* The template is held from here until session_free(). */
static int pass_template(struct creation *g, struct err *e)
{
	return find_template(g->session, g->spec, e);
}

static int pass_layers(struct creation *g, struct err *e)
{
	return set_layers(g->session, g->spec, e);
}

static int pass_spec(struct creation *g, struct err *e)
{
	struct session *s = g->session;
	struct session_spec spec = *g->spec;
	char redact[REDACT_ALL_TEXT_MAX];

	/* What the tenant wants covered is a part of the session from its create on. */
	if (redact_join(g->tenant->row.redact, spec.redact, redact, e) < 0)
		return -1;
	spec.redact = redact;
	return session_spec_check(g->core, s->template, &spec, &s->row, &s->texts, e) < 0
		       ? -1
		       : session_mask_begin(s, e);
}

/* A key may allow less than the tenant. Its bounds apply to the resulting row, not to the request.
 */
static int pass_key(struct creation *g, struct err *e)
{
	return allow_session(g->core, g->tenant, g->spec, &g->session->row, &g->key, e);
}

static int pass_memory_level(struct creation *g, struct err *e)
{
	return session_level_check_memory(g->session->template, &g->session->row, e);
}

static int pass_change_quota(struct creation *g, struct err *e)
{
	return change_quota_take(g->tenant, strlen(g->session->row.policy), e);
}

static int complete_row(struct creation *g, struct err *e)
{
	const struct session_spec *spec = g->spec;
	struct session *s = g->session;

	str_copy(s->row.tenant, g->tenant->row.id);
	str_copy(s->row.creator_key, s->actor.key_id);
	s->quota.key_max = g->key.sessions;
	s->quota.key_per_minute = g->key.creates_per_minute;
	set_image(s, spec);
	session_guest_set_origin(s);
	s->quota.of_build = spec->of_build;
	s->guest.from_memory = spec->image != NULL || template_has_memory(s->template);
	memcpy(s->guest.source,
	       spec->image != NULL ? spec->image->source : template_row(s->template)->source,
	       sizeof(s->guest.source));
	return 0;
}

static int pass_parts(struct creation *g, struct err *e)
{
	return session_parts_check(g->session, e);
}

static int pass_admission(struct creation *g, struct err *e)
{
	int admitted = session_queue_admit(g->session, g->ret_retry_s, e);

	if (admitted < 0)
		core_metrics_refused(e->reason);
	g->waits = admitted > 0;
	return admitted < 0 ? -1 : 0;
}

/* The order matters. A gate may use everything that the gates before it have set, and cheap
 * refusals come first. No gate before the last two leaves a trace outside the session, except the
 * change quota. */
static int (*const gates[])(struct creation *g, struct err *e) = {
	/* About the server and the tenant: refused before anything is allocated. */
	pass_ready,	  /* a keeper answers, and recovery has ended */
	pass_tenant,	  /* the tenant was not removed */
	pass_descriptors, /* each session needs descriptors until its end */
	make_session,	  /* from here on a refusal frees the session */
	/* About the request: these gates fill in the row of the session. */
	pass_template, /* its row has the defaults for the gates that follow */
	pass_layers,   /* above those of the template */
	pass_spec,     /* each setting within its bound. Writes the row */
	pass_key,      /* needs the row: a key bounds the resulting settings, defaults included */
	pass_memory_level, /* needs the row: can its level begin with the memory of the template? */
	pass_change_quota, /* takes bytes of the tenant's bucket: only for a valid request */
	complete_row,	   /* cannot refuse: the values that the last gates count */
	pass_parts,	   /* secrets and network access check the complete row */
	/* About the room: counts the session, so it is last. Nothing has to be given back on
	 * failure. */
	pass_admission,
};

int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s, struct err *e)
{
	struct creation g = { .core = c, .tenant = t, .spec = spec, .ret_retry_s = ret_retry_s };
	struct session *s;

	*ret_retry_s = 1;
	for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++)
		if (gates[i](&g, e) < 0) {
			if (g.session != NULL)
				session_free(g.session);
			return -1;
		}
	*ret = s = g.session;
	if (spec->once != NULL) {
		s->once = malloc(sizeof(*s->once));
		assert(s->once != NULL);
		*s->once = *spec->once;
	}
	completion_begin(w, c->loop, &s->when_running);
	if (!g.waits) {
		session_begin(s);
		return 0;
	}
	s->timer.on_expire = on_queue_timeout;
	loop_timer_set(c->loop, &s->timer, clock_now_ns() + quota_queue_ms(s) * CLOCK_MS);
	session_queue_add(s);
	return 0;
}

/* ---- from a row */

/* Read the session's own layers, those above the layers of its template. */
static int load_layers(struct session *s, struct err *e)
{
	struct template_stack own = { 0 };
	int n = store_layer_used(s->core->store, STORE_LAYER_OF_SESSION, s->row.id, own.layers,
				 TEMPLATE_STACK_MAX, e);

	if (n <= 0)
		return n;
	own.nlayers = (size_t)n < TEMPLATE_STACK_MAX ? (size_t)n : TEMPLATE_STACK_MAX;
	s->own = malloc(sizeof(*s->own));
	assert(s->own != NULL);
	*s->own = own;
	return 0;
}

/* The texts of a restored session belong to its row. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id, struct err *e)
{
	struct session *s = session_new(c, t);

	if (store_session_get(c->store, id, &s->row, e) < 0) {
		session_free(s);
		return NULL;
	}
	/* A row older than version 17 of the store names no version: it was made from the host's.
	 */
	s->template = template_use(s->row.template_id[0] != '\0'
					   ? templates_by_id(c, s->row.template_id)
					   : templates_find(c, NULL, s->row.template));
	if (load_layers(s, e) < 0 || session_mask_begin(s, e) < 0) {
		session_free(s);
		return NULL;
	}
	s->restored = true;
	session_list_in(s);
	quota_count(s);
	s->quota.key = true;
	session_parts_restored(s);
	return s;
}

/* Before recovery a session of the store may have a cell, so it cannot be deleted as a mere row. */
int session_delete(struct core *c, const struct tenant *t, const char *id,
		   const struct store_actor *who, struct err *e)
{
	struct session *s = session_by_id(c, id);
	struct store_session row;

	if (s != NULL && s->tenant == t) {
		session_stop_for(s, who, SESSION_DELETED, "deleted by a client");
		return 0;
	}
	if (!c->recovered)
		return err_set_reason(e, REASON_UNAVAILABLE, "not ready: recovering");
	if (session_get(c, t, id, &row, e) < 0)
		return -1;
	store_session_release(&row);
	return 0;
}
