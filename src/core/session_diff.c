#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "inside.h"
#include "io.h"

#define BUFFER 65536

static void finish(struct session_diff *d, const struct err *e)
{
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	d->wait.done(&d->wait, e);
}

static void on_readable(struct loop_fd *f, uint32_t events)
{
	struct session_diff *d = f->arg;
	uint8_t bytes[BUFFER];
	ssize_t n = read(d->pipe, bytes, sizeof(bytes));
	struct err e;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		d->on_data(d, bytes, (size_t)n);
		return;
	}
	if (n < 0) {
		(void)err_sys(&e, "read changes");
		finish(d, &e);
		return;
	}
	/* Whether the list is whole, its last record says. */
	finish(d, NULL);
}

/* The keeper has started the reader, or not. The pipe's other end is closed by now. */
static void on_reply(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session_diff *d = arg;
	struct err why;

	(void)reply;
	(void)fd;
	d->call = NULL;
	if (e != NULL) {
		why = *e;
		finish(d, &why);
	}
}

void session_diff(struct session *s, struct session_diff *d)
{
	struct keeper_create plan;
	struct keeper_diff r;
	int ends[2];
	struct err e;

	d->core = s->core;
	d->pipe = -1;
	d->call = NULL;
	d->fd = (struct loop_fd){ .fd = -1, .ready = on_readable, .arg = d };
	memset(&r, 0, sizeof(r));
	if (spec_plan(s->core, &s->row, &plan, &e) < 0) {
		d->wait.done(&d->wait, &e);
		return;
	}
	if (pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
		(void)err_sys(&e, "pipe");
		d->wait.done(&d->wait, &e);
		return;
	}
	d->pipe = ends[0];
	r.named = (struct keeper_named){ .op = KEEPER_DIFF, .pid = (uint32_t)s->cell->pid };
	memcpy(r.named.id, s->row.id, sizeof(r.named.id));
	r.nlayers = plan.nlayers;
	memcpy(r.layer_at, plan.layer_at, sizeof(r.layer_at));
	memcpy(r.layer_from, plan.layer_from, sizeof(r.layer_from));
	if (loop_add(s->core->loop, &d->fd, d->pipe, EPOLLIN, &e) < 0) {
		(void)close(ends[1]);
		finish(d, &e);
		return;
	}
	d->call = keeper_link_ask(&s->core->keeper, &r, sizeof(r), ends[1], true, on_reply, d);
}

void session_diff_cancel(struct session_diff *d)
{
	if (d->core == NULL)
		return;
	if (d->call != NULL)
		keeper_link_cancel(d->call);
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	d->core = NULL;
}
