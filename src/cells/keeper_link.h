/* keeper_link.h - channel A on the loop: requests in order, answers in order.
 *
 * A keeper may die at any moment and be replaced. What was asked of the dead one and not answered
 * is told as ERR_SYSTEM with sys = EPIPE; what was not sent yet goes to the next one. A keeper that
 * is silent for timeout_ms while it owes an answer counts as dead, and on_hung asks for another.
 * What is urgent and could not even be sent in twice that time ends with ETIMEDOUT.
 *
 * A call is a completion in all but its type, as its answer brings a descriptor along: it is out of
 * its queue before done is called, done comes once and from the loop only, and a cancelled call
 * stays queued without a callback. */
#pragma once

#include "fd_reserve.h"
#include "keeper_msg.h"
#include "loop.h"

struct keeper_call;

/* reply is NULL if e is not. fd: the descriptor that came along, the callee's; or -1. */
typedef void keeper_done_fn(void *arg, const struct keeper_reply *reply, int fd,
			    const struct err *e);

struct keeper_queue {
	struct keeper_call *first, **end; /* oldest first */
	unsigned n;
};

struct keeper_link {
	struct loop *loop;	    /* borrowed */
	int sock;		    /* owned; -1: no keeper at the moment */
	struct fd_reserve *reserve; /* the owner's; NULL: none */
	struct loop_fd watch;
	bool greeted;
	struct cell_restrictions restrictions;
	struct keeper_queue urgent, patient, sent; /* sent: waiting for their answers */
	bool patient_next;
	bool hello_due;	     /* it has not said yet what it is */
	uint64_t timeout_ms; /* set after keeper_link_init() to change it */
	uint64_t waits_ns;   /* since when the oldest answer is due */
	struct loop_timer late;
	void (*on_hello)(void *arg, const struct err *e); /* a keeper is there, or cannot be */
	void (*on_hung)(void *arg); /* it does not answer, and was given up; may be NULL */
	void *arg;
};

void keeper_link_init(struct keeper_link *k, struct loop *l);
void keeper_link_release(struct keeper_link *k);

/* A new keeper's channel, taken over. */
int keeper_link_attach(struct keeper_link *k, int sock, struct err *e) MUST_USE;

/* Copies the request; fd (or -1) is taken over and sent along. urgent ones go before patient ones,
 * or in turn with them when many of those wait. done is called later, never from inside. */
struct keeper_call *keeper_link_ask(struct keeper_link *k, const void *request, size_t len, int fd,
				    bool urgent, keeper_done_fn *done, void *arg);

/* The answer will be dropped (and its descriptor closed). */
void keeper_link_cancel(struct keeper_call *c);
