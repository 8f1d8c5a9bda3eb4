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

#define IN_FLIGHT_MAX 4 /* enough to keep the keeper busy; more would only delay urgent ones */
#define TIMEOUT_MS 30000
#define PATIENT_MAX \
	16 /* with more than these, they take turns: what is ended must go at some time */

struct keeper_call {
	struct keeper_call *next;
	keeper_done_fn *done; /* NULL: cancelled */
	void *arg;
	int fd; /* owned until sent */
	size_t len;
	uint64_t asked_ns;
	uint32_t op;
	_Alignas(8) uint8_t request[];
};

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_late(struct loop_timer *t);

#define DIED "the keeper died"

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

void keeper_link_init(struct keeper_link *k, struct loop *l)
{
	*k = (struct keeper_link){ .loop = l,
				   .sock = -1,
				   .timeout_ms = TIMEOUT_MS,
				   .late = { .fire = on_late },
				   .watch = { .fd = -1, .ready = on_channel } };
	k->watch.arg = k->late.arg = k;
	queue_init(&k->urgent);
	queue_init(&k->patient);
	queue_init(&k->sent);
}

static void finish(struct keeper_call *c, const struct keeper_reply *reply, int fd,
		   const struct err *e)
{
	OWN_FD mine = fd;

	if (c->done != NULL)
		c->done(c->arg, reply, TAKE_FD(mine), e);
	io_close_all(&c->fd, 1);
	free(c);
}

void keeper_link_release(struct keeper_link *k)
{
	struct keeper_queue *queues[] = { &k->sent, &k->urgent, &k->patient };

	loop_remove(k->loop, &k->watch);
	loop_timer_cancel(k->loop, &k->late);
	io_close_all(&k->sock, 1);
	for (size_t i = 0; i < COUNT(queues); i++)
		while (queues[i]->first != NULL) {
			struct keeper_call *c = queue_take(queues[i]);

			io_close_all(&c->fd, 1);
			free(c);
		}
}

/* The keeper is gone. What it was asked is told; callers ask again, which every request allows. */
static void detach(struct keeper_link *k, const char *why)
{
	struct keeper_call *lost = k->sent.first;
	struct err e;

	loop_remove(k->loop, &k->watch);
	io_close_all(&k->sock, 1);
	queue_init(&k->sent);
	k->greeted = k->hello_due = false;
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while (lost != NULL) { /* callers may ask again at once */
		struct keeper_call *c = lost;

		lost = c->next;
		finish(c, NULL, -1, &e);
	}
}

/* ---- time */

static bool owes_answer(const struct keeper_link *k)
{
	return k->sock >= 0 && (k->hello_due || k->sent.first != NULL);
}

static void plan_late(struct keeper_link *k)
{
	uint64_t patience = k->timeout_ms * CLOCK_MS, at = UINT64_MAX;

	if (owes_answer(k))
		at = k->waits_ns + patience;
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

static void on_late(struct loop_timer *t)
{
	struct keeper_link *k = t->arg;
	uint64_t now = clock_now_ns();

	if (owes_answer(k) && k->waits_ns + k->timeout_ms * CLOCK_MS <= now) {
		log_error("the keeper does not answer", "calls=%u", k->sent.n);
		detach(k, "the keeper does not answer");
		if (k->on_hung != NULL)
			k->on_hung(k->arg);
	}
	expire_queued(k, now);
	plan_late(k);
}

static struct keeper_queue *next_queue(struct keeper_link *k)
{
	if (k->urgent.first == NULL || (k->patient_next && k->patient.n > PATIENT_MAX))
		return &k->patient;
	return &k->urgent;
}

static void send_some(struct keeper_link *k)
{
	bool more = false;

	while (k->greeted && k->sent.n < IN_FLIGHT_MAX) {
		struct keeper_queue *q = next_queue(k);
		struct keeper_call *c = q->first;
		struct err e;

		if (c == NULL)
			break;
		if (io_send(k->sock, c->request, c->len, &c->fd, c->fd >= 0, &e) < 0) {
			if (e.sys != EAGAIN) {
				detach(k, DIED); /* c stays queued, for the next keeper */
				return;
			}
			more = true;
			break;
		}
		io_close_all(&c->fd, 1);
		k->patient_next = q == &k->urgent;
		if (k->sent.first == NULL)
			k->waits_ns = clock_now_ns();
		queue_put(&k->sent, queue_take(q));
	}
	if (k->sock >= 0)
		loop_modify(k->loop, &k->watch, EPOLLIN | (more ? EPOLLOUT : 0));
	plan_late(k);
}

static void on_hello(struct keeper_link *k, const struct keeper_reply *reply)
{
	k->greeted = reply->err.code == ERR_NONE;
	k->hello_due = false;
	k->restrictions = reply->restrictions;
	k->on_hello(k->arg, k->greeted ? NULL : &reply->err);
}

static void on_reply(struct keeper_link *k, const struct keeper_reply *reply, int fd)
{
	OWN_FD mine = fd;
	struct keeper_call *c = k->sent.first;
	struct err e = reply->err;

	if (reply->version != KEEPER_VERSION) {
		log_error("keeper of another version", "version=%u", reply->version);
		detach(k, DIED);
		return;
	}
	if (reply->op == KEEPER_HELLO && !k->greeted) {
		on_hello(k, reply);
		return;
	}
	if (c == NULL || c->op != reply->op) {
		/* HELLO with an error is how it refuses what it calls malformed. */
		log_error("keeper breaks the protocol", "op=%u error=%s", reply->op, e.msg);
		detach(k, DIED);
		return;
	}
	(void)queue_take(&k->sent);
	k->waits_ns = clock_now_ns(); /* the next one has its own time */
	if (e.code != ERR_NONE)
		finish(c, NULL, -1, &e);
	else
		finish(c, reply, TAKE_FD(mine), NULL);
}

/* With a descriptor of the reserve, if there is none else: a reply without room for its own would
 * look like the end of the keeper. */
static ssize_t receive(struct keeper_link *k, struct keeper_reply *ret, int *fds, size_t *nfds,
		       struct err *e)
{
	ssize_t n;

	if (k->reserve != NULL)
		fd_reserve_lend(k->reserve, 1);
	n = io_recv(k->sock, ret, sizeof(*ret), fds, IO_FDS_MAX, nfds, e);
	if (k->reserve != NULL)
		fd_reserve_fill(k->reserve);
	return n;
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct keeper_link *k = f->arg;
	int sock = k->sock;

	while ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && k->sock == sock) {
		struct keeper_reply reply;
		int fds[IO_FDS_MAX];
		size_t nfds = 0;
		struct err e = { 0 };
		ssize_t n = receive(k, &reply, fds, &nfds, &e);

		if (n < 0 && e.sys == EAGAIN)
			break;
		if (n != (ssize_t)sizeof(reply)) {
			io_close_all(fds, nfds);
			detach(k, DIED);
			return;
		}
		if (reply.err.code != ERR_NONE)
			err_sanitize(&reply.err);
		if (nfds > 1)
			io_close_all(fds + 1, nfds - 1);
		on_reply(k, &reply, nfds > 0 ? fds[0] : -1);
	}
	if (k->sock == sock)
		send_some(k);
}

int keeper_link_attach(struct keeper_link *k, int sock, struct err *e)
{
	OWN_FD mine = sock;
	int flags = fcntl(mine, F_GETFL);

	if (flags < 0 || fcntl(mine, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "keeper's channel");
	if (k->sock >= 0)
		detach(k, DIED);
	k->sock = TAKE_FD(mine);
	if (loop_add(k->loop, &k->watch, k->sock, EPOLLIN, e) < 0) {
		io_close_all(&k->sock, 1);
		return -1;
	}
	k->hello_due = true;
	k->waits_ns = clock_now_ns();
	plan_late(k);
	return 0;
}

struct keeper_call *keeper_link_ask(struct keeper_link *k, const void *request, size_t len, int fd,
				    bool urgent, keeper_done_fn *done, void *arg)
{
	struct keeper_call *c = malloc(sizeof(*c) + len);

	assert(c != NULL);
	*c = (struct keeper_call){
		.done = done, .arg = arg, .fd = fd, .len = len, .asked_ns = clock_now_ns()
	};
	memcpy(&c->op, request, sizeof(c->op));
	memcpy(c->request, request, len);
	queue_put(urgent ? &k->urgent : &k->patient, c);
	/* Sent from the loop, so that done is never called from inside. */
	if (k->sock >= 0 && k->greeted)
		loop_modify(k->loop, &k->watch, EPOLLIN | EPOLLOUT);
	plan_late(k);
	return c;
}

void keeper_link_cancel(struct keeper_call *c)
{
	c->done = NULL;
}
