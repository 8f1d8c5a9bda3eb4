/* keeper_link.h - the keepers on cordond's loop: one queue of requests, several keepers.
 *
 * Every keeper has a slot: its channel A, and the requests it was sent and has not answered. It
 * answers in order. Keepers do not wait for each other. A request goes to the keeper with the
 * fewest unanswered ones. Requests about one cell are not ordered among each other: their callers
 * have only one of them in progress at a time.
 *
 * Each request belongs to a tenant. Those that wait have a lane for each tenant (lib/base/lanes.h),
 * so a tenant that creates, pauses or ends many sessions at once delays only its own requests.
 *
 * A keeper may exit at any moment and be replaced. Its unanswered requests end with
 * REASON_PEER_DIED. Requests of other keepers are not affected, and unsent requests go to another
 * keeper. A keeper that sends nothing for timeout_ms although an answer is due, or to which a
 * request cannot be sent although it has not exited, is treated as exited. on_hung is called and
 * has it killed and replaced. An urgent request still unsent after twice that time ends with
 * REASON_TIMEOUT.
 *
 * A call follows the rules of lib/loop/completion.h, but its answer carries a descriptor: it is out
 * of its queue before done is called, done is called once and from the loop only, and a cancelled
 * call stays queued without a callback. */
#pragma once

#include "lib/base/fd_reserve.h"
#include "lib/base/lanes.h"
#include "lib/channel/channel.h"
#include "lib/wire/keeper_msg.h"

#define KEEPER_SLOTS_MAX 16

struct keeper_call;
struct keeper_link;

/* reply is NULL if e is not. fd: the descriptor of the reply, owned by the callee, or -1. */
typedef void keeper_done_fn(void *arg, const struct keeper_reply *reply, int fd,
			    const struct err *e);

/* The order of waiting requests. */
enum keeper_priority {
	KEEPER_BACKGROUND, /* when nothing else waits: cells of the pool */
	KEEPER_URGENT,	   /* a client waits for it. Takes turns with ends of cells */
};

struct keeper_calls {
	struct keeper_call *first, **end; /* list.h: oldest first */
	unsigned n;
};

struct keeper_slot {
	struct keeper_link *link;
	unsigned number;
	struct channel channel; /* up while there is a keeper */
	bool greeted;
	bool hello_due;		  /* it has not sent HELLO yet */
	struct keeper_calls sent; /* waiting for their answers */
	struct lanes ends;	  /* ends of cells that this keeper made */
};

struct keeper_link {
	struct loop *loop;	    /* borrowed */
	struct fd_reserve *reserve; /* the owner's. NULL: none */
	unsigned nslots;
	struct keeper_slot slots[KEEPER_SLOTS_MAX];
	struct cell_restrictions restrictions; /* by the last HELLO */
	unsigned failed_starts;		       /* keepers that ended without HELLO, in a row */
	uint64_t ended_ns;		       /* when the last one ended. 0: none has */
	struct lanes urgent, ends, spare;      /* for any of them */
	struct keeper_calls unsent;	       /* the urgent ones to be sent, of all tenants */
	bool end_next;			       /* urgent and ends alternate: ends is next */
	uint64_t timeout_ms;		       /* set after keeper_link_init() to change it */
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

/* A new keeper's channel, taken over. The earlier one of that slot has ended. */
int keeper_link_attach(struct keeper_link *k, unsigned slot, int sock, struct err *e) MUST_USE;

/* How many keepers can be asked now. */
unsigned keeper_link_greeted(const struct keeper_link *k);

/* Is there no keeper only because the last one ended a moment ago? Its successor is being started,
 * and requests wait for it. */
bool keeper_link_is_renewing(const struct keeper_link *k);

/* Copy the request. Take fd (or -1) over and send it along. tenant: whose work it is, "" is the
 * server's own. done is called later, never from inside. */
struct keeper_call *keeper_link_ask(struct keeper_link *k, const char *tenant, const void *request,
				    size_t len, int fd, enum keeper_priority priority,
				    keeper_done_fn *done, void *arg);
#define KEEPER_LINK_FDS 2
/* As above, with several descriptors, the first ones other than -1. */
struct keeper_call *keeper_link_ask_with(struct keeper_link *k, const char *tenant,
					 const void *request, size_t len,
					 const int fds[KEEPER_LINK_FDS],
					 enum keeper_priority priority, keeper_done_fn *done,
					 void *arg);

/* The end of a cell. It goes to the keeper in that slot, which made the cell and is the parent of
 * its PID 1, if there is one. -1 or a slot without a keeper: to any. */
struct keeper_call *keeper_link_ask_end(struct keeper_link *k, const char *tenant,
					const struct keeper_named *request, int slot,
					keeper_done_fn *done, void *arg);

/* The slot of the keeper that answered. Inside done only. */
unsigned keeper_link_call_slot(const struct keeper_call *c);

/* The answer will be dropped (and its descriptor closed). */
void keeper_link_cancel(struct keeper_call *c);
