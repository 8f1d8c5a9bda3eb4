/* session_create.c - a session from a client's request, or from its row after a restart, until
 * session_lifecycle.c takes over; and the request to delete one (session.h). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allow.h"
#include "change_quota.h"
#include "clock.h"
#include "core_metrics.h"
#include "core_private.h"
#include "fd_budget.h"
#include "held_memory.h"
#include "quota.h"
#include "session.h"
#include "session_alloc.h"
#include "session_guest.h"
#include "session_level.h"
#include "session_lifecycle.h"
#include "session_parts.h"
#include "session_queue.h"
#include "session_save.h"
#include "session_spec.h"
#include "session_stop.h"
#include "session_timer.h"
#include "store_layer.h"
#include "template_stack.h"
#include "templates.h"
#include "tenant.h"

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

/* The memory image that its guest will map, by the name under which it counts: it must fit as the
 * session itself does. That of a snapshot is loaded for each session. */
static void set_image(struct session *s, const struct session_spec *spec)
{
	s->image = spec->image == NULL ? NULL : guest_image_use(spec->image);
	if (s->image != NULL) {
		memcpy(s->row.image, s->image->held, sizeof(s->row.image));
		s->row.image_bytes = s->image->bytes;
	} else if (template_has_memory(s->template) && s->own == NULL) {
		held_memory_name(s->row.image);
		s->row.image_bytes = template_row(s->template)->bytes;
	}
}

int session_create(struct core *c, struct tenant *t, const struct session_spec *spec,
		   struct completion *w, struct session **ret, unsigned *ret_retry_s, struct err *e)
{
	struct session *s;
	struct store_allow key;
	const char *why;
	int admitted;

	*ret_retry_s = 1;
	if (!core_ready(c, &why))
		return err_set_reason(e, REASON_UNAVAILABLE, "not ready: %s", why);
	if (tenant_check(t, e) < 0 || fd_budget_check(&c->cells.fds, e) < 0)
		return -1;
	session_timer_check_clock(c);
	s = session_new(c, t);
	session_set_actor(s, spec->actor);
	if (find_template(s, spec, e) < 0 || set_layers(s, spec, e) < 0 ||
	    session_spec_check(c, s->template, spec, &s->row, &s->texts, e) < 0 ||
	    allow_session(c, t, spec, &s->row, &key, e) < 0 ||
	    session_level_check_memory(s->template, &s->row, e) < 0 ||
	    change_quota_take(t, strlen(s->row.policy), e) < 0) {
		session_free(s);
		return -1;
	}
	(void)snprintf(s->row.tenant, sizeof(s->row.tenant), "%s", t->row.id);
	(void)snprintf(s->row.creator_key, sizeof(s->row.creator_key), "%s", s->actor.key_id);
	s->key_max = key.sessions;
	s->key_per_minute = key.creates_per_minute;
	set_image(s, spec);
	session_guest_set_origin(s);
	s->of_build = spec->of_build;
	s->goes_on = spec->image != NULL || template_has_memory(s->template);
	memcpy(s->source,
	       spec->image != NULL ? spec->image->source : template_row(s->template)->source,
	       sizeof(s->source));
	if (session_parts_check(s, e) < 0) {
		session_free(s);
		return -1;
	}
	admitted = session_queue_admit(s, ret_retry_s, e);
	if (admitted < 0) {
		core_metrics_refused(e->reason);
		session_free(s);
		return -1;
	}
	*ret = s;
	completion_begin(w, c->loop, &s->when_running);
	if (admitted == 0) {
		session_begin(s);
		return 0;
	}
	s->timer.on_expire = on_queue_timeout;
	loop_timer_set(c->loop, &s->timer, clock_now_ns() + quota_queue_ms(s) * CLOCK_MS);
	session_queue_add(s);
	return 0;
}

/* Reads the layers that the session has above those of its template. */
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

/* The texts of such a session are the row's own. */
struct session *session_restore(struct core *c, struct tenant *t, const char *id, struct err *e)
{
	struct session *s = session_new(c, t);

	if (store_session_get(c->store, id, &s->row, e) < 0) {
		session_free(s);
		return NULL;
	}
	/* A row of before version 17 of the store names no version: it was made from the host's. */
	s->template = template_use(s->row.template_id[0] != '\0'
					   ? templates_by_id(c, s->row.template_id)
					   : templates_find(c, NULL, s->row.template));
	if (load_layers(s, e) < 0) {
		session_free(s);
		return NULL;
	}
	s->restored = true;
	session_list_in(s);
	quota_count(s);
	s->key_counted = true;
	session_parts_restored(s);
	return s;
}

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
