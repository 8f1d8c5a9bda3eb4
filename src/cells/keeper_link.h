/* keeper_link.h - the keepers on cordond's loop: one queue of requests, several keepers.
 *
 * Every keeper has a slot: its channel A, and the requests it was sent and has not answered. It
 * answers in order; keepers do not wait for each other. A request goes to the keeper with the
 * fewest unanswered ones. Requests about one cell are not ordered among each other: their callers
 * have only one of them under way at a time.
 *
 * A keeper may exit at any moment and be replaced. Requests that it was sent and did not answer end
 * with REASON_PEER_DIED; requests of other keepers are not affected, and requests that were not
 * sent yet go to another keeper. A keeper that sends nothing for timeout_ms although an answer is
 * due, or to which a request cannot be sent although it has not exited, is treated as exited;
 * on_hung is called, which has it killed and replaced. An urgent request that was not sent within
 * twice that time ends with REASON_TIMEOUT.
 *
 * A call follows the rules of loop/completion.h, but its answer carries a descriptor: it is out of
 * its queue before done is called, done is called once and from the loop only, and a cancelled call
 * stays queued without a callback. */
#pragma once

#include "fd_reserve.h"
#include "keeper_msg.h"
#include "loop.h"

#define KEEPER_SLOTS_MAX 16

struct keeper_call;
struct keeper_link;

/* reply is NULL if e is not. fd: the descriptor that came along, the callee's; or -1. */
typedef void keeper_done_fn(void *arg, const struct keeper_reply *reply, int fd,
			    const struct err *e);

/* Which request is sent next, when several wait. */
enum keeper_priority {
	KEEPER_BACKGROUND, /* when nothing else waits: cells of the pool */
	KEEPER_URGENT,	   /* a client waits for it; takes turns with ends of cells */
};

struct keeper_queue {
	struct keeper_call *first, **end; /* oldest first */
	unsigned n;
};

struct keeper_slot {
	struct keeper_link *link;
	unsigned number;
	int sock; /* owned; -1: no keeper at the moment */
	struct loop_fd watch;
	bool greeted;
	bool hello_due;		  /* it has not sent HELLO yet */
	struct keeper_queue sent; /* waiting for their answers */
	struct keeper_queue ends; /* ends of cells that this keeper made, to be sent */
	uint64_t waits_ns;	  /* since when the oldest answer is due */
};

struct keeper_link {
	struct loop *loop;	    /* borrowed */
	struct fd_reserve *reserve; /* the owner's; NULL: none */
	unsigned nslots;
	struct keeper_slot slots[KEEPER_SLOTS_MAX];
	struct cell_restrictions restrictions;	 /* by the last HELLO */
	unsigned failed_starts;			 /* keepers that ended without HELLO, in a row */
	struct keeper_queue urgent, ends, spare; /* to be sent, to any of them */
	bool end_next;				 /* urgent and ends alternate: ends is next */
	uint64_t timeout_ms;			 /* set after keeper_link_init() to change it */
	struct loop_task send;
	struct loop_timer late;
	/* A keeper has sent HELLO. e: it cannot work. */
	void (*on_hello)(void *arg, unsigned slot, const struct err *e);
	/* The keeper does not answer, or its channel fails: it is to be killed and replaced. Called
	 * before its requests end. May be NULL. */
	void (*on_hung)(void *arg, unsigned slot);
	void *arg;
};

/* nslots: how many keepers there can be, at most KEEPER_SLOTS_MAX. */
void keeper_link_init(struct keeper_link *k, struct loop *l, unsigned nslots);
void keeper_link_release(struct keeper_link *k);

/* A new keeper's channel, taken over; the one in that slot before it has ended. */
int keeper_link_attach(struct keeper_link *k, unsigned slot, int sock, struct err *e) MUST_USE;

/* How many keepers can be asked now. */
unsigned keeper_link_greeted(const struct keeper_link *k);

/* Copies the request; fd (or -1) is taken over and sent along. done is called later, never from
 * inside. */
struct keeper_call *keeper_link_ask(struct keeper_link *k, const void *request, size_t len, int fd,
				    enum keeper_priority priority, keeper_done_fn *done, void *arg);

/* The end of a cell. It goes to the keeper in that slot, which made the cell and is the parent of
 * its PID 1, if there is one; -1 or a slot without a keeper: to any. */
struct keeper_call *keeper_link_ask_end(struct keeper_link *k, const struct keeper_named *request,
					int slot, keeper_done_fn *done, void *arg);

/* The slot of the keeper that answered. Inside done only. */
unsigned keeper_link_call_slot(const struct keeper_call *c);

/* The answer will be dropped (and its descriptor closed). */
void keeper_link_cancel(struct keeper_call *c);
