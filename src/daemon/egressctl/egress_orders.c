/* egress_orders.c - see egress_orders.h. A lane is in one of four places: idle (nothing waits, or
 * an order is unanswered), ready (in the list), held by its timer (its bytes are used up), or being
 * sent from. The bucket of bytes may go below zero, since the size of an order is known when it is
 * composed. The lane waits until it is above zero again. */
#include "daemon/egressctl/egress_orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/node/core.h"
#include "daemon/session/session.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

/* Of all processes together. A second's bytes take some 0.2 s of the loop that reads them. The
 * largest set of policies that a tenant may have is sent within EGRESS_ORPHAN_MS. */
#define BYTES_PER_SECOND ((int64_t)4 << 20)
#define BYTES_AT_ONCE ((int64_t)4 << 20)
#define ORDER_MIN 1024	       /* what the smallest order counts */
#define FULL ((size_t)1 << 20) /* bytes that wait for the socket: no order is composed then */
#define ANSWER_MS 30000
#define ASKING_SHARE 4

struct egress_lane {
	struct egress_lane *next;
	struct egress_orders *all;
	char tenant[STORE_ID_MAX];
	unsigned users; /* sessions, and a function that must find it when it returns */
	struct egress_order *first, **end;
	struct egress_lane *next_ready, **ready_link; /* ready_link is NULL while it is not */
	struct egress_order *under_way;
	struct loop_timer timer; /* held, or waiting for an answer */
	int64_t bytes;
	uint64_t refilled_ns;
	unsigned asking;
};

static struct loop *egress_orders_loop_of(const struct egress_lane *lane)
{
	return core_loop(lane->all->channel->core);
}

static void egress_orders_refill(struct egress_lane *lane, uint64_t now)
{
	unsigned n = lane->all->channel->all->n;
	uint64_t ms = (now - lane->refilled_ns) / CLOCK_MS;
	int64_t max = BYTES_AT_ONCE / n;

	if (ms > 60000)
		lane->bytes = max;
	else
		lane->bytes += (int64_t)ms * BYTES_PER_SECOND / n / 1000;
	if (lane->bytes > max)
		lane->bytes = max;
	lane->refilled_ns = ms > 60000 ? now : lane->refilled_ns + ms * CLOCK_MS;
}

static void egress_orders_not_ready(struct egress_lane *lane)
{
	struct egress_orders *all = lane->all;

	if (lane->ready_link == NULL)
		return;
	*lane->ready_link = lane->next_ready;
	if (lane->next_ready != NULL)
		lane->next_ready->ready_link = lane->ready_link;
	else
		all->end = lane->ready_link;
	lane->ready_link = NULL;
}

/* Put the lane where it belongs now. */
static void egress_orders_place(struct egress_lane *lane)
{
	struct egress_orders *all = lane->all;
	uint64_t now = clock_now_ns();
	unsigned n = all->channel->all->n;

	if (lane->first == NULL || lane->under_way != NULL || lane->ready_link != NULL)
		return;
	egress_orders_refill(lane, now);
	if (lane->bytes <= 0) {
		uint64_t ms = (uint64_t)(1 - lane->bytes) * 1000 * n / BYTES_PER_SECOND + 1;

		loop_timer_set(egress_orders_loop_of(lane), &lane->timer, now + ms * CLOCK_MS);
		return;
	}
	loop_timer_cancel(egress_orders_loop_of(lane), &lane->timer);
	lane->next_ready = NULL;
	lane->ready_link = all->end;
	*all->end = lane;
	all->end = &lane->next_ready;
	loop_defer(egress_orders_loop_of(lane), &all->send);
}

static void on_timer(struct loop_timer *t)
{
	struct egress_lane *lane = t->arg;

	/* It answers pings, which come behind the order, or the channel was gone already. */
	if (lane->under_way != NULL)
		egress_link_break(lane->all->channel, "it does not answer an order");
	else
		egress_orders_place(lane);
}

static void egress_orders_let_go(struct egress_lane *lane)
{
	struct egress_lane **at = &lane->all->lanes;

	if (--lane->users > 0)
		return;
	assert(lane->first == NULL && lane->under_way == NULL);
	while (*at != lane)
		at = &(*at)->next;
	*at = lane->next;
	egress_orders_not_ready(lane);
	loop_timer_cancel(egress_orders_loop_of(lane), &lane->timer);
	free(lane);
}

static struct egress_lane *egress_orders_lane_of(struct egress_order *o, struct session *s)
{
	struct egress_orders *all = &session_egress_link(s)->orders;
	const char *tenant = session_row(s)->tenant;
	struct egress_lane *lane = o->lane;

	if (lane != NULL)
		return lane;
	for (lane = all->lanes; lane != NULL && strcmp(lane->tenant, tenant) != 0;)
		lane = lane->next;
	if (lane == NULL) {
		lane = calloc(1, sizeof(*lane));
		assert(lane != NULL);
		lane->all = all;
		str_copy(lane->tenant, tenant);
		lane->end = &lane->first;
		lane->timer = (struct loop_timer){ .on_expire = on_timer, .arg = lane };
		lane->bytes = BYTES_AT_ONCE / all->channel->all->n;
		lane->refilled_ns = clock_now_ns();
		lane->next = all->lanes;
		all->lanes = lane;
	}
	lane->users++;
	o->lane = lane;
	o->session = s;
	return lane;
}

/* ---- orders */

static void egress_orders_unlink_order(struct egress_order *o)
{
	if (o->link == NULL)
		return;
	*o->link = o->next;
	if (o->next != NULL)
		o->next->link = o->link;
	else
		o->lane->end = o->link;
	o->link = NULL;
	if (o->lane->first == NULL)
		egress_orders_not_ready(o->lane);
}

static void egress_orders_over(struct egress_order *o)
{
	struct egress_lane *lane = o->lane;

	o->under_way = false;
	if (lane->under_way == o) {
		lane->under_way = NULL;
		loop_timer_cancel(egress_orders_loop_of(lane), &lane->timer);
	}
	egress_orders_place(lane);
}

void egress_order_want(struct egress_order *o, struct session *s)
{
	struct egress_lane *lane = egress_orders_lane_of(o, s);

	if (o->link != NULL)
		return;
	o->next = NULL;
	o->link = lane->end;
	*lane->end = o;
	lane->end = &o->next;
	egress_orders_place(lane);
}

bool egress_order_answered(struct egress_order *o)
{
	if (!o->under_way)
		return false;
	egress_orders_over(o);
	return true;
}

void egress_order_withdraw(struct egress_order *o)
{
	if (o->lane == NULL)
		return;
	egress_orders_unlink_order(o);
	if (o->under_way)
		egress_orders_over(o);
}

void egress_order_leave(struct egress_order *o)
{
	struct egress_lane *lane = o->lane;

	if (lane == NULL)
		return;
	egress_order_withdraw(o);
	o->lane = NULL;
	egress_orders_let_go(lane);
}

bool egress_order_may_ask(struct egress_order *o, struct session *s)
{
	unsigned share = egress_link_asking_max(session_egress_link(s)) / ASKING_SHARE;

	return egress_orders_lane_of(o, s)->asking < (share == 0 ? 1 : share);
}

void egress_order_asking(struct egress_order *o, int change)
{
	o->lane->asking = (unsigned)((int)o->lane->asking + change);
}

/* ---- the channel */

/* Send one order of the first ready lane. */
static void egress_orders_send_next(struct egress_orders *all)
{
	struct egress_lane *lane = all->ready;
	struct egress_order *o = lane->first;
	size_t sent;

	egress_orders_not_ready(lane);
	egress_orders_unlink_order(o);
	o->under_way = true;
	lane->under_way = o;
	loop_timer_set(egress_orders_loop_of(lane), &lane->timer,
		       clock_now_ns() + ANSWER_MS * CLOCK_MS);
	lane->users++;
	sent = session_egress_send(o->session); /* may withdraw it, and end sessions */
	lane->bytes -= (int64_t)(sent < ORDER_MIN ? ORDER_MIN : sent);
	egress_orders_let_go(lane);
}

/* One order in a turn: composing a long one takes milliseconds. */
static void on_send(struct loop_task *t)
{
	struct egress_orders *all = t->arg;

	if (all->ready == NULL || !egress_link_up(all->channel) ||
	    all->channel->channel.queued > FULL)
		return;
	egress_orders_send_next(all);
	egress_orders_go_on(all);
}

void egress_orders_go_on(struct egress_orders *all)
{
	if (all->ready != NULL && all->channel->channel.queued <= FULL)
		loop_defer(core_loop(all->channel->core), &all->send);
}

void egress_orders_init(struct egress_orders *all, struct egress_link *l)
{
	*all = (struct egress_orders){ .channel = l };
	all->end = &all->ready;
	all->send = (struct loop_task){ .on_run = on_send, .arg = all };
}

void egress_orders_release(struct egress_orders *all)
{
	loop_task_cancel(core_loop(all->channel->core), &all->send);
	assert(all->lanes == NULL);
}

void egress_orders_reset(struct egress_orders *all)
{
	loop_task_cancel(core_loop(all->channel->core), &all->send);
	for (struct egress_lane *lane = all->lanes; lane != NULL; lane = lane->next) {
		while (lane->first != NULL)
			egress_orders_unlink_order(lane->first);
		if (lane->under_way != NULL)
			egress_orders_over(lane->under_way);
	}
}
