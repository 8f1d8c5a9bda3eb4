/* storage_link.c - see storage_link.h. storage_requests.c fills in the requests about layers,
 * storage_link.c chooses the next one.
 *
 * A call is the copy of a request with its descriptors. It lives from storage_link_ask() to its
 * answer, also if its job is cancelled. Requests are sent by a task of the loop and after each
 * answer. */
#include "daemon/disk/storage_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* ---- the queue */

/* For tenants without a stream: clients and registries of a few others decide how long they have
 * the rest. */
#define STREAMS_SPARE 16

static const struct lanes_room room[STORAGE_CLASSES] = {
	[STORAGE_CLASS_QUICK] = { 12, 4, 4 },
	[STORAGE_CLASS_CAPTURE] = STORAGE_CAPTURES_ROOM,
	[STORAGE_CLASS_FILES] = { 2, 1, 2 },
	[STORAGE_CLASS_FOLD] = { 4, 2, 4 },
	[STORAGE_CLASS_LONG] = { 4, 2, 4 },
	[STORAGE_CLASS_STREAM] = { STORAGE_STREAMS_MAX - STREAMS_SPARE,
				   (STORAGE_STREAMS_MAX - STREAMS_SPARE) / 2, STREAMS_SPARE },
};

static_assert(12 + 6 + 2 + 4 + 4 + (4 + 4 + 2 + 4 + 4) == STORAGE_JOBS_MAX,
	      "the sum of all classes but streams, with the spare ones");

static enum storage_class storage_queue_class_of(const union storage_request *r, bool for_session)
{
	if (storage_msg_is_stream(r))
		return STORAGE_CLASS_STREAM;
	switch (r->head.op) {
	case STORAGE_UNPACK:
		return r->unpack.format == STORAGE_CAPTURE ? STORAGE_CLASS_CAPTURE
							   : STORAGE_CLASS_LONG;
	case STORAGE_FOLD:
		return for_session ? STORAGE_CLASS_FOLD : STORAGE_CLASS_LONG;
	case STORAGE_SURVEY:
	case STORAGE_ARRANGE:
	case STORAGE_ROOT_MAKE:
		return STORAGE_CLASS_LONG;
	case STORAGE_FILES:
		return STORAGE_CLASS_FILES;
	default:
		return STORAGE_CLASS_QUICK;
	}
}

static void storage_queue_calls_init(struct storage_calls *l)
{
	*l = (struct storage_calls){ .end = &l->first };
}

void storage_queue_init(struct storage_queue *q)
{
	*q = (struct storage_queue){ 0 };
	storage_queue_calls_init(&q->sent);
	storage_queue_calls_init(&q->lost);
}

static struct storage_call *storage_queue_of(struct lane_item *i)
{
	return (struct storage_call *)i; /* its first member */
}

struct storage_call *storage_queue_call(struct storage_queue *q, const char *tenant,
					bool for_session, const void *request, size_t len)
{
	struct storage_call *c = calloc(1, offsetof(struct storage_call, r) + len);

	assert(c != NULL && len <= sizeof(c->r));
	memset(c->fds, 0xff, sizeof(c->fds)); /* every descriptor -1 */
	c->len = len;
	memcpy(&c->r, request, len);
	c->class = storage_queue_class_of(&c->r, for_session);
	c->place = STORAGE_WAITING;
	lanes_add(&q->lanes[c->class], tenant, &c->lane);
	return c;
}

void storage_queue_free(struct storage_queue *q, struct storage_call *c)
{
	storage_queue_move(q, c, STORAGE_NOWHERE);
	io_close_all(c->fds, c->nfds);
	free(c);
}

static struct storage_calls *storage_queue_calls_of(struct storage_queue *q,
						    enum storage_place place)
{
	return place == STORAGE_SENT ? &q->sent : place == STORAGE_LOST ? &q->lost : NULL;
}

void storage_queue_move(struct storage_queue *q, struct storage_call *c, enum storage_place to)
{
	struct storage_calls *from = storage_queue_calls_of(q, c->place),
			     *into = storage_queue_calls_of(q, to);

	if (from != NULL) {
		LIST_REMOVE_FROM(&from->end, c);
		from->n--;
	}
	if (to == STORAGE_SENT)
		lanes_serve(&q->lanes[c->class], &c->lane);
	else
		lanes_remove(&q->lanes[c->class], &c->lane);
	c->place = to;
	if (into != NULL) {
		LIST_APPEND(&into->end, c);
		into->n++;
	}
}

struct storage_call *storage_queue_next(const struct storage_queue *q)
{
	struct lane_item *i = NULL;

	for (unsigned class = 0; class < STORAGE_CLASSES && i == NULL; class ++)
		i = lanes_next(&q->lanes[class], lanes_most(&room[class], q->lanes[class].at_work));
	return storage_queue_of(i);
}

static struct storage_call *storage_queue_each_waiting(const struct storage_queue *q,
						       const struct storage_call *c)
{
	unsigned class = c == NULL ? 0 : c->class;
	struct lane_item *i = lanes_each(&q->lanes[class], c == NULL ? NULL : &c->lane);

	while (i == NULL && ++class < STORAGE_CLASSES)
		i = lanes_each(&q->lanes[class], NULL);
	return storage_queue_of(i);
}

struct storage_call *storage_queue_each(const struct storage_queue *q, enum storage_place place,
					const struct storage_call *c)
{
	if (place == STORAGE_WAITING)
		return storage_queue_each_waiting(q, c);
	if (c != NULL)
		return c->next;
	return place == STORAGE_SENT ? q->sent.first : q->lost.first;
}

#define GRACE_MS 20000 /* behind a job's own deadline */
#define GREET_MS 60000 /* for HELLO: leftovers of an earlier one may have to be removed first */
#define REMOVE_MS 600000

static int on_message(struct channel *c, const struct channel_got *got, struct err *e);
static void on_end(struct channel *c, enum channel_end how, const char *why);
static void on_hung(struct channel *c, const char *why);
static void on_room(struct channel *c);
static void on_late(struct loop_timer *t);
static void on_send(struct loop_task *t);

#define EXITED "cordon-storage exited"

/* Cancel all of one place. */
static void storage_link_release_all(struct storage_link *s, enum storage_place place)
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
	static const struct channel_rules rules = { .peer = "cordon-storage",
						    .in_max = sizeof(struct storage_reply),
						    .fds_max = IO_FDS_MAX };

	*s = (struct storage_link){
		.loop = l,
		.grace_ms = GRACE_MS,
		.send = { .on_run = on_send, .arg = s },
		.late = { .on_expire = on_late, .arg = s },
	};
	channel_init(&s->channel, l, &rules);
	s->channel.arg = s;
	s->channel.on_message = on_message;
	s->channel.on_end = on_end;
	s->channel.on_hung = on_hung;
	s->channel.on_room = s->channel.on_turn = on_room;
	storage_queue_init(&s->calls);
}

void storage_link_release(struct storage_link *s)
{
	loop_timer_cancel(s->loop, &s->late);
	loop_task_cancel(s->loop, &s->send);
	channel_release(&s->channel);
	storage_link_release_all(s, STORAGE_WAITING);
	storage_link_release_all(s, STORAGE_SENT);
	storage_link_release_all(s, STORAGE_LOST);
}

bool storage_link_is_ready(const struct storage_link *s)
{
	return s->greeted;
}

/* ---- ends of calls */

/* The job's answer or error. The call has ended. */
static void storage_link_finish(struct storage_link *s, struct storage_call *c,
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

/* Lost calls end, one after the other: a call that a callback cancels is still in the list. */
static void storage_link_end_lost(struct storage_link *s, const struct err *e)
{
	struct storage_call *c;

	while ((c = storage_queue_each(&s->calls, STORAGE_LOST, NULL)) != NULL)
		storage_link_finish(s, c, NULL, -1, e);
}

static void on_end(struct channel *channel, enum channel_end how, const char *why)
{
	struct storage_link *s = channel->arg;
	struct storage_call *c;
	struct err e;

	s->greeted = false;
	(void)err_set_reason(&e, REASON_PEER_DIED, "%s", why);
	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, NULL)) != NULL)
		storage_queue_move(&s->calls, c, STORAGE_LOST);
	storage_link_end_lost(s, &e); /* callers may ask again at once */
}

/* ---- time */

/* The timer is set for the first that may be late, and looks at all calls when it fires: a call
 * that ended leaves it as it is. */
static void storage_link_plan_late(struct storage_link *s, uint64_t at)
{
	if (s->late_at != 0 && s->late_at <= at)
		return;
	s->late_at = at;
	loop_timer_set(s->loop, &s->late, at);
}

static void storage_link_plan_all(struct storage_link *s)
{
	static const enum storage_place places[] = { STORAGE_WAITING, STORAGE_SENT };
	const struct storage_call *c = NULL;

	s->late_at = 0;
	if (channel_is_up(&s->channel) && !s->greeted)
		storage_link_plan_late(s, s->greet_ns);
	for (unsigned i = 0; i < COUNT(places); i++)
		while ((c = storage_queue_each(&s->calls, places[i], c)) != NULL)
			storage_link_plan_late(s, c->late_ns);
}

/* It may hang, and then it does not see that its channel is closed. */
static void on_hung(struct channel *c, const char *why)
{
	struct storage_link *s = c->arg;

	log_error("cordon-storage is to be replaced", "jobs=%u error=%s", s->calls.sent.n, why);
	if (s->on_hung != NULL)
		s->on_hung(s->arg);
}

static bool storage_link_any_sent_late(const struct storage_link *s, uint64_t now)
{
	const struct storage_call *c = NULL;

	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, c)) != NULL)
		if (c->late_ns <= now)
			return true;
	return false;
}

static void storage_link_expire_waiting(struct storage_link *s, uint64_t now)
{
	struct storage_call *c = storage_queue_each(&s->calls, STORAGE_WAITING, NULL);
	struct err e;

	while (c != NULL) {
		/* alone: a call is put into another list, without a callback */
		struct storage_call *next = storage_queue_each(&s->calls, STORAGE_WAITING, c);

		if (c->late_ns <= now)
			storage_queue_move(&s->calls, c, STORAGE_LOST);
		c = next;
	}
	(void)err_set_reason(&e, REASON_TIMEOUT, "cordon-storage does not answer");
	storage_link_end_lost(s, &e);
}

static void on_late(struct loop_timer *t)
{
	struct storage_link *s = t->arg;
	uint64_t now = clock_now_ns();

	if (channel_is_up(&s->channel) &&
	    (storage_link_any_sent_late(s, now) || (!s->greeted && s->greet_ns <= now)))
		channel_give_up(&s->channel, "cordon-storage does not answer");
	storage_link_expire_waiting(s, now);
	storage_link_plan_all(s);
}

/* ---- sending */

static void storage_link_set_late(const struct storage_link *s, struct storage_call *c)
{
	c->late_ns = clock_now_ns() + (c->r.head.deadline_ms + s->grace_ms) * CLOCK_MS;
}

/* False: nothing more can be sent now. */
static bool storage_link_send_one(struct storage_link *s, struct storage_call *c)
{

	if (channel_offer(&s->channel, &(struct channel_msg){ .bytes = &c->r,
							      .len = c->len,
							      .fds = c->fds,
							      .nfds = c->nfds }) != 1)
		return false;
	c->nfds = 0;
	storage_link_set_late(s, c); /* the time that it waited is not the job's */
	storage_queue_move(&s->calls, c, STORAGE_SENT);
	return true;
}

static void on_send(struct loop_task *t)
{
	struct storage_link *s = t->arg;
	struct storage_call *c;

	while (s->greeted && !channel_is_full(&s->channel) &&
	       (c = storage_queue_next(&s->calls)) != NULL && storage_link_send_one(s, c))
		;
}

static struct storage_call *storage_link_ask_one(struct storage_link *s,
						 const struct storage_job *j, const void *request,
						 size_t len, const int *fds, size_t nfds)
{
	const char *tenant = j == NULL || j->tenant == NULL ? "" : j->tenant;
	struct storage_call *c =
		storage_queue_call(&s->calls, tenant, j != NULL && j->for_session, request, len);

	assert(nfds <= STORAGE_FDS_MAX);
	for (size_t i = 0; i < nfds; i++)
		c->fds[i] = fds[i];
	c->nfds = nfds;
	c->r.head.job = ++s->next_job;
	storage_link_set_late(s, c);
	loop_defer(s->loop, &s->send);
	storage_link_plan_late(s, c->late_ns);
	return c;
}

void storage_link_ask(struct storage_link *s, struct storage_job *j, const void *request,
		      size_t len, const int *fds, size_t nfds)
{
	storage_link_cancel(s, j);
	j->fd = -1;
	completion_begin(&j->done, s->loop, NULL);
	j->call = storage_link_ask_one(s, j, request, len, fds, nfds);
	j->call->job = j;
}

/* ---- answers */

static struct storage_call *storage_link_find(struct storage_link *s, uint64_t job)
{
	struct storage_call *c = NULL;

	while ((c = storage_queue_each(&s->calls, STORAGE_SENT, c)) != NULL && c->r.head.job != job)
		;
	return c;
}

/* The layer that a call makes. NULL: none. */
static const char *storage_link_made_by(const struct storage_call *c)
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

static void storage_link_forget_layer(struct storage_link *s, const char *layer)
{
	struct storage_remove r = { .head = { .op = STORAGE_REMOVE, .deadline_ms = REMOVE_MS } };

	str_copy(r.layer, layer);
	(void)storage_link_ask_one(s, NULL, &r, sizeof(r), NULL, 0);
}

static void storage_link_forget_disk(struct storage_link *s, const char *id)
{
	struct storage_disk r = { .head = { .op = STORAGE_DISK_REMOVE, .deadline_ms = REMOVE_MS } };

	str_copy(r.id, id);
	(void)storage_link_ask_one(s, NULL, &r, sizeof(r), NULL, 0);
}

/* The job was cancelled, and its owner may have asked for the removal before there was anything. */
static void storage_link_forget_made(struct storage_link *s, const struct storage_call *c)
{
	if (storage_link_made_by(c) != NULL)
		storage_link_forget_layer(s, storage_link_made_by(c));
	else if (c->r.head.op == STORAGE_DISK_MAKE)
		storage_link_forget_disk(s, c->r.disk.id);
}

static void on_hello(struct storage_link *s, const struct storage_reply *reply)
{
	s->greeted = reply->err.code == ERR_NONE;
	if (s->on_hello != NULL)
		s->on_hello(s->arg, s->greeted ? NULL : &reply->err);
}

static void on_reply(struct storage_link *s, const struct storage_reply *reply, int fd)
{
	struct storage_call *c = storage_link_find(s, reply->job);
	OWN_FD mine = fd;
	bool worked = reply->err.code == ERR_NONE;

	s->disk_bytes = reply->disk_bytes;
	s->disk_free = reply->disk_free;
	s->disk_files = reply->disk_files;
	s->disk_files_free = reply->disk_files_free;
	s->disk_device = reply->disk_device;
	if (reply->op == STORAGE_HELLO && !s->greeted) {
		on_hello(s, reply);
		return;
	}
	if (c == NULL || c->r.head.op != reply->op) {
		log_error("protocol error from cordon-storage", "op=%u error=%s", reply->op,
			  reply->err.msg);
		channel_give_up(&s->channel, EXITED);
		return;
	}
	if (c->job == NULL && worked)
		storage_link_forget_made(s, c);
	storage_link_finish(s, c, worked ? reply : NULL, TAKE_FD(mine),
			    worked ? NULL : &reply->err);
}

static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct storage_reply reply = { 0 };

	if (got->len <= sizeof(reply))
		memcpy(&reply, got->bytes, got->len);
	if (got->fds_lost)
		channel_end(c, EXITED);
	else if (storage_msg_check_reply(&reply, got->len, e) < 0)
		channel_end(c, e->msg);
	else
		on_reply(c->arg, &reply, channel_take_fd(c));
	return 0;
}

static void on_room(struct channel *c)
{
	on_send(&((struct storage_link *)c->arg)->send);
}

/* ---- what callers use */

int storage_link_attach(struct storage_link *s, int sock, struct err *e)
{
	OWN_FD mine = sock;

	channel_end(&s->channel, EXITED);
	if (channel_attach(&s->channel, TAKE_FD(mine), e) < 0)
		return -1;
	s->greet_ns = clock_now_ns() + GREET_MS * CLOCK_MS;
	storage_link_plan_late(s, s->greet_ns);
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
