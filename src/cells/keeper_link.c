/* keeper_link.c - see keeper_link.h.
 *
 * Requests are sent by a task of the loop (send), so that done is never called from inside of
 * keeper_link_ask(), and after each answer. A keeper is sent at most IN_FLIGHT_MAX requests at a
 * time: it has the next one while its answer is being received; more would wait in its socket
 * although another keeper may be free. */
#include "keeper_link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock.h"
#include "io.h"
#include "log.h"
#include "own.h"

#define IN_FLIGHT_MAX 2
#define TIMEOUT_MS 30000

struct keeper_call {
	struct keeper_call *next;
	keeper_done_fn *done; /* NULL: cancelled */
	void *arg;
	int fd; /* owned until sent */
	unsigned slot;
	size_t len;
	uint64_t asked_ns;
	uint32_t op;
	_Alignas(8) uint8_t request[];
};

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_late(struct loop_timer *t);
static void on_send(struct loop_task *t);

#define EXITED "the keeper exited"

/* ---- queues */

static void queue_init(struct keeper_queue *q)
{
	*q = (struct keeper_queue){ .end = &q->first };
}

static void queue_put(struct keeper_queue *q, struct keeper_call *c)
{
	c->next = NULL;
	*q->end = c;
	q->end = &c->next;
	q->n++;
}

static struct keeper_call *queue_take(struct keeper_queue *q)
{
	struct keeper_call *c = q->first;

	q->first = c->next;
	if (q->first == NULL)
		q->end = &q->first;
	q->n--;
	return c;
}

static void queue_release(struct keeper_queue *q)
{
	while (q->first != NULL) {
		struct keeper_call *c = queue_take(q);

		io_close_all(&c->fd, 1);
		free(c);
	}
}

void keeper_link_init(struct keeper_link *k, struct loop *l, unsigned nslots)
{
	assert(nslots >= 1 && nslots <= KEEPER_SLOTS_MAX);
	*k = (struct keeper_link){ .loop = l,
				   .nslots = nslots,
				   .timeout_ms = TIMEOUT_MS,
				   .send = { .on_run = on_send, .arg = k },
				   .late = { .on_expire = on_late, .arg = k } };
	queue_init(&k->urgent);
	queue_init(&k->ends);
	queue_init(&k->spare);
	for (unsigned i = 0; i < nslots; i++) {
		struct keeper_slot *s = &k->slots[i];

		s->link = k;
		s->number = i;
		s->sock = -1;
		s->watch = (struct loop_fd){ .fd = -1, .on_ready = on_channel, .arg = s };
		queue_init(&s->sent);
		queue_init(&s->ends);
	}
}

void keeper_link_release(struct keeper_link *k)
{
	loop_timer_cancel(k->loop, &k->late);
	loop_task_cancel(k->loop, &k->send);
	for (unsigned i = 0; i < k->nslots; i++) {
		loop_remove(k->loop, &k->slots[i].watch);
		io_close_all(&k->slots[i].sock, 1);
		queue_release(&k->slots[i].sent);
		queue_release(&k->slots[i].ends);
	}
	queue_release(&k->urgent);
	queue_release(&k->ends);
	queue_release(&k->spare);
}

unsigned keeper_link_greeted(const struct keeper_link *k)
{
	unsigned n = 0;

	for (unsigned i = 0; i < k->nslots; i++)
		n += k->slots[i].greeted;
	return n;
}

/* ---- ends of calls */

static void finish(struct keeper_call *c, const struct keeper_reply *reply, int fd,
		   const struct err *e)
{
	OWN_FD mine = fd;

	if (c->done != NULL)
		c->done(c->arg, reply, TAKE_FD(mine), e);
	io_close_all(&c->fd, 1);
	free(c);
}

/* The keeper of that slot has exited. Requests that it did not answer end with an error; callers
 * may send them again, because every request can be repeated. Requests that were queued for it and
 * not sent go to any other keeper. */
static void detach(struct keeper_slot *s, const char *why)
{
	struct keeper_link *k = s->link;
	struct keeper_call *lost = s->sent.first;
	struct err e;

	loop_remove(k->loop, &s->watch);
	io_close_all(&s->sock, 1);
	queue_init(&s->sent);
	k->failed_starts += s->hello_due;
	s->greeted = s->hello_due = false;
	while (s->ends.first != NULL)
		queue_put(&k->ends, queue_take(&s->ends));
	loop_defer(k->loop, &k->send);
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while (lost != NULL) { /* callers may ask again at once */
		struct keeper_call *c = lost;

		lost = c->next;
		finish(c, NULL, -1, &e);
	}
}

/* ---- time */

static bool owes_answer(const struct keeper_slot *s)
{
	return s->sock >= 0 && (s->hello_due || s->sent.first != NULL);
}

static void plan_late(struct keeper_link *k)
{
	uint64_t patience = k->timeout_ms * CLOCK_MS, at = UINT64_MAX;

	for (unsigned i = 0; i < k->nslots; i++)
		if (owes_answer(&k->slots[i]) && k->slots[i].waits_ns + patience < at)
			at = k->slots[i].waits_ns + patience;
	if (k->urgent.first != NULL && k->urgent.first->asked_ns + 2 * patience < at)
		at = k->urgent.first->asked_ns + 2 * patience;
	if (at == UINT64_MAX)
		loop_timer_cancel(k->loop, &k->late);
	else
		loop_timer_set(k->loop, &k->late, at);
}

static void expire_queued(struct keeper_link *k, uint64_t now)
{
	struct err e;

	(void)err_set_reason(&e, REASON_TIMEOUT, "the keeper does not answer");
	while (k->urgent.first != NULL &&
	       k->urgent.first->asked_ns + 2 * k->timeout_ms * CLOCK_MS <= now)
		finish(queue_take(&k->urgent), NULL, -1, &e);
}

/* A keeper that is not known to have exited is killed: it may hang, and then it does not see that
 * its channel is closed. on_hung is called before its requests end, so that it is dead before they
 * are sent again. */
static void give_up(struct keeper_slot *s, const char *why)
{
	struct keeper_link *k = s->link;

	log_error("keeper is to be replaced", "slot=%u calls=%u error=%s", s->number, s->sent.n,
		  why);
	if (k->on_hung != NULL)
		k->on_hung(k->arg, s->number);
	if (s->sock >= 0)
		detach(s, why);
}

static void on_late(struct loop_timer *t)
{
	struct keeper_link *k = t->arg;
	uint64_t now = clock_now_ns();

	for (unsigned i = 0; i < k->nslots; i++)
		if (owes_answer(&k->slots[i]) &&
		    k->slots[i].waits_ns + k->timeout_ms * CLOCK_MS <= now)
			give_up(&k->slots[i], "the keeper does not answer");
	expire_queued(k, now);
	plan_late(k);
}

/* ---- sending */

/* What that keeper would be sent next: ends of its own cells before those of others. */
static struct keeper_queue *next_queue(struct keeper_slot *s)
{
	struct keeper_link *k = s->link;
	struct keeper_queue *ends = s->ends.first != NULL ? &s->ends : &k->ends;

	if (k->urgent.first != NULL && (ends->first == NULL || !k->end_next))
		return &k->urgent;
	if (ends->first != NULL)
		return ends;
	return k->spare.first != NULL ? &k->spare : NULL;
}

/* The keeper with the fewest unanswered requests that has room and something to do. */
static struct keeper_slot *next_slot(struct keeper_link *k)
{
	struct keeper_slot *best = NULL;

	for (unsigned i = 0; i < k->nslots; i++) {
		struct keeper_slot *s = &k->slots[i];

		if (!s->greeted || s->sent.n >= IN_FLIGHT_MAX ||
		    (s->watch.events & EPOLLOUT) != 0 || next_queue(s) == NULL)
			continue;
		if (best == NULL || s->sent.n < best->sent.n)
			best = s;
	}
	return best;
}

static void send_one(struct keeper_slot *s)
{
	struct keeper_link *k = s->link;
	struct keeper_queue *q = next_queue(s);
	struct keeper_call *c = q->first;
	struct err e;

	if (io_send(s->sock, c->request, c->len, &c->fd, c->fd >= 0, &e) < 0) {
		/* c stays queued, for this keeper or another one. */
		if (e.sys == EAGAIN)
			loop_modify(k->loop, &s->watch, EPOLLIN | EPOLLOUT);
		else if (e.sys == EPIPE)
			detach(s, EXITED);
		else
			give_up(s, e.msg);
		return;
	}
	io_close_all(&c->fd, 1);
	if (q != &k->spare)
		k->end_next = q == &k->urgent;
	if (s->sent.first == NULL)
		s->waits_ns = clock_now_ns();
	c->slot = s->number;
	queue_put(&s->sent, queue_take(q));
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
		detach(s, EXITED);
		return;
	}
	if (reply->op == KEEPER_HELLO && !s->greeted) {
		on_hello(s, reply);
		return;
	}
	if (c == NULL || c->op != reply->op) {
		/* A keeper answers a malformed request with HELLO and an error. */
		log_error("protocol error from keeper", "op=%u error=%s", reply->op, e.msg);
		detach(s, EXITED);
		return;
	}
	(void)queue_take(&s->sent);
	s->waits_ns = clock_now_ns(); /* the next one has its own time */
	if (e.code != ERR_NONE)
		finish(c, NULL, -1, &e);
	else
		finish(c, reply, TAKE_FD(mine), NULL);
}

/* Uses a descriptor of the reserve if no other is free: a reply that arrives without its descriptor
 * would be treated as the exit of the keeper. */
static ssize_t receive(struct keeper_slot *s, struct keeper_reply *ret, int *fds, size_t *nfds,
		       struct err *e)
{
	struct fd_reserve *reserve = s->link->reserve;
	ssize_t n;

	if (reserve != NULL)
		fd_reserve_lend(reserve, 1);
	n = io_recv(s->sock, ret, sizeof(*ret), fds, IO_FDS_MAX, nfds, e);
	if (reserve != NULL)
		fd_reserve_fill(reserve);
	return n;
}

static void take_reply(struct keeper_slot *s)
{
	struct keeper_reply reply;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };
	ssize_t n = receive(s, &reply, fds, &nfds, &e);

	if (n < 0 && e.sys == EAGAIN)
		return;
	if (n != (ssize_t)sizeof(reply)) {
		io_close_all(fds, nfds);
		detach(s, EXITED);
		return;
	}
	if (reply.err.code != ERR_NONE)
		err_sanitize(&reply.err);
	if (nfds > 1)
		io_close_all(fds + 1, nfds - 1);
	on_reply(s, &reply, nfds > 0 ? fds[0] : -1);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct keeper_slot *s = f->arg;
	struct keeper_link *k = s->link;

	if ((events & EPOLLOUT) != 0)
		loop_modify(k->loop, f, EPOLLIN);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
		take_reply(s); /* one: the loop calls again if there are more */
	on_send(&k->send);
}

/* ---- what callers use */

int keeper_link_attach(struct keeper_link *k, unsigned slot, int sock, struct err *e)
{
	OWN_FD mine = sock;
	int flags = fcntl(mine, F_GETFL);
	struct keeper_slot *s;

	if (slot >= k->nslots)
		return err_set(e, ERR_INVALID, "keeper: slot %u of %u", slot, k->nslots);
	if (flags < 0 || fcntl(mine, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "keeper's channel");
	s = &k->slots[slot];
	if (s->sock >= 0)
		detach(s, EXITED);
	s->sock = TAKE_FD(mine);
	if (loop_add(k->loop, &s->watch, s->sock, EPOLLIN, e) < 0) {
		io_close_all(&s->sock, 1);
		return -1;
	}
	s->hello_due = true;
	s->waits_ns = clock_now_ns();
	plan_late(k);
	return 0;
}

static struct keeper_call *ask(struct keeper_link *k, const void *request, size_t len, int fd,
			       struct keeper_queue *q, keeper_done_fn *done, void *arg)
{
	struct keeper_call *c = malloc(sizeof(*c) + len);

	assert(c != NULL);
	*c = (struct keeper_call){
		.done = done, .arg = arg, .fd = fd, .len = len, .asked_ns = clock_now_ns()
	};
	memcpy(&c->op, request, sizeof(c->op));
	memcpy(c->request, request, len);
	queue_put(q, c);
	loop_defer(k->loop, &k->send);
	return c;
}

struct keeper_call *keeper_link_ask(struct keeper_link *k, const void *request, size_t len, int fd,
				    enum keeper_priority priority, keeper_done_fn *done, void *arg)
{
	return ask(k, request, len, fd, priority == KEEPER_URGENT ? &k->urgent : &k->spare, done,
		   arg);
}

struct keeper_call *keeper_link_ask_end(struct keeper_link *k, const struct keeper_named *request,
					int slot, keeper_done_fn *done, void *arg)
{
	bool there = slot >= 0 && (unsigned)slot < k->nslots && k->slots[slot].greeted;

	return ask(k, request, sizeof(*request), -1, there ? &k->slots[slot].ends : &k->ends, done,
		   arg);
}

unsigned keeper_link_call_slot(const struct keeper_call *c)
{
	return c->slot;
}

void keeper_link_cancel(struct keeper_call *c)
{
	c->done = NULL;
}
