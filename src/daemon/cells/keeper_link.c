/* keeper_link.c - see keeper_link.h.
 *
 * Requests are sent by a task of the loop (send), so that done is never called from inside of
 * keeper_link_ask(), and after each answer. A keeper is sent at most IN_FLIGHT_MAX requests at a
 * time: it has the next one while its answer is received. More would wait in its socket although
 * another keeper may be free. */
#include "daemon/cells/keeper_link.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/own.h"

#define IN_FLIGHT_MAX 2
#define TIMEOUT_MS 30000

struct keeper_call {
	struct lane_item lane;		  /* until it is answered or lost. The first member */
	struct lanes *lanes;		  /* that it is in */
	struct keeper_call *next, **link; /* list.h: unsent and urgent, or sent */
	keeper_done_fn *done;		  /* NULL: cancelled */
	void *arg;
	int fds[KEEPER_LINK_FDS]; /* owned until sent, the first ones. -1: none */
	unsigned slot;
	size_t len;
	uint64_t asked_ns;
	uint32_t op;
	_Alignas(8) uint8_t request[];
};

static int on_message(struct channel *c, const struct channel_got *got, struct err *e);
static void on_end(struct channel *c, enum channel_end how, const char *why);
static void on_hung(struct channel *c, const char *why);
static void on_room(struct channel *c);
static void on_late(struct loop_timer *t);
static void on_send(struct loop_task *t);

#define EXITED "the keeper exited"

/* ---- queues */

static void calls_init(struct keeper_calls *q)
{
	*q = (struct keeper_calls){ .end = &q->first };
}

static void calls_add(struct keeper_calls *q, struct keeper_call *c)
{
	LIST_APPEND(&q->end, c);
	q->n++;
}

static void calls_remove(struct keeper_calls *q, struct keeper_call *c)
{
	if (c->link == NULL)
		return;
	LIST_REMOVE_FROM(&q->end, c);
	q->n--;
}

static struct keeper_call *call_of(struct lane_item *i)
{
	return (struct keeper_call *)i; /* its first member */
}

static void call_free(struct keeper_call *c)
{
	lanes_remove(c->lanes, &c->lane);
	io_close_all(c->fds, KEEPER_LINK_FDS);
	free(c);
}

static void lanes_release(struct keeper_link *k, struct lanes *l)
{
	struct keeper_call *c;

	while ((c = call_of(lanes_each(l, NULL))) != NULL) {
		calls_remove(&k->unsent, c);
		call_free(c);
	}
}

void keeper_link_init(struct keeper_link *k, struct loop *l, unsigned nslots)
{
	static const struct channel_rules rules = { .peer = "the keeper",
						    .in_max = sizeof(struct keeper_reply),
						    .fds_max = IO_FDS_MAX,
						    .lend = 1 };

	assert(nslots >= 1 && nslots <= KEEPER_SLOTS_MAX);
	*k = (struct keeper_link){ .loop = l,
				   .nslots = nslots,
				   .timeout_ms = TIMEOUT_MS,
				   .send = { .on_run = on_send, .arg = k },
				   .late = { .on_expire = on_late, .arg = k } };
	calls_init(&k->unsent);
	for (unsigned i = 0; i < nslots; i++) {
		struct keeper_slot *s = &k->slots[i];

		s->link = k;
		s->number = i;
		channel_init(&s->channel, l, &rules);
		s->channel.arg = s;
		s->channel.on_message = on_message;
		s->channel.on_end = on_end;
		s->channel.on_hung = on_hung;
		s->channel.on_room = s->channel.on_turn = on_room;
		calls_init(&s->sent);
	}
}

void keeper_link_release(struct keeper_link *k)
{
	loop_timer_cancel(k->loop, &k->late);
	loop_task_cancel(k->loop, &k->send);
	for (unsigned i = 0; i < k->nslots; i++) {
		struct keeper_slot *s = &k->slots[i];

		channel_release(&s->channel);
		while (s->sent.first != NULL) {
			struct keeper_call *c = s->sent.first;

			calls_remove(&s->sent, c);
			call_free(c);
		}
		lanes_release(k, &s->ends);
	}
	lanes_release(k, &k->urgent);
	lanes_release(k, &k->ends);
	lanes_release(k, &k->spare);
}

unsigned keeper_link_greeted(const struct keeper_link *k)
{
	unsigned n = 0;

	for (unsigned i = 0; i < k->nslots; i++)
		n += k->slots[i].greeted;
	return n;
}

/* A keeper starts within milliseconds. A client should not see that one was replaced. */
#define RENEWAL_NS (3000 * CLOCK_MS)

bool keeper_link_is_renewing(const struct keeper_link *k)
{
	return keeper_link_greeted(k) == 0 && k->failed_starts == 0 && k->ended_ns != 0 &&
	       clock_now_ns() - k->ended_ns < RENEWAL_NS;
}

/* ---- ends of calls */

/* The call is in no list any more. */
static void keeper_link_finish(struct keeper_call *c, const struct keeper_reply *reply, int fd,
			       const struct err *e)
{
	OWN_FD mine = fd;

	lanes_remove(c->lanes, &c->lane);
	if (c->done != NULL)
		c->done(c->arg, reply, TAKE_FD(mine), e);
	call_free(c);
}

/* Requests queued for an exited keeper, but unsent, go to any other keeper. */
static void pass_ends_on(struct keeper_slot *s)
{
	struct lane_item *i = NULL;

	while ((i = lanes_each(&s->ends, i)) != NULL)
		call_of(i)->lanes = &s->link->ends;
	lanes_move(&s->ends, &s->link->ends);
}

/* The keeper of that slot has exited. Requests that it did not answer end with an error. Callers
 * may send them again, because every request can be repeated. */
static void on_end(struct channel *channel, enum channel_end how, const char *why)
{
	struct keeper_slot *s = channel->arg;
	struct keeper_link *k = s->link;
	struct keeper_calls lost;
	struct keeper_call *c;
	struct err e;

	calls_init(&lost);
	while ((c = s->sent.first) != NULL) {
		calls_remove(&s->sent, c);
		calls_add(&lost, c);
		lanes_remove(c->lanes, &c->lane);
	}
	k->failed_starts += s->hello_due;
	k->ended_ns = clock_now_ns();
	s->greeted = s->hello_due = false;
	pass_ends_on(s);
	loop_defer(k->loop, &k->send);
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while ((c = lost.first) != NULL) { /* callers may ask again at once */
		calls_remove(&lost, c);
		keeper_link_finish(c, NULL, -1, &e);
	}
}

/* A keeper that may still run is killed: it may hang, and then it does not see that its channel is
 * closed. on_hung is called before its requests end, so that it is dead before they are sent
 * again. */
static void on_hung(struct channel *channel, const char *why)
{
	struct keeper_slot *s = channel->arg;
	struct keeper_link *k = s->link;

	log_error("keeper is to be replaced", "slot=%u calls=%u error=%s", s->number, s->sent.n,
		  why);
	if (k->on_hung != NULL)
		k->on_hung(k->arg, s->number);
}

/* ---- time */

static void plan_late(struct keeper_link *k)
{
	if (k->unsent.first == NULL)
		loop_timer_cancel(k->loop, &k->late);
	else
		loop_timer_set(k->loop, &k->late,
			       k->unsent.first->asked_ns + 2 * k->timeout_ms * CLOCK_MS);
}

static void on_late(struct loop_timer *t)
{
	struct keeper_link *k = t->arg;
	uint64_t now = clock_now_ns();
	struct keeper_call *c;
	struct err e;

	(void)err_set_reason(&e, REASON_TIMEOUT, "the keeper does not answer");
	while ((c = k->unsent.first) != NULL && c->asked_ns + 2 * k->timeout_ms * CLOCK_MS <= now) {
		calls_remove(&k->unsent, c);
		keeper_link_finish(c, NULL, -1, &e);
	}
	plan_late(k);
}

/* ---- sending */

/* The keeper's next request: ends of its own cells come before those of others. */
static struct keeper_call *next_call(const struct keeper_slot *s)
{
	const struct keeper_link *k = s->link;
	struct lane_item *urgent = lanes_next(&k->urgent, UINT_MAX),
			 *end = lanes_next(&s->ends, UINT_MAX);

	if (end == NULL)
		end = lanes_next(&k->ends, UINT_MAX);
	if (urgent != NULL && (end == NULL || !k->end_next))
		return call_of(urgent);
	return call_of(end != NULL ? end : lanes_next(&k->spare, UINT_MAX));
}

/* The keeper with the fewest unanswered requests, among those with room and work. */
static struct keeper_slot *next_slot(struct keeper_link *k)
{
	struct keeper_slot *best = NULL;

	for (unsigned i = 0; i < k->nslots; i++) {
		struct keeper_slot *s = &k->slots[i];

		if (!s->greeted || s->sent.n >= IN_FLIGHT_MAX || channel_is_full(&s->channel) ||
		    next_call(s) == NULL)
			continue;
		if (best == NULL || s->sent.n < best->sent.n)
			best = s;
	}
	return best;
}

static size_t call_fds(const struct keeper_call *c)
{
	size_t n = 0;

	while (n < KEEPER_LINK_FDS && c->fds[n] >= 0)
		n++;
	return n;
}

static void send_one(struct keeper_slot *s)
{
	struct keeper_link *k = s->link;
	struct keeper_call *c = next_call(s);

	if (channel_offer(&s->channel, &(struct channel_msg){ .bytes = c->request,
							      .len = c->len,
							      .fds = c->fds,
							      .nfds = call_fds(c) }) != 1)
		return; /* c stays queued, for this keeper or another one */
	if (c->lanes != &k->spare)
		k->end_next = c->lanes == &k->urgent;
	if (s->sent.first == NULL)
		channel_expect(&s->channel, k->timeout_ms);
	c->slot = s->number;
	calls_remove(&k->unsent, c);
	lanes_serve(c->lanes, &c->lane);
	calls_add(&s->sent, c);
}

static void on_send(struct loop_task *t)
{
	struct keeper_link *k = t->arg;
	struct keeper_slot *s;

	while ((s = next_slot(k)) != NULL)
		send_one(s);
	plan_late(k);
}

/* ---- answers */

static void on_hello(struct keeper_slot *s, const struct keeper_reply *reply)
{
	struct keeper_link *k = s->link;

	s->greeted = reply->err.code == ERR_NONE;
	s->hello_due = false;
	channel_expect(&s->channel, 0);
	k->failed_starts = 0;
	if (s->greeted)
		k->restrictions = reply->restrictions;
	k->on_hello(k->arg, s->number, s->greeted ? NULL : &reply->err);
}

static void on_reply(struct keeper_slot *s, const struct keeper_reply *reply, int fd)
{
	OWN_FD mine = fd;
	struct keeper_call *c = s->sent.first;
	struct err e = reply->err;

	if (reply->version != KEEPER_VERSION) {
		log_error("keeper of another version", "version=%u", reply->version);
		channel_end(&s->channel, EXITED);
		return;
	}
	if (reply->op == KEEPER_HELLO && !s->greeted) {
		on_hello(s, reply);
		return;
	}
	if (c == NULL || c->op != reply->op) {
		/* A keeper answers a malformed request with HELLO and an error. */
		log_error("protocol error from keeper", "op=%u error=%s", reply->op, e.msg);
		channel_end(&s->channel, EXITED);
		return;
	}
	calls_remove(&s->sent, c);
	/* The next one has its own time. */
	channel_expect(&s->channel, s->sent.first == NULL ? 0 : s->link->timeout_ms);
	if (e.code != ERR_NONE)
		keeper_link_finish(c, NULL, -1, &e);
	else
		keeper_link_finish(c, reply, TAKE_FD(mine), NULL);
}

static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct keeper_slot *s = c->arg;
	struct keeper_reply reply;

	if (got->len != sizeof(reply) || got->fds_lost) {
		channel_end(c, EXITED);
		return 0;
	}
	memcpy(&reply, got->bytes, sizeof(reply));
	if (reply.err.code != ERR_NONE)
		err_sanitize(&reply.err);
	on_reply(s, &reply, channel_take_fd(c));
	return 0;
}

static void on_room(struct channel *c)
{
	on_send(&((struct keeper_slot *)c->arg)->link->send);
}

/* ---- what callers use */

int keeper_link_attach(struct keeper_link *k, unsigned slot, int sock, struct err *e)
{
	OWN_FD mine = sock;
	struct keeper_slot *s;

	if (slot >= k->nslots)
		return err_set(e, ERR_INVALID, "keeper: slot %u of %u", slot, k->nslots);
	s = &k->slots[slot];
	/* A reply that arrives without its descriptor would be treated as the exit of the keeper.
	 */
	s->channel.rules.reserve = k->reserve;
	channel_end(&s->channel, EXITED);
	if (channel_attach(&s->channel, TAKE_FD(mine), e) < 0)
		return -1;
	s->hello_due = true;
	channel_expect(&s->channel, k->timeout_ms);
	return 0;
}

static struct keeper_call *keeper_link_send_request(struct keeper_link *k, const char *tenant,
						    const void *request, size_t len,
						    const int fds[KEEPER_LINK_FDS], struct lanes *l,
						    keeper_done_fn *done, void *arg)
{
	struct keeper_call *c = malloc(sizeof(*c) + len);

	assert(c != NULL);
	*c = (struct keeper_call){
		.lanes = l, .done = done, .arg = arg, .len = len, .asked_ns = clock_now_ns()
	};
	memcpy(c->fds, fds, sizeof(c->fds));
	memcpy(&c->op, request, sizeof(c->op));
	memcpy(c->request, request, len);
	lanes_add(l, tenant, &c->lane);
	if (l == &k->urgent)
		calls_add(&k->unsent, c);
	loop_defer(k->loop, &k->send);
	return c;
}

struct keeper_call *keeper_link_ask(struct keeper_link *k, const char *tenant, const void *request,
				    size_t len, int fd, enum keeper_priority priority,
				    keeper_done_fn *done, void *arg)
{
	return keeper_link_ask_with(k, tenant, request, len, (const int[]){ fd, -1 }, priority,
				    done, arg);
}

struct keeper_call *keeper_link_ask_with(struct keeper_link *k, const char *tenant,
					 const void *request, size_t len,
					 const int fds[KEEPER_LINK_FDS],
					 enum keeper_priority priority, keeper_done_fn *done,
					 void *arg)
{
	return keeper_link_send_request(k, tenant, request, len, fds,
					priority == KEEPER_URGENT ? &k->urgent : &k->spare, done,
					arg);
}

struct keeper_call *keeper_link_ask_end(struct keeper_link *k, const char *tenant,
					const struct keeper_named *request, int slot,
					keeper_done_fn *done, void *arg)
{
	bool there = slot >= 0 && (unsigned)slot < k->nslots && k->slots[slot].greeted;

	return keeper_link_send_request(k, tenant, request, sizeof(*request),
					(const int[]){ -1, -1 },
					there ? &k->slots[slot].ends : &k->ends, done, arg);
}

unsigned keeper_link_call_slot(const struct keeper_call *c)
{
	return c->slot;
}

void keeper_link_cancel(struct keeper_call *c)
{
	c->done = NULL;
}
