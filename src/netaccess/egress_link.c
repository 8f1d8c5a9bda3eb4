/* egress_link.c - theory of operation
 *
 * Frames wait in a list until the socket takes them; the descriptors of a frame are sent with
 * its first byte. Received bytes are gathered until a frame is complete. The records of one turn of
 * the loop are stored in one transaction, which ends before any other message is handled, since
 * those begin transactions of their own.
 *
 * Configurations are sent when it is their tenant's turn, and not while much waits for the socket
 * (egress_orders.h); so QUEUED_MAX is far above what an egress that reads ever leaves in the queue.
 * An egress that does not read is given up, like one that breaks the protocol: the supervisor is
 * asked for another one at once. It is also asked if an egress has closed its channel and no other
 * channel comes, since that egress may still run. A record that cannot be read is dropped and
 * counted; the channel stays. */
#include "egress_link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "clock.h"
#include "core.h"
#include "egress_links.h"
#include "net_state.h"
#include "session.h"
#include "tenant.h"
#include "io.h"
#include "log.h"
#include "net_log.h"
#include "secret_egress.h"
#include "session.h"
#include "session_egress.h"
#include "untrusted_fd.h"

/* Of all processes together; each has its part, as it has its part of the sessions. */
#define QUEUED_MAX ((size_t)256 << 20)
#define IN_MAX (FRAME_HEAD + EGRESS_ID_MAX + EGRESS_PROMPT_MAX)
#define READ_SIZE 65536
#define FRAMES_PER_TURN 256 /* so that many records do not delay other work of the loop */
#define ASKING_MAX 64
#define SYNC_MS 10000 /* for PID 1s to pass their sockets; then SYNCED is sent without them */

struct egress_out {
	struct egress_out *next;
	int fds[EGRESS_FDS_MAX]; /* owned until sent */
	size_t nfds, len, sent;
	uint8_t bytes[];
};

static void on_channel(struct loop_fd *f, uint32_t events);
static void on_more(struct loop_task *t);
static void on_ping(struct loop_timer *t);

void egress_link_init(struct egress_link *l, struct egress_links *all, unsigned slot)
{
	*l = (struct egress_link){ .all = all,
				   .core = all->core,
				   .slot = slot,
				   .sock = -1,
				   .watch = { .fd = -1, .on_ready = on_channel } };
	l->watch.arg = l;
	l->timeout_ms = core_config(all->core)->egress_timeout_ms;
	l->ping = (struct loop_timer){ .on_expire = on_ping, .arg = l };
	l->more = (struct loop_task){ .on_run = on_more, .arg = l };
	l->end = &l->first;
	buf_init(&l->in, IN_MAX + READ_SIZE);
	egress_orders_init(&l->orders, l);
}

static void drop_first(struct egress_link *l)
{
	struct egress_out *o = l->first;

	l->first = o->next;
	if (l->first == NULL)
		l->end = &l->first;
	l->queued -= o->len;
	untrusted_close(o->fds, o->nfds);
	explicit_bzero(o->bytes, o->len);
	free(o);
}

static void hang_up(struct egress_link *l)
{
	loop_remove(core_loop(l->core), &l->watch);
	loop_task_cancel(core_loop(l->core), &l->more);
	loop_timer_cancel(core_loop(l->core), &l->ping);
	io_close_all(&l->sock, 1);
	while (l->first != NULL)
		drop_first(l);
	buf_release(&l->in);
	l->synced = false;
}

void egress_link_release(struct egress_link *l)
{
	hang_up(l);
	egress_orders_release(&l->orders);
}

/* A part of what is bounded for all processes together. */
static size_t part(const struct egress_link *l, size_t of_all)
{
	return of_all / l->all->n;
}

unsigned egress_link_asking_max(const struct egress_link *l)
{
	return (unsigned)part(l, ASKING_MAX);
}

static void lost_one(struct session *s, void *arg)
{
	if (session_egress_link(s) == arg)
		session_egress_on_disconnected(s);
}

/* The timer checks whether another channel has come by then. */
static void detach(struct egress_link *l, const char *why)
{
	log_warn("cordon-egress disconnected", "slot=%u why=%s", l->slot, why);
	hang_up(l);
	loop_timer_set(core_loop(l->core), &l->ping, clock_now_ns() + l->timeout_ms * CLOCK_MS);
	egress_orders_reset(&l->orders);
	session_each(l->core, NULL, lost_one, l);
}

static void ask_for_another(struct egress_link *l)
{
	const struct core_options *o = core_options(l->core);

	if (o->replace_egress != NULL)
		o->replace_egress(o->arg, l->slot);
}

/* This egress hangs, does not read or breaks the protocol: another one must be started. */
static void give_up(struct egress_link *l, const char *why)
{
	l->hung = true;
	l->all->numbers.broken++;
	detach(l, why);
	ask_for_another(l);
}

void egress_link_break(struct egress_link *l, const char *why)
{
	give_up(l, why);
}

bool egress_link_up(const struct egress_link *l)
{
	return l->sock >= 0;
}

/* ---- out */

static int send_first(struct egress_link *l, struct err *e)
{
	struct egress_out *o = l->first;
	ssize_t n;

	if (o->nfds > 0 && o->sent == 0) {
		/* One byte with the descriptors: all are sent, or none. */
		if (io_send(l->sock, o->bytes, 1, o->fds, o->nfds, e) < 0)
			return e->sys == EAGAIN ? 0 : -1;
		untrusted_close(o->fds, o->nfds);
		o->sent = 1;
	}
	n = send(l->sock, o->bytes + o->sent, o->len - o->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, "egress");
	o->sent += (size_t)n;
	return o->sent == o->len;
}

static void flush(struct egress_link *l)
{
	struct err e;
	int sent = 1;

	while (l->first != NULL && (sent = send_first(l, &e)) > 0)
		drop_first(l);
	if (sent < 0)
		detach(l, e.msg);
	else
		loop_modify(core_loop(l->core), &l->watch,
			    EPOLLIN | (l->first != NULL ? EPOLLOUT : 0));
	egress_orders_go_on(&l->orders);
}

int egress_link_send(struct egress_link *l, enum egress_type type, const char *id, const char *text,
		     size_t len, int *fds, struct err *e)
{
	struct egress_out *o = malloc(sizeof(*o) + EGRESS_HEAD + len);

	assert(o != NULL && len <= EGRESS_TEXT_MAX);
	*o = (struct egress_out){ .len = EGRESS_HEAD + len };
	for (; fds != NULL && o->nfds < egress_msg_fds(type); o->nfds++)
		o->fds[o->nfds] = TAKE_FD(fds[o->nfds]);
	egress_msg_head(o->bytes, type, id, len);
	if (len > 0)
		memcpy(o->bytes + EGRESS_HEAD, text, len);
	*l->end = o;
	l->end = &o->next;
	l->queued += o->len;
	if (l->sock >= 0 && l->queued <= part(l, QUEUED_MAX)) {
		/* Sent from the loop, so that no callback for a broken channel runs in here. */
		loop_modify(core_loop(l->core), &l->watch, EPOLLIN | EPOLLOUT);
		return 0;
	}
	if (l->sock >= 0)
		give_up(l, "it does not read");
	else
		drop_first(l);
	return err_set(e, ERR_LIMIT, "cordon-egress is not connected or does not read");
}

/* ---- in */

/* The records of one turn of the loop, written in one transaction. */
struct record_batch {
	struct egress_link *link;
	bool open; /* a transaction */
};

static void commit_records(struct record_batch *t)
{
	struct core *c = t->link->core;
	struct err e;

	if (t->open && store_commit(core_store(c), &e) < 0) {
		store_rollback(core_store(c));
		log_error("network records could not be written", "error=%s", e.msg);
	}
	t->open = false;
}

/* A record or count of one session is invalid: that must not cost the other sessions their network.
 */
static void drop_invalid(struct egress_link *l, const struct egress_msg *m, struct err *e)
{
	static struct log_limit limit = { .burst = 5, .interval_ms = 10000 };
	unsigned long long dropped;

	l->all->numbers.invalid++;
	err_sanitize(e);
	if (log_limit(&limit, &dropped))
		log_warn("invalid record of cordon-egress dropped",
			 "session_id=%s error=%s dropped=%llu", m->id, e->msg, dropped);
}

static void on_record(struct record_batch *t, struct session *s, const struct egress_msg *m)
{
	struct egress_link *l = t->link;
	bool allowed = false;
	struct err failed;

	if (!t->open && store_begin(core_store(l->core), &failed) < 0) {
		log_error("network record could not be written", "error=%s", failed.msg);
		return;
	}
	t->open = true;
	if (net_log_take(s, m->text, m->len, &allowed, &failed) < 0) {
		if (failed.code == ERR_INVALID) {
			drop_invalid(l, m, &failed);
			return;
		}
		t->open = false; /* the store has rolled it back */
		log_error("network record could not be written", "session_id=%s error=%s", m->id,
			  failed.msg);
		return;
	}
	l->all->numbers.records++;
	l->all->numbers.refused += allowed ? 0 : 1;
}

static int on_message(struct record_batch *t, const struct egress_msg *m, struct err *e)
{
	struct session *s = session_by_id(t->link->core, m->id);
	struct err invalid;

	if (m->type < EGRESS_TAKEN)
		return err_set(e, ERR_INVALID, "cordon-egress sent a message of cordond");
	if (m->type == EGRESS_TURNS)
		return egress_turns_take(&t->link->turns, m->text, m->len, e);
	if (s == NULL || m->type == EGRESS_PONG)
		return 0; /* the session has ended meanwhile */
	if (session_egress_link(s) != t->link) {
		(void)err_set(&invalid, ERR_INVALID, "the session belongs to another process");
		drop_invalid(t->link, m, &invalid);
		return 0;
	}
	if (m->type == EGRESS_RECORD) {
		on_record(t, s, m);
		return 0;
	}
	commit_records(t);
	if (m->type == EGRESS_TAKEN)
		session_egress_on_taken(s, m->text, m->len);
	else if (m->type == EGRESS_COUNTS && net_log_counts(s, m->text, m->len, &invalid) < 0)
		drop_invalid(t->link, m, &invalid);
	return 0;
}

/* Returns how many bytes were used; -1: protocol error. */
static ssize_t take_frames(struct egress_link *l, struct err *e)
{
	struct record_batch t = { .link = l };
	size_t at = 0;
	int sock = l->sock;

	for (unsigned i = 0; l->sock == sock; i++) {
		struct egress_msg m;
		struct frame f;
		int n = frame_read(l->in.data + at, l->in.len - at, IN_MAX - FRAME_HEAD, &f, e);

		if (n == 0)
			break;
		if (i == part(l, FRAMES_PER_TURN)) {
			loop_defer(core_loop(l->core), &l->more);
			break;
		}
		if (n < 0 || egress_msg_read(&f, &m, e) < 0 || on_message(&t, &m, e) < 0) {
			commit_records(&t);
			return -1;
		}
		at += (size_t)n;
	}
	commit_records(&t);
	return (ssize_t)at;
}

/* Returns 1 if bytes came, 0 if there are none now, -1 if the channel is broken. */
static int receive(struct egress_link *l, struct err *e)
{
	uint8_t *room = buf_reserve(&l->in, READ_SIZE, e);
	ssize_t n;

	if (room == NULL)
		return -1;
	n = recv(l->sock, room, READ_SIZE, MSG_DONTWAIT); /* descriptors, if any, are dropped */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_sys(e, "egress");
	if (n == 0)
		return err_set(e, ERR_SYSTEM, "channel closed");
	buf_commit(&l->in, (size_t)n);
	l->heard_ns = clock_now_ns();
	return 1;
}

/* Handles the frames that are complete. False: the channel is gone. */
static bool handle_frames(struct egress_link *l)
{
	struct err e = { 0 };
	int sock = l->sock;
	ssize_t used = take_frames(l, &e);

	if (l->sock != sock)
		return false;
	if (used < 0) {
		give_up(l, e.msg);
		return false;
	}
	buf_consume(&l->in, (size_t)used);
	return true;
}

static void on_more(struct loop_task *t)
{
	(void)handle_frames(t->arg);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	struct egress_link *l = f->arg;
	struct err e = { 0 };

	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
		/* Complete frames are handled before more bytes are read. */
		if (l->in.len <= IN_MAX && receive(l, &e) < 0) {
			detach(l, e.msg);
			return;
		}
		if (!handle_frames(l))
			return;
	}
	flush(l);
}

/* ---- is it alive? */

/* No channel has come since the last one was lost. */
static void await_another(struct egress_link *l, uint64_t now)
{
	ask_for_another(l);
	loop_timer_set(core_loop(l->core), &l->ping, now + l->timeout_ms * CLOCK_MS);
}

/* Called three times in timeout_ms. Any byte that came since the last ping counts as its answer. */
static void on_ping(struct loop_timer *t)
{
	struct egress_link *l = t->arg;
	uint64_t now = clock_now_ns();
	struct err e;

	if (l->sock < 0) {
		await_another(l, now);
		return;
	}
	if (l->heard_ns < l->pinged_ns) {
		if (now - l->pinged_ns >= l->timeout_ms * CLOCK_MS) {
			give_up(l, "it does not answer");
			return;
		}
	} else if (egress_link_send(l, EGRESS_PING, "", NULL, 0, NULL, &e) == 0) {
		l->pinged_ns = now;
	} else {
		return; /* egress was given up */
	}
	loop_timer_set(core_loop(l->core), t, now + l->timeout_ms * CLOCK_MS / 3);
}

/* ---- sessions */

static void attach_one(struct session *s, void *arg)
{
	if (session_egress_link(s) == arg)
		session_egress_on_connected(s);
}

int egress_link_attach(struct egress_link *l, int sock, struct err *e)
{
	OWN_FD mine = sock;

	if (fcntl(mine, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "egress's channel");
	if (l->sock >= 0)
		detach(l, "another channel replaces it");
	l->sock = TAKE_FD(mine);
	l->since_ns = l->heard_ns = clock_now_ns();
	l->pinged_ns = 0;
	l->hung = false;
	egress_turns_restart(&l->turns);
	if (loop_add(core_loop(l->core), &l->watch, l->sock, EPOLLIN, e) < 0) {
		hang_up(l);
		return -1;
	}
	loop_timer_set(core_loop(l->core), &l->ping, l->since_ns);
	log_info("cordon-egress connected", "slot=%u", l->slot);
	session_each(l->core, NULL, attach_one, l);
	egress_links_sync_later(l->all);
	return 0;
}

void egress_link_synced(struct egress_link *l, bool missing)
{
	struct err e;

	if (l->sock < 0 || l->synced ||
	    (missing && clock_now_ns() < l->since_ns + SYNC_MS * CLOCK_MS))
		return;
	l->synced = true;
	IGNORED(egress_link_send(l, EGRESS_SYNCED, "", NULL, 0, NULL, &e),
		"the next channel sends it again");
}
