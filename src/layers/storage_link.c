/* storage_link.c - see storage_link.h; storage_requests.c fills in the requests about layers.
 *
 * A call is the copy of a request with its descriptors; it lives from storage_link_ask() to its
 * answer, also if its job is cancelled meanwhile. Requests are sent by a task of the loop and after
 * each answer. */
#include "storage_link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "clock.h"
#include "io.h"
#include "log.h"

#define GRACE_MS 20000 /* behind a job's own deadline */
#define GREET_MS 60000 /* for HELLO: leftovers of an earlier one may have to be removed first */
#define REMOVE_MS 600000

struct storage_call {
	struct storage_call *next;
	struct storage_job *job; /* NULL: cancelled */
	int fds[STORAGE_FDS_MAX];
	size_t nfds; /* owned until sent */
	uint64_t late_ns;
	size_t len;
	union storage_request r; /* len bytes of it */
};

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_late(struct loop_timer *t);
static void on_send(struct loop_task *t);

#define EXITED "cordon-storage exited"

/* ---- queues */

static void queue_init(struct storage_queue *q)
{
	*q = (struct storage_queue){ .end = &q->first };
}

static void queue_put(struct storage_queue *q, struct storage_call *c)
{
	c->next = NULL;
	*q->end = c;
	q->end = &c->next;
	q->n++;
}

/* Takes one out of the middle; it is in the queue. */
static void queue_remove(struct storage_queue *q, struct storage_call *c)
{
	struct storage_call **at = &q->first;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (*at == NULL)
		q->end = at;
	q->n--;
}

static void call_free(struct storage_call *c)
{
	io_close_all(c->fds, c->nfds);
	free(c);
}

static void queue_release(struct storage_queue *q)
{
	while (q->first != NULL) {
		struct storage_call *c = q->first;

		queue_remove(q, c);
		if (c->job != NULL) {
			completion_cancel(&c->job->done);
			c->job->call = NULL;
		}
		call_free(c);
	}
}

void storage_link_init(struct storage_link *s, struct loop *l)
{
	*s = (struct storage_link){
		.loop = l,
		.sock = -1,
		.grace_ms = GRACE_MS,
		.watch = { .fd = -1, .on_ready = on_channel, .arg = s },
		.send = { .on_run = on_send, .arg = s },
		.late = { .on_expire = on_late, .arg = s },
	};
	queue_init(&s->waiting);
	queue_init(&s->sent);
}

void storage_link_release(struct storage_link *s)
{
	loop_timer_cancel(s->loop, &s->late);
	loop_task_cancel(s->loop, &s->send);
	loop_remove(s->loop, &s->watch);
	io_close_all(&s->sock, 1);
	queue_release(&s->waiting);
	queue_release(&s->sent);
}

bool storage_link_is_ready(const struct storage_link *s)
{
	return s->greeted;
}

/* ---- ends of calls */

/* The job's answer or error; the call is in no queue. */
static void finish(struct storage_call *c, const struct storage_reply *reply, int fd,
		   const struct err *e)
{
	struct storage_job *j = c->job;
	OWN_FD mine = fd;

	call_free(c);
	if (j == NULL)
		return;
	j->call = NULL;
	if (reply != NULL)
		j->reply = *reply;
	j->fd = e == NULL ? TAKE_FD(mine) : -1;
	completion_end(&j->done, e);
}

static void detach(struct storage_link *s, const char *why)
{
	struct storage_call *lost = s->sent.first;
	struct err e;

	loop_remove(s->loop, &s->watch);
	io_close_all(&s->sock, 1);
	queue_init(&s->sent);
	s->streams = 0;
	s->greeted = false;
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while (lost != NULL) { /* callers may ask again at once */
		struct storage_call *c = lost;

		lost = c->next;
		finish(c, NULL, -1, &e);
	}
}

/* ---- time */

static void plan_late(struct storage_link *s)
{
	uint64_t at = s->sock >= 0 && !s->greeted ? s->greet_ns : UINT64_MAX;

	for (const struct storage_call *c = s->sent.first; c != NULL; c = c->next)
		if (c->late_ns < at)
			at = c->late_ns;
	for (const struct storage_call *c = s->waiting.first; c != NULL; c = c->next)
		if (c->late_ns < at)
			at = c->late_ns;
	if (at == UINT64_MAX)
		loop_timer_cancel(s->loop, &s->late);
	else
		loop_timer_set(s->loop, &s->late, at);
}

/* It may hang, and then it does not see that its channel is closed. */
static void give_up(struct storage_link *s, const char *why)
{
	log_error("cordon-storage is to be replaced", "jobs=%u error=%s", s->sent.n, why);
	if (s->on_hung != NULL)
		s->on_hung(s->arg);
	if (s->sock >= 0)
		detach(s, why);
}

static bool any_late(const struct storage_queue *q, uint64_t now)
{
	for (const struct storage_call *c = q->first; c != NULL; c = c->next)
		if (c->late_ns <= now)
			return true;
	return false;
}

static void expire_waiting(struct storage_link *s, uint64_t now)
{
	struct err e;

	(void)err_set_reason(&e, REASON_TIMEOUT, "cordon-storage does not answer");
	while (any_late(&s->waiting, now)) {
		struct storage_call *c = s->waiting.first;

		while (c->late_ns > now)
			c = c->next;
		queue_remove(&s->waiting, c);
		finish(c, NULL, -1, &e);
	}
}

static void on_late(struct loop_timer *t)
{
	struct storage_link *s = t->arg;
	uint64_t now = clock_now_ns();

	if (s->sock >= 0 && (any_late(&s->sent, now) || (!s->greeted && s->greet_ns <= now)))
		give_up(s, "cordon-storage does not answer");
	expire_waiting(s, now);
	plan_late(s);
}

/* ---- sending */

static void set_late(const struct storage_link *s, struct storage_call *c)
{
	c->late_ns = clock_now_ns() + (c->r.head.deadline_ms + s->grace_ms) * CLOCK_MS;
}

/* Takes as long as an image or a stack of layers is large. Captures do, too; session_capture.c has
 * a bound for them, because their cells are frozen while they wait. */
static bool is_long(const struct storage_call *c)
{
	uint32_t op = c->r.head.op;

	return (op == STORAGE_UNPACK && c->r.unpack.format != STORAGE_CAPTURE) ||
	       op == STORAGE_SURVEY || op == STORAGE_FOLD || op == STORAGE_ARRANGE ||
	       op == STORAGE_ROOT_MAKE;
}

static bool is_room_for(const struct storage_link *s, const struct storage_call *c)
{
	unsigned n = 0;

	if (storage_msg_is_stream(c->r.head.op))
		return s->streams < STORAGE_STREAMS_MAX;
	for (const struct storage_call *o = s->sent.first; o != NULL && is_long(c); o = o->next)
		n += is_long(o);
	return n < STORAGE_LONG_MAX && s->sent.n - s->streams < STORAGE_JOBS_MAX;
}

/* The oldest that there is room for; NULL: none. Disks of other tenants do not wait for images. */
static struct storage_call *next_call(const struct storage_link *s)
{
	struct storage_call *c = s->waiting.first;

	while (c != NULL && !is_room_for(s, c))
		c = c->next;
	return c;
}

/* False: nothing more can be sent now. */
static bool send_one(struct storage_link *s, struct storage_call *c)
{
	struct err e;

	if (io_send(s->sock, &c->r, c->len, c->fds, c->nfds, &e) < 0) {
		if (e.sys == EAGAIN)
			loop_modify(s->loop, &s->watch, EPOLLIN | EPOLLOUT);
		else if (e.sys == EPIPE)
			detach(s, EXITED);
		else
			give_up(s, e.msg);
		return false;
	}
	io_close_all(c->fds, c->nfds);
	queue_remove(&s->waiting, c);
	set_late(s, c); /* the time that it waited is not the job's */
	queue_put(&s->sent, c);
	s->streams += storage_msg_is_stream(c->r.head.op);
	return true;
}

static void on_send(struct loop_task *t)
{
	struct storage_link *s = t->arg;
	struct storage_call *c;

	while (s->greeted && (s->watch.events & EPOLLOUT) == 0 && (c = next_call(s)) != NULL &&
	       send_one(s, c))
		;
	plan_late(s);
}

static struct storage_call *ask(struct storage_link *s, const void *request, size_t len,
				const int *fds, size_t nfds)
{
	struct storage_call *c = calloc(1, offsetof(struct storage_call, r) + len);

	assert(c != NULL && len <= sizeof(c->r) && nfds <= STORAGE_FDS_MAX);
	memset(c->fds, 0xff, sizeof(c->fds)); /* every descriptor -1 */
	for (size_t i = 0; i < nfds; i++)
		c->fds[i] = fds[i];
	c->nfds = nfds;
	c->len = len;
	memcpy(&c->r, request, len);
	c->r.head.job = ++s->next_job;
	set_late(s, c);
	queue_put(&s->waiting, c);
	loop_defer(s->loop, &s->send);
	return c;
}

void storage_link_ask(struct storage_link *s, struct storage_job *j, const void *request,
		      size_t len, const int *fds, size_t nfds)
{
	storage_link_cancel(s, j);
	j->fd = -1;
	completion_begin(&j->done, s->loop, NULL);
	j->call = ask(s, request, len, fds, nfds);
	j->call->job = j;
	plan_late(s);
}

/* ---- answers */

static struct storage_call *find(struct storage_link *s, uint64_t job)
{
	struct storage_call *c = s->sent.first;

	while (c != NULL && c->r.head.job != job)
		c = c->next;
	return c;
}

/* The layer that a call makes; NULL: none. */
static const char *made_by(const struct storage_call *c)
{
	switch (c->r.head.op) {
	case STORAGE_UNPACK:
		return c->r.unpack.layer;
	case STORAGE_FOLD:
		return c->r.fold.layer;
	case STORAGE_ARRANGE:
		return c->r.arrange.layer;
	case STORAGE_ROOT_MAKE:
		return c->r.root.layer;
	case STORAGE_MEMORY_SAVE:
		return c->r.memory.layer;
	default:
		return NULL;
	}
}

static void forget_layer(struct storage_link *s, const char *layer)
{
	struct storage_remove r = { .head = { .op = STORAGE_REMOVE, .deadline_ms = REMOVE_MS } };

	(void)snprintf(r.layer, sizeof(r.layer), "%s", layer);
	(void)ask(s, &r, sizeof(r), NULL, 0);
}

static void on_hello(struct storage_link *s, const struct storage_reply *reply)
{
	s->greeted = reply->err.code == ERR_NONE;
	if (s->on_hello != NULL)
		s->on_hello(s->arg, s->greeted ? NULL : &reply->err);
}

static void on_reply(struct storage_link *s, const struct storage_reply *reply, int fd)
{
	struct storage_call *c = find(s, reply->job);
	OWN_FD mine = fd;
	bool worked = reply->err.code == ERR_NONE;

	s->disk_bytes = reply->disk_bytes;
	s->disk_free = reply->disk_free;
	s->disk_files = reply->disk_files;
	s->disk_files_free = reply->disk_files_free;
	if (reply->op == STORAGE_HELLO && !s->greeted) {
		on_hello(s, reply);
		return;
	}
	if (c == NULL || c->r.head.op != reply->op) {
		log_error("protocol error from cordon-storage", "op=%u error=%s", reply->op,
			  reply->err.msg);
		give_up(s, EXITED);
		return;
	}
	queue_remove(&s->sent, c);
	s->streams -= storage_msg_is_stream(c->r.head.op);
	if (c->job == NULL && worked && made_by(c) != NULL)
		forget_layer(s, made_by(c));
	finish(c, worked ? reply : NULL, TAKE_FD(mine), worked ? NULL : &reply->err);
}

static void take_reply(struct storage_link *s)
{
	struct storage_reply reply;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(s->sock, &reply, sizeof(reply), fds, IO_FDS_MAX, &nfds, &e);

	if (n < 0 && e.sys == EAGAIN)
		return;
	if (n <= 0 || storage_msg_check_reply(&reply, (size_t)n, &e) < 0) {
		io_close_all(fds, nfds);
		detach(s, n > 0 ? e.msg : EXITED);
		return;
	}
	if (nfds > 1)
		io_close_all(fds + 1, nfds - 1);
	on_reply(s, &reply, nfds > 0 ? fds[0] : -1);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct storage_link *s = f->arg;

	if ((events & EPOLLOUT) != 0)
		loop_modify(s->loop, f, EPOLLIN);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
		take_reply(s); /* one: the loop calls again if there are more */
	on_send(&s->send);
}

/* ---- what callers use */

int storage_link_attach(struct storage_link *s, int sock, struct err *e)
{
	OWN_FD mine = sock;
	int flags = fcntl(mine, F_GETFL);

	if (flags < 0 || fcntl(mine, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "cordon-storage's channel");
	if (s->sock >= 0)
		detach(s, EXITED);
	s->sock = TAKE_FD(mine);
	if (loop_add(s->loop, &s->watch, s->sock, EPOLLIN, e) < 0) {
		io_close_all(&s->sock, 1);
		return -1;
	}
	s->greet_ns = clock_now_ns() + GREET_MS * CLOCK_MS;
	plan_late(s);
	return 0;
}

void storage_link_cancel(struct storage_link *s, struct storage_job *j)
{
	struct storage_call *c = j->call;

	completion_cancel(&j->done);
	j->call = NULL;
	if (c == NULL)
		return;
	c->job = NULL;
	if (find(s, c->r.head.job) == c)
		return;
	queue_remove(&s->waiting, c); /* was not sent */
	call_free(c);
}
