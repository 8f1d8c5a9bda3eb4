/* egress_orders.h - which session's configuration is sent to cordon-egress next.
 *
 * cordon-egress reads configurations in its only loop, for all tenants. So a session has at most
 * one order that waits and one that is not answered: an order is composed when it is sent, and has
 * everything that changed until then. Each tenant has a lane at each process: one of its orders at
 * a time is under way, and their bytes are paced. A tenant that changes much, or often, delays its
 * own changes only. Orders of all lanes wait here while the channel is full, so what is queued for
 * the socket is bounded.
 *
 * Called by session_egress.c for sessions, and by egress_link.c for the channel. */
#pragma once

#include "loop.h"

struct egress_lane;
struct egress_link;
struct session;

/* Embedded in what is kept for a session. All zeros: never used. */
struct egress_order {
	struct session *session;
	struct egress_lane *lane;	   /* NULL: it has not ordered anything yet */
	struct egress_order *next, **link; /* waiting; link is NULL while it does not */
	bool under_way;			   /* sent and not answered */
};

struct egress_orders {
	struct egress_link *channel;	  /* borrowed */
	struct egress_lane *lanes;	  /* owned: of all tenants with sessions there */
	struct egress_lane *ready, **end; /* those that may send, the next one first */
	struct loop_task send;
};

void egress_orders_init(struct egress_orders *o, struct egress_link *l);
void egress_orders_release(struct egress_orders *o);
/* The channel takes more bytes, or is new. */
void egress_orders_go_on(struct egress_orders *o);
/* The channel is lost: nothing waits and nothing is under way. */
void egress_orders_reset(struct egress_orders *o);

/* The session has something to send: session_egress_send() is called from the loop, once, when its
 * turn has come. No-op while it waits. One that is under way is sent again after its answer. */
void egress_order_want(struct egress_order *o, struct session *s);
/* Its answer has come. True: there was an order under way. */
bool egress_order_answered(struct egress_order *o);
/* Neither waits nor is under way any more. */
void egress_order_withdraw(struct egress_order *o);
/* The session leaves memory. */
void egress_order_leave(struct egress_order *o);

/* Requests to PID 1s of the tenant, of which each tenant has a share. */
bool egress_order_may_ask(struct egress_order *o, struct session *s);
void egress_order_asking(struct egress_order *o, int change);
