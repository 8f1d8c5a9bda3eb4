#include "pull_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "fd.h"
#include "io.h"
#include "log.h"

#define READ_AT_ONCE ((size_t)256 << 10)
#define PING_MS 15000

struct pull_out {
	struct pull_out *next;
	int fd; /* owned; -1: none */
	size_t len, sent;
	uint8_t bytes[];
};

/* ---- the channel */

static void free_out(struct pull_out *o)
{
	if (o->fd >= 0)
		fd_close(o->fd);
	explicit_bzero(o->bytes, o->len); /* it may have a password */
	free(o);
}

static void drop_queue(struct pull_link *l)
{
	while (l->first != NULL) {
		struct pull_out *o = l->first;

		l->first = o->next;
		free_out(o);
	}
	l->end = &l->first;
}

static struct pull_call *take_call(struct pull_link *l, struct pull_call *c)
{
	struct pull_call **at = &l->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->link = NULL;
	return c;
}

static void close_channel(struct pull_link *l)
{
	struct err e;

	loop_remove(l->loop, &l->watch);
	loop_timer_cancel(l->loop, &l->ping);
	if (l->sock >= 0)
		fd_close(l->sock);
	l->sock = -1;
	buf_release(&l->in);
	drop_queue(l);
	(void)err_set_reason(&e, REASON_PEER_DIED, "cordon-pull exited");
	while (l->calls != NULL) {
		struct pull_call *c = take_call(l, l->calls);

		c->on_failed(c, "", &e);
	}
}

/* It may hang, and then it does not see that its channel is closed. */
static void give_up(struct pull_link *l, const char *why)
{
	log_error("cordon-pull is to be replaced", "error=%s", why);
	if (l->on_hung != NULL)
		l->on_hung(l->arg);
	close_channel(l);
}

/* ---- sending */

static void flush(struct pull_link *l)
{
	while (l->first != NULL && l->sock >= 0) {
		struct pull_out *o = l->first;
		ssize_t n;
		struct err e;

		if (o->fd >= 0 && o->sent == 0) { /* with the first byte, and that alone */
			if (io_send(l->sock, o->bytes, 1, &o->fd, 1, &e) < 0)
				break;
			fd_close(o->fd);
			o->fd = -1;
			n = 1;
		} else {
			n = write(l->sock, o->bytes + o->sent, o->len - o->sent);
		}
		if (n < 0)
			break; /* if the channel is gone, the next read shows it */
		o->sent += (size_t)n;
		if (o->sent < o->len)
			continue;
		l->first = o->next;
		if (l->first == NULL)
			l->end = &l->first;
		free_out(o);
	}
	loop_modify(l->loop, &l->watch, EPOLLIN | (l->first != NULL ? (uint32_t)EPOLLOUT : 0));
}

/* fd is taken over in any case. */
static int put(struct pull_link *l, const struct pull_msg *m, int fd, struct err *e)
{
	struct pull_out *o = malloc(sizeof(*o) + FRAME_HEAD + PULL_REQUEST_MAX);
	int n = o == NULL ? -1 : pull_msg_write(m, o->bytes, FRAME_HEAD + PULL_REQUEST_MAX);

	if (n < 0) {
		free(o);
		if (fd >= 0)
			fd_close(fd);
		return err_set(e, ERR_INVALID, "the reference or its credentials are too long");
	}
	o->next = NULL;
	o->fd = fd;
	o->len = (size_t)n;
	o->sent = 0;
	*l->end = o;
	l->end = &o->next;
	flush(l);
	return 0;
}

/* ---- receiving */

static struct pull_call *find(const struct pull_link *l, uint32_t number)
{
	struct pull_call *c = l->calls;

	while (c != NULL && c->number != number)
		c = c->next;
	return c;
}

static void on_failure(struct pull_call *c, const struct pull_msg *m)
{
	struct err e;

	(void)err_set(&e, m->code, "%s", m->text);
	err_sanitize(&e);
	if (m->blob != 0)
		c->on_blob(c, m->blob, &e);
	else
		(void)take_call(c->link, c)->on_failed(c, m->word, &e);
}

static int handle(struct pull_link *l, const struct pull_msg *m, struct err *e)
{
	struct pull_call *c = find(l, m->pull);

	l->pinged = false;
	if (m->type < PULL_DOCUMENT)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	if (c == NULL) /* a pong; or it was ended before this came */
		return 0;
	if (m->type == PULL_DOCUMENT)
		c->on_document(c, m->document, m->data, m->len);
	else if (m->type == PULL_PROGRESS)
		c->on_progress(c, m->blob, m->bytes);
	else if (m->type == PULL_BLOB_DONE)
		c->on_blob(c, m->blob, NULL);
	else if (m->type == PULL_FAILED)
		on_failure(c, m);
	return 0;
}

static int handle_all(struct pull_link *l, struct err *e)
{
	struct pull_msg m;
	struct frame f;
	int n = 0;

	while (l->sock >= 0 && l->in.len > 0 &&
	       (n = frame_read(l->in.data, l->in.len, PULL_BODY_MAX, &f, e)) > 0) {
		if (pull_msg_read(&f, &m, e) < 0 || handle(l, &m, e) < 0)
			return -1;
		if (l->sock >= 0)
			buf_consume(&l->in, (size_t)n);
	}
	return n < 0 ? -1 : 0;
}

static int receive(struct pull_link *l, struct err *e)
{
	uint8_t *to = buf_reserve(&l->in, READ_AT_ONCE, e);
	ssize_t n = to == NULL ? -1 : read(l->sock, to, READ_AT_ONCE);

	if (n < 0 && to != NULL && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return err_set(e, ERR_NOT_FOUND, "cordon-pull exited");
	buf_commit(&l->in, (size_t)n);
	return handle_all(l, e);
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	struct pull_link *l = f->arg;
	struct err e = { 0 };

	if ((events & EPOLLOUT) != 0)
		flush(l);
	if ((events & ~(uint32_t)EPOLLOUT) == 0 || receive(l, &e) >= 0)
		return;
	if (e.code == ERR_NOT_FOUND)
		close_channel(l);
	else
		give_up(l, e.msg);
}

static void on_ping(struct loop_timer *t)
{
	struct pull_link *l = t->arg;
	const struct pull_msg m = { .type = PULL_PING };
	struct err e;

	if (l->pinged) {
		give_up(l, "cordon-pull does not answer");
		return;
	}
	l->pinged = put(l, &m, -1, &e) == 0;
	loop_timer_set(l->loop, t, loop_now_ns(l->loop) + PING_MS * CLOCK_MS);
}

/* ---- what callers use */

void pull_link_init(struct pull_link *l, struct loop *loop)
{
	*l = (struct pull_link){ .loop = loop,
				 .sock = -1,
				 .watch = { .fd = -1, .on_ready = on_sock, .arg = l },
				 .ping = { .on_expire = on_ping, .arg = l } };
	l->end = &l->first;
	buf_init(&l->in, FRAME_HEAD + PULL_BODY_MAX + 2 * READ_AT_ONCE);
}

void pull_link_release(struct pull_link *l)
{
	while (l->calls != NULL)
		(void)take_call(l, l->calls);
	close_channel(l);
}

int pull_link_attach(struct pull_link *l, int sock, struct err *e)
{
	OWN_FD mine = sock;
	int flags = fcntl(mine, F_GETFL);

	if (flags < 0 || fcntl(mine, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "cordon-pull's channel");
	close_channel(l);
	if (loop_add(l->loop, &l->watch, mine, EPOLLIN, e) < 0)
		return -1;
	l->sock = TAKE_FD(mine);
	l->pinged = false;
	loop_timer_set(l->loop, &l->ping, loop_now_ns(l->loop) + PING_MS * CLOCK_MS);
	return 0;
}

int pull_link_start(struct pull_link *l, struct pull_call *c, const struct pull_start *start,
		    struct err *e)
{
	struct pull_msg m = { .type = PULL_START, .start = *start };

	if (l->sock < 0)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "cordon-pull is being started, try again");
	do
		m.pull = ++l->last;
	while (m.pull == 0 || find(l, m.pull) != NULL);
	c->number = m.pull;
	if (put(l, &m, -1, e) < 0)
		return -1;
	c->link = l;
	c->next = l->calls;
	l->calls = c;
	return 0;
}

int pull_link_blob(struct pull_call *c, uint32_t number, const uint8_t sha256[32], uint64_t size,
		   int fd, struct err *e)
{
	struct pull_msg m = { .type = PULL_BLOB, .pull = c->number, .blob = number, .bytes = size };

	if (c->link == NULL) {
		fd_close(fd);
		return err_set(e, ERR_SYSTEM, "the pull has ended");
	}
	memcpy(m.sha256, sha256, sizeof(m.sha256));
	return put(c->link, &m, fd, e);
}

void pull_link_end(struct pull_call *c)
{
	const struct pull_msg m = { .type = PULL_END, .pull = c->number };
	struct pull_link *l = c->link;
	struct err e;

	if (l == NULL)
		return;
	(void)take_call(l, c);
	IGNORED(put(l, &m, -1, &e), "it has a deadline");
}
