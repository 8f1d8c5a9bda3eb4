/* control_channel.c - theory of operation
 *
 * Requests come in frames, the descriptors of a frame with its first byte; the descriptors are kept
 * in a small queue until the frame is whole. What egress sends goes through control_out.h.
 *
 * If cordond dies, its sessions stay attached for EGRESS_ORPHAN_MS, so that the next cordond can
 * claim them; those that it has not attached or changed by then, or by EGRESS_SYNCED, are detached.
 * Counts are sent again in full when a channel begins, and after a session's first request over it:
 * before that the new cordond may not know the session. */
#include "control_channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "cache_link.h"
#include "advisory_list.h"
#include "clock.h"
#include "fd_reserve.h"
#include "fifo.h"
#include "io.h"
#include "log.h"
#include "read_file.h"
#include "resolver.h"
#include "session_control.h"
#include "session_counts.h"
#include "supervisor_msg.h"
#include "turn_report.h"
#include "untrusted_fd.h"

#define READ_AT_ONCE ((size_t)64 << 10)
#define FDS_WAITING 64
#define COUNTS_MS 200
#define TURN_REPORT_TICKS 25 /* of COUNTS_MS */
/* Reading a configuration takes time in proportion to its bytes: after so many the connections of
 * all sessions have a turn. */
#define BYTES_PER_TURN ((size_t)128 << 10)

struct control_channel {
	struct egress *egress;
	int sock, control; /* owned; -1: none */
	struct loop_fd sock_watch, control_watch;
	struct loop_timer orphans, counts;
	struct fifo in;
	int fds[FDS_WAITING]; /* -1: could not be received, see receive() */
	size_t nfds;
	struct fd_reserve reserve;
	unsigned ticks;	       /* of counts */
	struct loop_task more; /* deferred: `in` has requests for the next turn */
};

static void on_counts(struct loop_timer *t)
{
	struct control_channel *c = t->arg;

	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session_counts_send(session);
	fd_reserve_fill(&c->reserve);
	if (c->sock >= 0 && ++c->ticks % TURN_REPORT_TICKS == 0)
		turn_report(c->egress);
	loop_timer_set(c->egress->loop, t, loop_now_ns(c->egress->loop) + COUNTS_MS * CLOCK_MS);
}

/* ---- the socket */

static void drop_fds(struct control_channel *c)
{
	untrusted_close(c->fds, c->nfds);
	c->nfds = 0;
}

static void close_channel(struct control_channel *c)
{
	struct loop *l = c->egress->loop;

	loop_remove(l, &c->sock_watch);
	loop_task_cancel(l, &c->more);
	io_close_all(&c->sock, 1);
	fifo_release(&c->in);
	drop_fds(c);
	control_out_restart(&c->egress->out);
	if (c->control < 0) {
		loop_stop(l);
		return;
	}
	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session->attached = false;
	loop_timer_set(l, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
}

static void detach_unclaimed(struct control_channel *c)
{
	struct egress_session *next;

	loop_timer_cancel(c->egress->loop, &c->orphans);
	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = next) {
		next = session->next; /* alone: a session is detached, and frees its own flows */
		if (!session->attached)
			session_detach(session);
	}
}

static void on_orphans(struct loop_timer *t)
{
	detach_unclaimed(t->arg);
}

/* ---- requests */

static void answer(struct control_channel *c, const char *id, int result, const struct err *e)
{
	/* An empty text means success. */
	const char *why = result == 0 ? "" : e->msg[0] != '\0' ? e->msg : "failed";

	if (result < 0)
		log_warn("session configuration rejected", "session_id=%s error=%s", id, why);
	IGNORED(control_out_put(&c->egress->out, EGRESS_TAKEN, id, why, strlen(why)) ? 0 : -1,
		"out of memory");
}

/* Answers an EGRESS_ATTACH whose listeners could not be received. The session, if it exists, is
 * detached: its configuration is not the one that cordond asked for. */
static int reject_attach(struct control_channel *c, const char *id, struct err *e)
{
	struct egress_session *session = egress_session_find(c->egress, id);

	if (session != NULL)
		session_detach(session);
	return err_set(e, ERR_LIMIT, "cordon-egress has no descriptors left");
}

/* Takes the descriptors of a frame out of the queue; those that it does not have are -1. */
static void take_fds(struct control_channel *c, size_t n, int ret_fds[EGRESS_FDS_MAX])
{
	if (c->fds[0] < 0)
		n = 1; /* they were lost: see receive() */
	for (size_t i = 0; i < EGRESS_FDS_MAX; i++)
		ret_fds[i] = i < n ? c->fds[i] : -1;
	c->nfds -= n;
	memmove(c->fds, c->fds + n, c->nfds * sizeof(c->fds[0]));
}

static void attach(struct control_channel *c, const struct egress_msg *m)
{
	int fds[EGRESS_FDS_MAX];
	struct err e = { 0 };
	int attached;

	take_fds(c, egress_msg_fds(m->type), fds);
	if (fds[0] < 0)
		attached = reject_attach(c, m->id, &e);
	else
		attached = session_attach(c->egress, m->id, fds, m->text, m->len, &e);
	answer(c, m->id, attached, &e);
}

/* A session that cannot change is detached: it must not go on with a policy that cordond has
 * replaced. */
static void change(struct control_channel *c, const struct egress_msg *m)
{
	struct egress_session *session = egress_session_find(c->egress, m->id);
	struct err e = { 0 };
	int changed = -1;

	if (session == NULL)
		(void)err_set(&e, ERR_NOT_FOUND, "session %s is not attached", m->id);
	else
		changed = m->type == EGRESS_SECRETS
				  ? session_change_secrets(session, m->text, m->len, &e)
				  : session_change(session, m->text, m->len, &e);
	if (changed == 0) /* PID 1 of a paused cell cannot pass its listeners again */
		session->attached = true;
	if (changed < 0 && session != NULL)
		session_detach(session);
	answer(c, m->id, changed, &e);
}

/* A link that could not be received: packages go without a cache until the next one. */
static void use_cache(struct control_channel *c)
{
	int fds[EGRESS_FDS_MAX];

	take_fds(c, egress_msg_fds(EGRESS_CACHE), fds);
	if (fds[0] >= 0)
		cache_link_open(c->egress, fds[0]);
}

static int handle(struct control_channel *c, const struct egress_msg *m, struct err *e)
{
	struct egress_session *session;
	bool lost = c->nfds > 0 && c->fds[0] < 0;

	if (c->nfds < egress_msg_fds(m->type) && !lost)
		return err_set(e, ERR_INVALID, "channel C: a request without its descriptors");
	switch (m->type) {
	case EGRESS_ATTACH:
	case EGRESS_ATTACH_OWNERS:
		attach(c, m);
		return 0;
	case EGRESS_CHANGE:
	case EGRESS_SECRETS:
		change(c, m);
		return 0;
	case EGRESS_DETACH:
		session = egress_session_find(c->egress, m->id);
		if (session != NULL)
			session_detach(session);
		return 0;
	case EGRESS_SYNCED:
		detach_unclaimed(c);
		return 0;
	case EGRESS_PING:
		IGNORED(control_out_put(&c->egress->out, EGRESS_PONG, "", NULL, 0) ? 0 : -1,
			"out of memory");
		return 0;
	case EGRESS_CACHE:
		use_cache(c);
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

static int handle_all(struct control_channel *c, struct err *e)
{
	struct egress_msg m;
	struct frame f;
	size_t done = 0;
	int n;

	while ((n = frame_read(fifo_bytes(&c->in), c->in.len, EGRESS_ID_MAX + EGRESS_TEXT_MAX, &f,
			       e)) > 0) {
		if (egress_msg_read(&f, &m, e) < 0 || handle(c, &m, e) < 0)
			return -1;
		explicit_bzero(fifo_bytes(&c->in), (size_t)n); /* it may hold secrets */
		fifo_consume(&c->in, (size_t)n);
		done += (size_t)n;
		if (done >= BYTES_PER_TURN) {
			loop_defer(c->egress->loop, &c->more);
			return 0;
		}
	}
	if (c->in.len == 0)
		fifo_release(&c->in);
	return n;
}

static void handle_some(struct control_channel *c)
{
	struct err e = { 0 };

	if (handle_all(c, &e) < 0) {
		log_error("protocol error on channel C", "error=%s", e.msg);
		close_channel(c);
	}
}

/* The kernel ends a read after a byte that carries descriptors. So if descriptors were lost because
 * none were free, they belong to the frame that begins with the last byte read: one -1 stands for
 * all of them. */
static ssize_t receive(struct control_channel *c, uint8_t *to, struct err *e)
{
	bool lost = false;
	size_t nfds = 0;
	ssize_t n;

	fd_reserve_lend(&c->reserve, EGRESS_FDS_MAX);
	n = io_recv_lossy(c->sock, to, READ_AT_ONCE, c->fds + c->nfds, FDS_WAITING - c->nfds, &nfds,
			  &lost, e);
	fd_reserve_fill(&c->reserve);
	if (n > 0 && lost) {
		c->fds[c->nfds] = -1;
		nfds = 1;
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
		control_out_flush(&c->egress->out);
	if ((events & ~(uint32_t)EPOLLOUT) == 0 || to == NULL || c->more.queued)
		return;
	if (c->nfds + EGRESS_FDS_MAX <= FDS_WAITING)
		n = receive(c, to, &e);
	if (n <= 0) {
		if (n < 0)
			log_warn("connection to cordond lost", "error=%s", e.msg);
		else
			log_info("connection to cordond closed, waiting for the next cordond", "");
		close_channel(c);
		return;
	}
	fifo_commit(&c->in, (size_t)n);
	handle_some(c);
}

static void on_more(struct loop_task *t)
{
	handle_some(t->arg);
}

static int use_channel(struct control_channel *c, int sock, struct err *e)
{
	if (c->sock >= 0)
		close_channel(c);
	loop_timer_set(c->egress->loop, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
	c->sock = sock;
	if (loop_add(c->egress->loop, &c->sock_watch, sock, EPOLLIN, e) < 0) {
		io_close_all(&c->sock, 1);
		return -1;
	}
	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session_counts_send_all(session);
	control_out_flush(&c->egress->out);
	return 0;
}

/* ---- the supervisor */

static void renew_resolver(struct control_channel *c, const int fds[2])
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
	char type = 0;
	struct err e = { 0 };
	ssize_t n;

	(void)events;
	fd_reserve_lend(&c->reserve, 2);
	n = io_recv(f->fd, &type, 1, fds, 2, &nfds, &e);
	fd_reserve_fill(&c->reserve);
	if (n < 0 && e.code == ERR_LIMIT) { /* the supervisor notices, and tries again */
		log_error("control message lost", "error=%s", e.msg);
		return;
	}
	if (n <= 0) {
		loop_stop(c->egress->loop);
		return;
	}
	if (type == EGRESS_CONTROL_CHANNEL && nfds == 1) {
		if (use_channel(c, fds[0], &e) < 0)
			log_error("channel C not opened", "error=%s", e.msg);
		return;
	}
	if (type == EGRESS_CONTROL_NAMES && nfds == 2)
		renew_resolver(c, fds);
	if (type == EGRESS_CONTROL_ADVISORIES && nfds == 1)
		advisory_list_set(fds[0]);
	io_close_all(fds, nfds);
}

struct control_channel *control_channel_new(struct egress *egress, int sock, int control,
					    struct err *e)
{
	struct control_channel *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	c->egress = egress;
	c->sock = -1;
	c->control = control;
	c->sock_watch = (struct loop_fd){ .fd = -1, .on_ready = on_sock, .arg = c };
	c->control_watch = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = c };
	c->orphans = (struct loop_timer){ .on_expire = on_orphans, .arg = c };
	c->counts = (struct loop_timer){ .on_expire = on_counts, .arg = c };
	c->more = (struct loop_task){ .on_run = on_more, .arg = c };
	control_out_init(&egress->out, egress->loop, &c->sock_watch);
	if ((control >= 0 && loop_add(egress->loop, &c->control_watch, control, EPOLLIN, e) < 0) ||
	    (sock >= 0 && use_channel(c, sock, e) < 0)) {
		control_channel_free(c);
		return NULL;
	}
	fd_reserve_fill(&c->reserve);
	on_counts(&c->counts);
	return c;
}

void control_channel_free(struct control_channel *c)
{
	loop_remove(c->egress->loop, &c->sock_watch);
	loop_remove(c->egress->loop, &c->control_watch);
	loop_timer_cancel(c->egress->loop, &c->orphans);
	loop_timer_cancel(c->egress->loop, &c->counts);
	loop_task_cancel(c->egress->loop, &c->more);
	control_out_release(&c->egress->out);
	drop_fds(c);
	fd_reserve_release(&c->reserve);
	io_close_all(&c->sock, 1);
	io_close_all(&c->control, 1);
	fifo_release(&c->in);
	free(c);
}
