/* session_queue.c - see session_queue.h.
 *
 * The queues are served in turn, one session per tenant, so the longest queue gets no more than the
 * shortest. One tenant's burst may not use up the node's rate while another tenant waits.
 * session_begin() may fail and release its room: that only sets the timer, so that serving never
 * nests.
 */
#include "daemon/session/session_queue.h"

#include "daemon/node/core_private.h"
#include "daemon/session/session_alloc.h"
#include "daemon/session/session_lifecycle.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

/* Free the sessions whose client has gone while they waited. */
static void drop_abandoned(struct tenant *t)
{
	LIST_WALK_ENDING(struct session, s, t->queue) {
		/* alone: it has no waiter to call */
		if (s->when_running.first == NULL) {
			session_queue_remove(s);
			session_free(s);
		}
	}
}

static int queue_admit(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	uint64_t length = quota_queue_length(s);

	drop_abandoned(s->tenant);
	/* Waiting sessions come first. The room left after them is too small for them. */
	if (length == 0)
		session_queue_serve(s->core);
	if (s->core->queued == 0 || length == 0) {
		if (quota_fits(s, ret_retry_s, e) == 0) {
			quota_take(s);
			return 0;
		}
		if (length == 0)
			return -1;
	}
	if (s->tenant->queued < length)
		return 1;
	*ret_retry_s = 1;
	return err_set_reason(e, REASON_QUOTA_QUEUE, "the tenant's waiting sessions are %llu",
			      (unsigned long long)length);
}

/* Check the key's bounds first. A session beyond its key's bounds does not wait in the queue, where
 * it would block those of other keys. */
int session_queue_admit(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	int admitted = key_sessions_fit(s, ret_retry_s, e);

	if (admitted == 0)
		admitted = queue_admit(s, ret_retry_s, e);
	if (admitted >= 0)
		key_sessions_count(s);
	return admitted;
}

void session_queue_add(struct session *s)
{
	LIST_APPEND(&s->tenant->queue_end, s);
	s->tenant->queued++;
	s->core->queued++;
	session_queue_serve(s->core);
}

void session_queue_remove(struct session *s)
{
	if (s->link == NULL)
		return;
	LIST_REMOVE_FROM(&s->tenant->queue_end, s);
	s->tenant->queued--;
	s->core->queued--;
}

/* Serve one round: at most one session of each tenant. True if one was started. */
static bool serve_round(struct core *c)
{
	bool any = false;
	/* alone: a tenant stays in memory until cordond ends */
	struct tenant *first = c->next_tenant == NULL ? c->tenants : c->next_tenant;

	for (struct tenant *t = first; t != NULL;) {
		/* alone: as above */
		struct tenant *next = t->next == NULL ? c->tenants : t->next;
		struct session *s;
		struct err e;
		unsigned retry;

		drop_abandoned(t);
		s = t->queue;
		if (s != NULL && quota_fits(s, &retry, &e) == 0) {
			session_queue_remove(s);
			quota_take(s);
			c->next_tenant = next;
			any = true;
			session_begin(s);
		}
		t = next;
		if (t == first)
			break;
	}
	return any;
}

/* Milliseconds until the bucket has the tokens for one session. */
static uint64_t ms_for(uint64_t tokens, uint64_t rate_milli)
{
	if (rate_milli == 0 || tokens >= 1000)
		return 0;
	return ((1000 - tokens) * 1000 + rate_milli - 1) / rate_milli;
}

/* Sessions waiting for room are served when another session ends. Sessions waiting for their rate
 * need this timer. */
static void plan_timer(struct core *c)
{
	uint64_t node = ms_for(c->tokens_milli, c->o.config->node_create_rate_milli);
	uint64_t first = UINT64_MAX;

	for (const struct tenant *t = c->tenants; t != NULL; t = t->next) {
		uint64_t own = ms_for(t->tokens_milli, quota_rate_milli(c, t));

		own = own > node ? own : node;
		if (t->queue != NULL && own > 0 && own < first)
			first = own;
	}
	if (first != UINT64_MAX)
		loop_timer_set(c->loop, &c->queue_timer, clock_now_ns() + first * CLOCK_MS);
}

void session_queue_serve(struct core *c)
{
	if (c->queued == 0)
		return;
	while (serve_round(c))
		;
	plan_timer(c);
}

void session_queue_on_timer(struct loop_timer *t)
{
	session_queue_serve(t->arg);
}

void session_queue_refuse_all(struct tenant *t, const struct err *e)
{
	while (t->queue != NULL) {
		struct session *s = t->queue;

		session_queue_remove(s);
		session_free_for(s, e);
	}
}
