/* pull_channel.c - theory of operation
 *
 * Requests come in frames; the descriptor of a PULL_BLOB comes with the first byte of its frame and
 * waits in a small queue until the frame is whole. Answers are queued and sent as the socket takes
 * them. cordond bounds the number of pulls, and pull.c does, too, so the queue is bounded. */
#include "pull_channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fifo.h"
#include "io.h"
#include "log.h"
#include "pull.h"
#include "read_file.h"
#include "supervisor_msg.h"

#define READ_AT_ONCE ((size_t)64 << 10)
#define FDS_WAITING ((size_t)PULL_PULLS_MAX * PULL_BLOBS_MAX)

struct pull_channel {
	const struct get_means *means;
	struct pulls pulls;
	int sock, control; /* owned; -1: none */
	struct loop_fd sock_watch, control_watch;
	struct fifo in, out;
	int fds[FDS_WAITING];
	size_t nfds;
	struct loop_task flush;
};

/* ---- answers */

static void flush(struct pull_channel *c)
{
	while (c->out.len > 0) {
		ssize_t n =
			send(c->sock, fifo_bytes(&c->out), c->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) /* if the channel is gone, the next read shows it */
			break;
		fifo_consume(&c->out, (size_t)n);
	}
	if (c->out.len == 0)
		fifo_release(&c->out);
	loop_modify(c->means->loop, &c->sock_watch,
		    EPOLLIN | (c->out.len > 0 ? (uint32_t)EPOLLOUT : 0));
}

static void on_flush(struct loop_task *t)
{
	flush(t->arg);
}

static void on_report(void *arg, const struct pull_msg *m)
{
	struct pull_channel *c = arg;
	size_t cap = FRAME_HEAD + 1024 + m->len;
	uint8_t *to = fifo_reserve(&c->out, cap);
	int n = to == NULL ? -1 : pull_msg_write(m, to, cap);

	if (n < 0) { /* without it cordond would wait for ever */
		log_error("no memory for an answer to cordond", "");
		loop_stop(c->means->loop);
		return;
	}
	fifo_commit(&c->out, (size_t)n);
	loop_defer(c->means->loop, &c->flush);
}

/* ---- requests */

static int handle(struct pull_channel *c, const struct pull_msg *m, struct err *e)
{
	const struct pull_msg pong = { .type = PULL_PONG };
	int fd = -1;

	if (m->type == PULL_BLOB) {
		if (c->nfds == 0)
			return err_set(e, ERR_INVALID, "a blob without its descriptor");
		fd = c->fds[0];
		c->nfds--;
		memmove(c->fds, c->fds + 1, c->nfds * sizeof(c->fds[0]));
	}
	if (m->type >= PULL_REQUESTS_END)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (m->type == PULL_PING)
		on_report(c, &pong);
	else
		pulls_handle(&c->pulls, m, fd);
	return 0;
}

static int handle_all(struct pull_channel *c, struct err *e)
{
	struct pull_msg m;
	struct frame f;
	int n;

	while ((n = frame_read(fifo_bytes(&c->in), c->in.len, PULL_REQUEST_MAX, &f, e)) > 0) {
		if (pull_msg_read(&f, &m, e) < 0 || handle(c, &m, e) < 0)
			return -1;
		explicit_bzero(fifo_bytes(&c->in), (size_t)n); /* it may have a password */
		fifo_consume(&c->in, (size_t)n);
	}
	if (c->in.len == 0)
		fifo_release(&c->in);
	return n;
}

static int receive(struct pull_channel *c, struct err *e)
{
	uint8_t *to = fifo_reserve(&c->in, READ_AT_ONCE);
	size_t nfds = 0;
	ssize_t n;

	if (to == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	n = io_recv(c->sock, to, READ_AT_ONCE, c->fds + c->nfds, FDS_WAITING - c->nfds, &nfds, e);
	if (n == 0)
		return err_set(e, ERR_NOT_FOUND, "closed");
	if (n < 0)
		return -1;
	c->nfds += nfds;
	fifo_commit(&c->in, (size_t)n);
	return handle_all(c, e);
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	struct pull_channel *c = f->arg;
	struct err e = { 0 };

	if ((events & EPOLLOUT) != 0)
		flush(c);
	if ((events & ~(uint32_t)EPOLLOUT) == 0 || receive(c, &e) >= 0)
		return;
	if (e.code != ERR_NOT_FOUND)
		log_error("channel to cordond failed", "error=%s", e.msg);
	loop_stop(c->means->loop);
}

/* ---- the supervisor */

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct pull_channel *c = f->arg;
	int fds[2] = { -1, -1 };
	size_t nfds = 0;
	char type = 0;
	struct err e = { 0 };
	ssize_t n = io_recv(f->fd, &type, 1, fds, 2, &nfds, &e);

	(void)events;
	if (n <= 0) {
		loop_stop(c->means->loop);
		return;
	}
	if (type == EGRESS_CONTROL_NAMES && nfds == 2) {
		char *conf = read_file(fds[0], READ_FILE_MAX);
		char *hosts = read_file(fds[1], READ_FILE_MAX);

		if (conf != NULL && hosts != NULL)
			resolver_renew(c->means->resolver, conf, hosts);
		free(conf);
		free(hosts);
	}
	io_close_all(fds, nfds);
}

struct pull_channel *pull_channel_new(const struct get_means *means, int sock, int control,
				      struct err *e)
{
	struct pull_channel *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	c->means = means;
	c->pulls = (struct pulls){ .means = means, .on_report = on_report, .arg = c };
	c->sock = sock;
	c->control = control;
	c->sock_watch = (struct loop_fd){ .fd = -1, .on_ready = on_sock, .arg = c };
	c->control_watch = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = c };
	c->flush = (struct loop_task){ .on_run = on_flush, .arg = c };
	if (loop_add(means->loop, &c->sock_watch, sock, EPOLLIN, e) < 0 ||
	    (control >= 0 && loop_add(means->loop, &c->control_watch, control, EPOLLIN, e) < 0)) {
		pull_channel_free(c);
		return NULL;
	}
	return c;
}

void pull_channel_free(struct pull_channel *c)
{
	pulls_release(&c->pulls);
	loop_task_cancel(c->means->loop, &c->flush);
	loop_remove(c->means->loop, &c->sock_watch);
	loop_remove(c->means->loop, &c->control_watch);
	io_close_all(c->fds, c->nfds);
	io_close_all(&c->sock, 1);
	io_close_all(&c->control, 1);
	fifo_release(&c->in);
	fifo_release(&c->out);
	free(c);
}
