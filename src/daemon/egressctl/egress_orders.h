/* egress_orders.h - which session's configuration is sent to cordon-egress next.
 *
 * cordon-egress reads configurations in its only loop, for all tenants. So a session has at most
 * one waiting and one unanswered order: an order is composed when it is sent, and has everything
 * that changed until then. Each tenant has a lane at each process: one of its orders at a time is
 * unanswered, and their bytes are paced. A tenant that changes much, or often, delays its own
 * changes only. Orders of all lanes wait here while the channel is full, so the bytes queued for
 * the socket are bounded.
 *
 * Called by session_egress.c for sessions, and by egress_link.c for the channel. */
#pragma once

#include <stdbool.h>

struct egress_order;
struct egress_orders;
struct egress_link;
struct session;

void egress_orders_init(struct egress_orders *o, struct egress_link *l);
void egress_orders_release(struct egress_orders *o);
/* The channel takes more bytes, or is new. */
void egress_orders_go_on(struct egress_orders *o);
/* The channel is lost: nothing waits and nothing is unanswered. */
void egress_orders_reset(struct egress_orders *o);

/* The session has something to send: session_egress_send() is called from the loop, once, when its
 * turn has come. No-op while it waits. An unanswered one is sent again after its answer. */
void egress_order_want(struct egress_order *o, struct session *s);
/* Its answer has come. True: there was an unanswered order. */
bool egress_order_answered(struct egress_order *o);
/* It neither waits nor is unanswered any more. */
void egress_order_withdraw(struct egress_order *o);
/* The session leaves memory. */
void egress_order_leave(struct egress_order *o);

/* Requests to PID 1s of the tenant, of which each tenant has a share. */
bool egress_order_may_ask(struct egress_order *o, struct session *s);
void egress_order_asking(struct egress_order *o, int change);
