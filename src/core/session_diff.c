/* session_diff.c - the list of what a cell changed (session.h), which a reader process of the
 * keeper writes to a pipe; in a virtual machine, a built-in of its agent (guest_reader.h).
 *
 * The request is over when two events have come, in either order: the pipe has ended, and the
 * keeper has answered. A keeper that refuses closes its end of the pipe first, and a short list is
 * over before the answer comes. A failure of either ends the request at once. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "core_private.h"
#include "guest_reader.h"
#include "io.h"
#include "keeper_link.h"
#include "pipe_io.h"
#include "session.h"
#include "session_spec.h"

#define BUFFER 65536
#define SILENCE_MS 60000 /* without a byte */
#define GUEST_MS 120000	 /* for all of a list that a guest writes: it may never end */
#define TENANT_MAX 4
#define NODE_MAX 8 /* as many readers as the keeper has */
/* Of guests, beside those: a hostile one keeps its place for GUEST_MS. */
#define GUESTS_MAX 4

/* Ends everything that could call back. Repeatable. */
static void release(struct session_diff *d)
{
	if (d->core == NULL)
		return;
	if (d->call != NULL)
		keeper_link_cancel(d->call);
	d->call = NULL;
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	guest_reader_free(d->reader);
	d->reader = NULL;
	--*(d->reads_guest ? &d->core->guest_diffs : &d->core->diffs);
	d->tenant->diffs--;
	d->core = NULL;
}

static void finish(struct session_diff *d, const struct err *e)
{
	release(d);
	completion_end(&d->end, e);
}

/* Also called when the list has been silent for SILENCE_MS. */
static void on_end(struct completion *c, const struct err *e)
{
	struct session_diff *d = c->arg;

	release(d);
	d->on_done(d, e);
}

static void on_readable(struct loop_fd *f, uint32_t events)
{
	struct session_diff *d = f->arg;
	uint8_t bytes[BUFFER];
	ssize_t n = pipe_io_read(d->pipe, bytes, sizeof(bytes)); /* it may be a guest's */
	struct err e;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		if (d->reader == NULL)
			completion_set_deadline(&d->end, SILENCE_MS, "changes of the session");
		d->on_data(d, bytes, (size_t)n);
		return;
	}
	if (n < 0) {
		(void)err_sys(&e, "read changes");
		finish(d, &e);
		return;
	}
	/* The last record says whether the list is complete. */
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	if (d->call == NULL)
		finish(d, NULL);
}

/* The keeper has started the reader, or refused. */
static void on_reply(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session_diff *d = arg;
	OWN_FD unused = fd;
	struct err why;

	(void)unused;
	(void)reply;
	d->call = NULL;
	if (e != NULL) {
		why = *e;
		if (why.code == ERR_LIMIT) /* the keeper still counts a cancelled one */
			why.reason = REASON_CAPACITY_DIFFS;
		finish(d, &why);
	} else if (d->pipe < 0) {
		finish(d, NULL);
	}
}

static int admit(const struct session *s, struct err *e)
{
	if (s->tenant->diffs >= TENANT_MAX)
		return err_set_reason(e, REASON_QUOTA_DIFFS,
				      "the changes of %d sessions are being read already",
				      TENANT_MAX);
	bool guest = guest_reader_is_needed(s);
	unsigned max = guest ? GUESTS_MAX : NODE_MAX;
	if ((guest ? s->core->guest_diffs : s->core->diffs) >= max)
		return err_set_reason(e, REASON_CAPACITY_DIFFS,
				      "the changes of %u sessions are being read already", max);
	if (s->cell == NULL)
		return err_set(e, ERR_CONFLICT, "session %s has no cell", s->row.id);
	return session_level_check(s, CELL_CAN_DIFF, "diff", e);
}

void session_diff_request(const struct session *s, uint32_t op, const struct keeper_create *plan,
			  struct keeper_diff *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->named = (struct keeper_named){ .op = op, .pid = (uint32_t)s->cell->pid };
	memcpy(ret->named.id, s->row.id, sizeof(ret->named.id));
	ret->nlayers = plan->nlayers;
	memcpy(ret->layer_at, plan->layer_at, sizeof(ret->layer_at));
	memcpy(ret->layer_from, plan->layer_from, sizeof(ret->layer_from));
}

static void ask(struct session *s, struct session_diff *d, const struct keeper_create *plan, int to)
{
	struct keeper_diff r;

	session_diff_request(s, KEEPER_DIFF, plan, &r);
	d->call = keeper_link_ask(&s->core->cells.keeper, &r, sizeof(r), to, KEEPER_URGENT,
				  on_reply, d);
}

static void on_reader_ready(struct completion *c, const struct err *e)
{
	struct session_diff *d = c->arg;
	struct err why;

	if (e == NULL) {
		d->pipe = guest_reader_take(d->reader);
		if (loop_add(d->core->loop, &d->fd, d->pipe, EPOLLIN, &why) == 0)
			return;
		e = &why;
	}
	finish(d, e);
}

static int begin(struct session *s, struct session_diff *d, struct err *e)
{
	struct keeper_create plan;
	int ends[2];

	if (guest_reader_is_needed(s)) {
		d->ready = (struct completion){ .on_done = on_reader_ready, .arg = d };
		completion_set_deadline(&d->end, GUEST_MS, "changes of the session");
		d->reader = guest_reader_new(s, d->still ? "frozen-diff" : "diff", &d->ready);
		return 0;
	}

	if (session_spec_plan(s->core, s->template, &s->row, s->own, &plan, e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD to = ends[1];

	d->pipe = ends[0];
	if (fcntl(d->pipe, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "pipe");
	if (loop_add(s->core->loop, &d->fd, d->pipe, EPOLLIN, e) < 0)
		return -1;
	ask(s, d, &plan, TAKE_FD(to));
	return 0;
}

void session_diff(struct session *s, struct session_diff *d)
{
	struct err e;

	d->end = (struct completion){ .on_done = on_end, .arg = d };
	if (admit(s, &e) < 0) {
		completion_end_soon(&d->end, s->core->loop, &e);
		return;
	}
	completion_begin(&d->end, s->core->loop, NULL);
	completion_set_deadline(&d->end, SILENCE_MS, "changes of the session");
	d->core = s->core;
	d->tenant = s->tenant;
	d->reads_guest = guest_reader_is_needed(s);
	++*(d->reads_guest ? &d->core->guest_diffs : &d->core->diffs);
	d->tenant->diffs++;
	d->pipe = -1;
	d->call = NULL;
	d->reader = NULL;
	d->fd = (struct loop_fd){ .fd = -1, .on_ready = on_readable, .arg = d };
	if (begin(s, d, &e) < 0)
		finish(d, &e);
}

void session_diff_cancel(struct session_diff *d)
{
	completion_cancel(&d->end);
	release(d);
}
