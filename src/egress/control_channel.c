/* control_channel.c - theory of operation
 *
 * Orders come in frames, a frame's descriptors with its first byte: they wait in a small queue
 * until the frame is whole. What egress says waits in one buffer, which outlives a channel: if
 * cordond dies, its sessions go on for EGRESS_ORPHAN_MS and their records wait for the next
 * cordond. A frame that was sent in part to the dead one is sent again as a whole. What sessions
 * have used is told again as a whole, too: when a channel begins, and with a session's first order
 * over it, before which the new cordond may not know the session. */
#include "control_channel.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "counts.h"
#include "fd_reserve.h"
#include "fifo.h"
#include "untrusted_fd.h"
#include "io.h"
#include "log.h"
#include "resolver.h"
#include "supervisor_msg.h"
#include "read_file.h"
#include "turn_report.h"

#define WAITING_MAX ((size_t)8 << 20) /* records; answers may go a little beyond */
#define SHARE_MAX (WAITING_MAX / 16)  /* of one session, while more than half waits */
#define READ_AT_ONCE ((size_t)64 << 10)
#define FDS_WAITING 64
#define COUNTS_MS 200
#define TURNS_EACH 25 /* of those */

struct control_channel {
	struct egress *egress;
	int sock, control; /* owned; -1: none */
	struct loop_fd on_sock, on_control;
	struct loop_timer orphans, counts;
	struct loop_task later; /* sends what was said in this turn */
	struct fifo in, out;
	size_t sent;	      /* of the first frame in out */
	uint64_t emptied;     /* how often all of it was sent */
	int fds[FDS_WAITING]; /* -1: came without room for it, and is lost */
	size_t nfds;
	struct fd_reserve reserve;
	unsigned ticks; /* of counts */
};

/* ---- what egress says */

/* Of the first frame that waits; there is one. */
static size_t frame_size(const struct control_channel *c)
{
	const uint8_t *bytes = fifo_bytes(&c->out);

	assert(bytes != NULL);
	return FRAME_HEAD + ((size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 |
			     (size_t)bytes[3] << 24);
}

bool control_channel_say(struct control_channel *c, enum egress_type type, const char *id,
			 const char *text, size_t len)
{
	uint8_t head[EGRESS_HEAD];
	uint8_t *to;

	if ((type == EGRESS_RECORD || type == EGRESS_COUNTS) && c->out.len + len > WAITING_MAX)
		return false;
	egress_msg_head(head, type, id, len);
	to = fifo_reserve(&c->out, sizeof(head) + len);
	if (to == NULL)
		return false;
	memcpy(to, head, sizeof(head));
	if (len > 0)
		memcpy(to + sizeof(head), text, len);
	fifo_commit(&c->out, sizeof(head) + len);
	loop_defer(c->egress->loop, &c->later);
	return true;
}

bool control_channel_record(struct control_channel *c, struct egress_session *g, const char *text,
			    size_t len)
{
	if (g->emptied != c->emptied)
		g->waiting = 0;
	g->emptied = c->emptied;
	if (c->out.len > WAITING_MAX / 2 && g->waiting > SHARE_MAX)
		return false;
	if (!control_channel_say(c, EGRESS_RECORD, g->id, text, len))
		return false;
	g->waiting += len;
	return true;
}

static void on_counts(struct loop_timer *t)
{
	struct control_channel *c = t->arg;

	for (struct egress_session *g = c->egress->sessions; g != NULL; g = g->next)
		counts_tell(g);
	fd_reserve_fill(&c->reserve);
	if (c->sock >= 0 && ++c->ticks % TURNS_EACH == 0)
		turn_report(c->egress);
	loop_timer_set(c->egress->loop, t, loop_now_ns(c->egress->loop) + COUNTS_MS * CLOCK_MS);
}

/* ---- the socket */

static void drop_fds(struct control_channel *c)
{
	untrusted_close(c->fds, c->nfds);
	c->nfds = 0;
}

static void lose(struct control_channel *c)
{
	struct loop *l = c->egress->loop;

	loop_remove(l, &c->on_sock);
	io_close_all(&c->sock, 1);
	fifo_release(&c->in);
	drop_fds(c);
	c->sent = 0;
	if (c->control < 0) {
		loop_stop(l);
		return;
	}
	for (struct egress_session *g = c->egress->sessions; g != NULL; g = g->next)
		g->here = false;
	loop_timer_set(l, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
}

static void drop_absent(struct control_channel *c)
{
	struct egress_session *next;

	loop_timer_cancel(c->egress->loop, &c->orphans);
	for (struct egress_session *g = c->egress->sessions; g != NULL; g = next) {
		next = g->next;
		if (!g->here)
			egress_session_detach(g);
	}
}

static void on_orphans(struct loop_timer *t)
{
	drop_absent(t->arg);
}

void control_channel_flush(struct control_channel *c)
{
	while (c->sock >= 0 && c->out.len > 0) {
		ssize_t n = send(c->sock, fifo_bytes(&c->out) + c->sent, c->out.len - c->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) /* a channel that is gone shows when it is read */
			break;
		c->sent += (size_t)n;
		while (c->out.len > 0 && c->sent >= frame_size(c)) {
			c->sent -= frame_size(c);
			fifo_consume(&c->out, frame_size(c));
		}
	}
	if (c->out.len == 0) {
		fifo_release(&c->out);
		c->emptied++;
	}
	if (c->sock >= 0)
		loop_modify(c->egress->loop, &c->on_sock,
			    EPOLLIN | (c->out.len > 0 ? (uint32_t)EPOLLOUT : 0));
}

static void flush_later(struct loop_task *t)
{
	control_channel_flush(t->arg);
}

/* ---- orders */

static void answer(struct control_channel *c, const char *id, int result, const struct err *e)
{
	/* Without a word it would be a yes. */
	const char *why = result == 0 ? "" : e->msg[0] != '\0' ? e->msg : "it failed";

	if (result < 0)
		log_warn("order not taken", "session_id=%s error=%s", id, why);
	IGNORED(control_channel_say(c, EGRESS_TAKEN, id, why, strlen(why)) ? 0 : -1,
		"memory is short");
}

/* There was no room for its door. What is known of the session is not what was asked for. */
static int refuse(struct control_channel *c, const char *id, struct err *e)
{
	struct egress_session *g = egress_session_find(c->egress, id);

	if (g != NULL)
		egress_session_detach(g);
	return err_set(e, ERR_LIMIT, "cordon-egress has no descriptors left");
}

static void attach(struct control_channel *c, const struct egress_msg *m)
{
	int fds[2] = { c->fds[0], c->fds[1] };
	struct err e = { 0 };
	int attached;

	c->nfds -= 2;
	memmove(c->fds, c->fds + 2, c->nfds * sizeof(c->fds[0]));
	if (fds[0] < 0)
		attached = refuse(c, m->id, &e);
	else
		attached = egress_session_attach(c->egress, m->id, fds, m->text, m->len, &e);
	answer(c, m->id, attached, &e);
}

/* A session that is asked to change and cannot is cut off: its old policy is not what was asked. */
static void change(struct control_channel *c, const struct egress_msg *m)
{
	struct egress_session *g = egress_session_find(c->egress, m->id);
	struct err e = { 0 };
	int changed = -1;

	if (g == NULL)
		(void)err_set(&e, ERR_NOT_FOUND, "session %s has no door here", m->id);
	else
		changed = egress_session_change(g, m->text, m->len, &e);
	if (changed == 0) /* of a paused cell, whose PID 1 cannot pass its door again */
		g->here = true;
	if (changed < 0 && g != NULL)
		egress_session_detach(g);
	answer(c, m->id, changed, &e);
}

static int obey(struct control_channel *c, const struct egress_msg *m, struct err *e)
{
	struct egress_session *g;

	if (c->nfds < egress_msg_fds(m->type))
		return err_set(e, ERR_INVALID, "channel C: descriptors are missing");
	switch (m->type) {
	case EGRESS_ATTACH:
		attach(c, m);
		return 0;
	case EGRESS_CHANGE:
		change(c, m);
		return 0;
	case EGRESS_DETACH:
		g = egress_session_find(c->egress, m->id);
		if (g != NULL)
			egress_session_detach(g);
		return 0;
	case EGRESS_SYNCED:
		drop_absent(c);
		return 0;
	case EGRESS_PING:
		IGNORED(control_channel_say(c, EGRESS_PONG, "", NULL, 0) ? 0 : -1,
			"memory is short");
		return 0;
	case EGRESS_REQUESTS_END:
	case EGRESS_TAKEN:
	case EGRESS_RECORD:
	case EGRESS_COUNTS:
	case EGRESS_PONG:
	case EGRESS_TURNS:
	case EGRESS_EVENTS_END:
		break;
	}
	return err_set(e, ERR_INVALID, "channel C: a message in the wrong direction");
}

static int obey_all(struct control_channel *c, struct err *e)
{
	struct egress_msg m;
	struct frame f;
	int n;

	while ((n = frame_read(fifo_bytes(&c->in), c->in.len, EGRESS_ID_MAX + EGRESS_TEXT_MAX, &f,
			       e)) > 0) {
		if (egress_msg_read(&f, &m, e) < 0 || obey(c, &m, e) < 0)
			return -1;
		explicit_bzero(fifo_bytes(&c->in), (size_t)n); /* secrets come this way */
		fifo_consume(&c->in, (size_t)n);
	}
	if (c->in.len == 0)
		fifo_release(&c->in);
	return n;
}

/* A message's descriptors come with its first byte, which is the last that is read at once: so what
 * is lost is the pair of the frame that begins there, and a pair of -1 takes its place. */
static ssize_t receive(struct control_channel *c, uint8_t *to, struct err *e)
{
	bool lost = false;
	size_t nfds = 0;
	ssize_t n;

	fd_reserve_lend(&c->reserve, 2);
	n = io_recv_lossy(c->sock, to, READ_AT_ONCE, c->fds + c->nfds, FDS_WAITING - c->nfds, &nfds,
			  &lost, e);
	fd_reserve_fill(&c->reserve);
	if (n > 0 && lost) {
		c->fds[c->nfds] = c->fds[c->nfds + 1] = -1;
		nfds = 2;
	}
	c->nfds += nfds;
	return n;
}

static void on_sock(struct loop_fd *f, uint32_t events)
{
	struct control_channel *c = f->arg;
	uint8_t *to = fifo_reserve(&c->in, READ_AT_ONCE);
	struct err e = { 0 };
	ssize_t n = -1;

	if ((events & EPOLLOUT) != 0)
		control_channel_flush(c);
	if ((events & ~(uint32_t)EPOLLOUT) == 0 || to == NULL)
		return;
	if (c->nfds + 2 <= FDS_WAITING)
		n = receive(c, to, &e);
	if (n <= 0) {
		log_warn("the channel has ended", "error=%s", n < 0 ? e.msg : "");
		lose(c);
		return;
	}
	fifo_commit(&c->in, (size_t)n);
	if (obey_all(c, &e) < 0) {
		log_error("the channel talks nonsense", "error=%s", e.msg);
		lose(c);
	}
}

static int use(struct control_channel *c, int sock, struct err *e)
{
	if (c->sock >= 0)
		lose(c);
	loop_timer_set(c->egress->loop, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
	c->sock = sock;
	if (loop_add(c->egress->loop, &c->on_sock, sock, EPOLLIN, e) < 0) {
		io_close_all(&c->sock, 1);
		return -1;
	}
	for (struct egress_session *g = c->egress->sessions; g != NULL; g = g->next)
		counts_repeat(g);
	control_channel_flush(c);
	return 0;
}

/* ---- the supervisor */

static void renew_names(struct control_channel *c, const int fds[2])
{
	char *conf = read_file(fds[0], READ_FILE_MAX), *hosts = read_file(fds[1], READ_FILE_MAX);

	if (conf != NULL && hosts != NULL)
		resolver_renew(c->egress->resolver, conf, hosts);
	free(conf);
	free(hosts);
}

static void on_control(struct loop_fd *f, uint32_t events)
{
	struct control_channel *c = f->arg;
	int fds[2] = { -1, -1 };
	size_t nfds = 0;
	char word = 0;
	struct err e = { 0 };
	ssize_t n;

	(void)events;
	fd_reserve_lend(&c->reserve, 2);
	n = io_recv(f->fd, &word, 1, fds, 2, &nfds, &e);
	fd_reserve_fill(&c->reserve);
	if (n < 0 && e.code == ERR_LIMIT) { /* the supervisor finds out, and tries again */
		log_error("control message not taken", "error=%s", e.msg);
		return;
	}
	if (n <= 0) {
		loop_stop(c->egress->loop);
		return;
	}
	if (word == EGRESS_CONTROL_CHANNEL && nfds == 1) {
		if (use(c, fds[0], &e) < 0)
			log_error("channel not taken", "error=%s", e.msg);
		return;
	}
	if (word == EGRESS_CONTROL_NAMES && nfds == 2)
		renew_names(c, fds);
	io_close_all(fds, nfds);
}

struct control_channel *control_channel_new(struct egress *g, int sock, int control, struct err *e)
{
	struct control_channel *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)err_set(e, ERR_SYSTEM, "memory is short");
		return NULL;
	}
	c->egress = g;
	c->sock = -1;
	c->control = control;
	c->on_sock = (struct loop_fd){ .fd = -1, .ready = on_sock, .arg = c };
	c->on_control = (struct loop_fd){ .fd = -1, .ready = on_control, .arg = c };
	c->orphans = (struct loop_timer){ .fire = on_orphans, .arg = c };
	c->counts = (struct loop_timer){ .fire = on_counts, .arg = c };
	c->later = (struct loop_task){ .run = flush_later, .arg = c };
	if ((control >= 0 && loop_add(g->loop, &c->on_control, control, EPOLLIN, e) < 0) ||
	    (sock >= 0 && use(c, sock, e) < 0)) {
		control_channel_free(c);
		return NULL;
	}
	fd_reserve_fill(&c->reserve);
	on_counts(&c->counts);
	return c;
}

void control_channel_free(struct control_channel *c)
{
	loop_remove(c->egress->loop, &c->on_sock);
	loop_remove(c->egress->loop, &c->on_control);
	loop_timer_cancel(c->egress->loop, &c->orphans);
	loop_timer_cancel(c->egress->loop, &c->counts);
	loop_task_cancel(c->egress->loop, &c->later);
	drop_fds(c);
	fd_reserve_release(&c->reserve);
	io_close_all(&c->sock, 1);
	io_close_all(&c->control, 1);
	fifo_release(&c->in);
	fifo_release(&c->out);
	free(c);
}
