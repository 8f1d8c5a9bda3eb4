/* storage_link.c - see storage_link.h; storage_requests.c fills in the requests about layers,
 * storage_queue.c says which is next.
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
#include "storage_queue.h"

#define GRACE_MS 20000 /* behind a job's own deadline */
#define GREET_MS 60000 /* for HELLO: leftovers of an earlier one may have to be removed first */
#define REMOVE_MS 600000

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_late(struct loop_timer *t);
static void on_send(struct loop_task *t);

#define EXITED "cordon-storage exited"

/* Cancels all of one place. */
static void release_all(struct storage_link *s, enum storage_place place)
{
	struct storage_call *c;

	while ((c = storage_queue_each(&s->calls, place, NULL)) != NULL) {
		if (c->job != NULL) {
			completion_cancel(&c->job->done);
			c->job->call = NULL;
		}
		storage_queue_free(&s->calls, c);
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
	storage_queue_init(&s->calls);
}

void storage_link_release(struct storage_link *s)
{
	loop_timer_cancel(s->loop, &s->late);
	loop_task_cancel(s->loop, &s->send);
	loop_remove(s->loop, &s->watch);
	io_close_all(&s->sock, 1);
	release_all(s, STORAGE_WAITING);
	release_all(s, STORAGE_SENT);
	release_all(s, STORAGE_LOST);
}

bool storage_link_is_ready(const struct storage_link *s)
{
	return s->greeted;
}

/* ---- ends of calls */

/* The job's answer or error; the call is over. */
static void finish(struct storage_link *s, struct storage_call *c,
		   const struct storage_reply *reply, int fd, const struct err *e)
{
	struct storage_job *j = c->job;
	OWN_FD mine = fd;

	storage_queue_free(&s->calls, c);
	if (j == NULL)
		return;
	j->call = NULL;
	if (reply != NULL)
		j->reply = *reply;
	j->fd = e == NULL ? TAKE_FD(mine) : -1;
	completion_end(&j->done, e);
}

/* Those that were lost end, one after the other: what a callback cancels is still in the list. */
static void end_lost(struct storage_link *s, const struct err *e)
{
	struct storage_call *c;

	while ((c = storage_queue_each(&s->calls, STORAGE_LOST, NULL)) != NULL)
		finish(s, c, NULL, -1, e);
}

static void detach(struct storage_link *s, const char *why)
{
	struct storage_call *c;
	struct err e;

	loop_remove(s->loop, &s->watch);
	io_close_all(&s->sock, 1);
	s->greeted = false;
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, NULL)) != NULL)
		storage_queue_move(&s->calls, c, STORAGE_LOST);
	end_lost(s, &e); /* callers may ask again at once */
}

/* ---- time */

/* The timer is set for the first that may be late, and looks at all calls when it fires: a call
 * that has ended meanwhile leaves it as it is. */
static void plan_late(struct storage_link *s, uint64_t at)
{
	if (s->late_at != 0 && s->late_at <= at)
		return;
	s->late_at = at;
	loop_timer_set(s->loop, &s->late, at);
}

static void plan_all(struct storage_link *s)
{
	static const enum storage_place places[] = { STORAGE_WAITING, STORAGE_SENT };
	const struct storage_call *c = NULL;

	s->late_at = 0;
	if (s->sock >= 0 && !s->greeted)
		plan_late(s, s->greet_ns);
	for (unsigned i = 0; i < COUNT(places); i++)
		while ((c = storage_queue_each(&s->calls, places[i], c)) != NULL)
			plan_late(s, c->late_ns);
}

/* It may hang, and then it does not see that its channel is closed. */
static void give_up(struct storage_link *s, const char *why)
{
	log_error("cordon-storage is to be replaced", "jobs=%u error=%s", s->calls.sent.n, why);
	if (s->on_hung != NULL)
		s->on_hung(s->arg);
	if (s->sock >= 0)
		detach(s, why);
}

static bool any_sent_late(const struct storage_link *s, uint64_t now)
{
	const struct storage_call *c = NULL;

	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, c)) != NULL)
		if (c->late_ns <= now)
			return true;
	return false;
}

static void expire_waiting(struct storage_link *s, uint64_t now)
{
	struct storage_call *c = storage_queue_each(&s->calls, STORAGE_WAITING, NULL);
	struct err e;

	while (c != NULL) { /* nothing is called meanwhile */
		struct storage_call *next = storage_queue_each(&s->calls, STORAGE_WAITING, c);

		if (c->late_ns <= now)
			storage_queue_move(&s->calls, c, STORAGE_LOST);
		c = next;
	}
	(void)err_set_reason(&e, REASON_TIMEOUT, "cordon-storage does not answer");
	end_lost(s, &e);
}

static void on_late(struct loop_timer *t)
{
	struct storage_link *s = t->arg;
	uint64_t now = clock_now_ns();

	if (s->sock >= 0 && (any_sent_late(s, now) || (!s->greeted && s->greet_ns <= now)))
		give_up(s, "cordon-storage does not answer");
	expire_waiting(s, now);
	plan_all(s);
}

/* ---- sending */

static void set_late(const struct storage_link *s, struct storage_call *c)
{
	c->late_ns = clock_now_ns() + (c->r.head.deadline_ms + s->grace_ms) * CLOCK_MS;
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
	c->nfds = 0;
	set_late(s, c); /* the time that it waited is not the job's */
	storage_queue_move(&s->calls, c, STORAGE_SENT);
	return true;
}

static void on_send(struct loop_task *t)
{
	struct storage_link *s = t->arg;
	struct storage_call *c;

	while (s->greeted && (s->watch.events & EPOLLOUT) == 0 &&
	       (c = storage_queue_next(&s->calls)) != NULL && send_one(s, c))
		;
}

static struct storage_call *ask(struct storage_link *s, const struct storage_job *j,
				const void *request, size_t len, const int *fds, size_t nfds)
{
	const char *tenant = j == NULL || j->tenant == NULL ? "" : j->tenant;
	struct storage_call *c =
		storage_queue_call(&s->calls, tenant, j != NULL && j->for_session, request, len);

	assert(nfds <= STORAGE_FDS_MAX);
	for (size_t i = 0; i < nfds; i++)
		c->fds[i] = fds[i];
	c->nfds = nfds;
	c->r.head.job = ++s->next_job;
	set_late(s, c);
	storage_queue_move(&s->calls, c, STORAGE_WAITING);
	loop_defer(s->loop, &s->send);
	plan_late(s, c->late_ns);
	return c;
}

void storage_link_ask(struct storage_link *s, struct storage_job *j, const void *request,
		      size_t len, const int *fds, size_t nfds)
{
	storage_link_cancel(s, j);
	j->fd = -1;
	completion_begin(&j->done, s->loop, NULL);
	j->call = ask(s, j, request, len, fds, nfds);
	j->call->job = j;
}

/* ---- answers */

static struct storage_call *find(struct storage_link *s, uint64_t job)
{
	struct storage_call *c = NULL;

	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, c)) != NULL && c->r.head.job != job)
		;
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
	(void)ask(s, NULL, &r, sizeof(r), NULL, 0);
}

static void forget_disk(struct storage_link *s, const char *id)
{
	struct storage_disk r = { .head = { .op = STORAGE_DISK_REMOVE, .deadline_ms = REMOVE_MS } };

	(void)snprintf(r.id, sizeof(r.id), "%s", id);
	(void)ask(s, NULL, &r, sizeof(r), NULL, 0);
}

/* The job was cancelled, and its owner may have asked for the removal before there was anything. */
static void forget_made(struct storage_link *s, const struct storage_call *c)
{
	if (made_by(c) != NULL)
		forget_layer(s, made_by(c));
	else if (c->r.head.op == STORAGE_DISK_MAKE)
		forget_disk(s, c->r.disk.id);
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
	if (c->job == NULL && worked)
		forget_made(s, c);
	finish(s, c, worked ? reply : NULL, TAKE_FD(mine), worked ? NULL : &reply->err);
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
	plan_late(s, s->greet_ns);
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
	if (c->place == STORAGE_WAITING) /* was not sent */
		storage_queue_free(&s->calls, c);
}
