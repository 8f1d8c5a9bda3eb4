/* control_channel.c - theory of operation
 *
 * The channel is egress->out.channel: requests come by it, and control_out.h sends by it.
 *
 * If cordond dies, its sessions stay attached for EGRESS_ORPHAN_MS, so that the next cordond can
 * claim them. Those that it has not attached or changed by then, or by EGRESS_SYNCED, are detached.
 * Counts are sent again in full when a channel begins, and after a session's first request over it:
 * before that the new cordond may not know the session. */
#include "egress/control/control_channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "egress/control/advisory_list.h"
#include "egress/control/session_control.h"
#include "egress/control/session_counts.h"
#include "egress/packages/cache_link.h"
#include "lib/base/clock.h"
#include "lib/base/fd_reserve.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/untrusted_fd.h"
#include "lib/json/json.h"
#include "lib/outbound/given_fds.h"
#include "lib/outbound/resolver.h"
#include "lib/wire/supervisor_msg.h"

void turn_report(struct egress *e)
{
	const struct turns *t = loop_turns(e->loop);
	const struct turns_turn *slowest = turns_slowest(t);
	char text[2048], name[TURNS_NAME_MAX];
	struct json j;

	turns_name(&slowest->longest, name);
	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	json_uint(&j, "count", t->count);
	json_uint(&j, "sum_ns", t->sum_ns);
	json_uint(&j, "max_ns", t->max_ns);
	json_uint(&j, "slowest_ns", slowest->ns);
	json_text(&j, "slowest", name);
	json_open(&j, "buckets", '[');
	for (size_t i = 0; i < TURNS_BUCKETS + 1; i++)
		json_uint(&j, NULL, t->buckets[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	if (json_ok(&j))
		IGNORED(control_out_put(&e->out, EGRESS_TURNS, "", text, j.len) ? 0 : -1,
			"the next report includes it");
}

#define REQUESTS_PER_TURN 1024
#define COUNTS_MS 200
#define TURN_REPORT_TICKS 25 /* of COUNTS_MS */
/* Reading a configuration takes time in proportion to its bytes: after so many the connections of
 * all sessions have a turn. */
#define BYTES_PER_TURN ((size_t)128 << 10)

struct control_channel {
	struct egress *egress;
	int control; /* owned. -1: none */
	struct loop_fd control_watch;
	struct loop_timer orphans, counts;
	struct fd_reserve reserve;
	unsigned ticks; /* of counts */
};

static void on_counts(struct loop_timer *t)
{
	struct control_channel *c = t->arg;

	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session_counts_send(session);
	fd_reserve_fill(&c->reserve);
	if (channel_is_up(&c->egress->out.channel) && ++c->ticks % TURN_REPORT_TICKS == 0)
		turn_report(c->egress);
	loop_timer_set(c->egress->loop, t, loop_now_ns(c->egress->loop) + COUNTS_MS * CLOCK_MS);
}

/* ---- the socket */

static void on_end(struct channel *channel, enum channel_end how, const char *why)
{
	struct control_channel *c = channel->arg;
	struct loop *l = c->egress->loop;

	if (how == CHANNEL_CLOSED)
		log_info("connection to cordond closed, waiting for the next cordond", "");
	else if (how == CHANNEL_LOST)
		log_warn("connection to cordond lost", "error=%s", why);
	else if (how == CHANNEL_BROKEN)
		log_error("protocol error on channel C", "error=%s", why);
	if (c->control < 0) {
		loop_stop(l);
		return;
	}
	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session->attached = false;
	loop_timer_set(l, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
}

static void control_channel_detach_unclaimed(struct control_channel *c)
{
	loop_timer_cancel(c->egress->loop, &c->orphans);
	LIST_WALK_ENDING(struct egress_session, session, c->egress->sessions) {
		/* alone: a session is detached, and frees its own flows */
		if (!session->attached)
			session_detach(session);
	}
}

static void on_orphans(struct loop_timer *t)
{
	control_channel_detach_unclaimed(t->arg);
}

/* ---- requests */

static void control_channel_answer(struct control_channel *c, const char *id, int result,
				   const struct err *e)
{
	/* An empty text means success. */
	const char *why = result == 0 ? "" : e->msg[0] != '\0' ? e->msg : "failed";

	if (result < 0)
		log_warn("session configuration rejected", "session_id=%s error=%s", id, why);
	IGNORED(control_out_put(&c->egress->out, EGRESS_TAKEN, id, why, strlen(why)) ? 0 : -1,
		"out of memory");
}

/* Answer an EGRESS_ATTACH whose listeners could not be received. The session, if it exists, is
 * detached: its configuration is not the one that cordond asked for. */
static int control_channel_reject_attach(struct control_channel *c, const char *id, struct err *e)
{
	struct egress_session *session = egress_session_find(c->egress, id);

	if (session != NULL)
		session_detach(session);
	return err_set(e, ERR_LIMIT, "cordon-egress has no descriptors left");
}

/* The descriptors of a request. Each is -1 if they were lost. */
static int control_channel_take_fds(struct channel *c, size_t n, int ret_fds[EGRESS_FDS_MAX],
				    struct err *e)
{
	size_t have = channel_fds(c);

	memset(ret_fds, 0xff, EGRESS_FDS_MAX * sizeof(ret_fds[0])); /* every descriptor -1 */
	if (n == 0)
		return 0;
	ret_fds[0] = channel_take_fd(c);
	if (ret_fds[0] < 0 && have > 0)
		return 0;
	for (size_t i = 1; i < n && i < have; i++)
		ret_fds[i] = channel_take_fd(c);
	if (have >= n)
		return 0;
	untrusted_close(ret_fds, have);
	return err_set(e, ERR_INVALID, "channel C: a request without its descriptors");
}

static void control_channel_attach(struct control_channel *c, const struct egress_msg *m,
				   int fds[EGRESS_FDS_MAX])
{
	struct err e = { 0 };
	int attached;

	if (fds[0] < 0)
		attached = control_channel_reject_attach(c, m->id, &e);
	else
		attached = session_attach(c->egress, m->id, fds, m->text, m->len, &e);
	control_channel_answer(c, m->id, attached, &e);
}

/* A session that cannot change is detached: it must not continue with a policy that cordond has
 * replaced. */
static void control_channel_change(struct control_channel *c, const struct egress_msg *m)
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
	control_channel_answer(c, m->id, changed, &e);
}

static int control_channel_handle(struct control_channel *c, const struct egress_msg *m,
				  struct err *e)
{
	struct egress_session *session;
	int fds[EGRESS_FDS_MAX];

	if (control_channel_take_fds(&c->egress->out.channel, egress_msg_fds(m->type), fds, e) < 0)
		return -1;
	switch (m->type) {
	case EGRESS_ATTACH:
	case EGRESS_ATTACH_OWNERS:
		control_channel_attach(c, m, fds);
		return 0;
	case EGRESS_CHANGE:
	case EGRESS_SECRETS:
		control_channel_change(c, m);
		return 0;
	case EGRESS_DETACH:
		session = egress_session_find(c->egress, m->id);
		if (session != NULL)
			session_detach(session);
		return 0;
	case EGRESS_SYNCED:
		control_channel_detach_unclaimed(c);
		return 0;
	case EGRESS_PING:
		IGNORED(control_out_put(&c->egress->out, EGRESS_PONG, "", NULL, 0) ? 0 : -1,
			"out of memory");
		return 0;
	case EGRESS_CACHE:
		/* Without a link, packages go without a cache until the next one. */
		if (fds[0] >= 0)
			cache_link_open(c->egress, fds[0]);
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

static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct egress_msg m;

	return egress_msg_read(&got->frame, &m, e) < 0 ? -1 : control_channel_handle(c->arg, &m, e);
}

static int control_channel_use_channel(struct control_channel *c, int sock, struct err *e)
{
	struct channel *channel = &c->egress->out.channel;

	if (channel_attach(channel, sock, e) < 0)
		return -1;
	loop_timer_set(c->egress->loop, &c->orphans, clock_now_ns() + EGRESS_ORPHAN_MS * CLOCK_MS);
	for (struct egress_session *session = c->egress->sessions; session != NULL;
	     session = session->next)
		session_counts_send_all(session);
	channel_send_now(channel);
	return 0;
}

/* ---- the supervisor */

static void control_channel_renew_resolver(struct control_channel *c, const int fds[2])
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
		if (control_channel_use_channel(c, fds[0], &e) < 0)
			log_error("channel C not opened", "error=%s", e.msg);
		return;
	}
	if (type == EGRESS_CONTROL_NAMES && nfds == 2)
		control_channel_renew_resolver(c, fds);
	if (type == EGRESS_CONTROL_ADVISORIES && nfds == 1)
		advisory_list_set(fds[0]);
	io_close_all(fds, nfds);
}

struct control_channel *control_channel_new(struct egress *egress, int sock, int control,
					    struct err *e)
{
	/* The descriptors are sockets of cells. */
	struct channel_rules rules = { .peer = "cordond",
				       .framed = true,
				       .in_max = EGRESS_ID_MAX + EGRESS_TEXT_MAX,
				       .fds_max = CHANNEL_FDS_MAX,
				       .untrusted_fds = true,
				       .turn_messages = REQUESTS_PER_TURN,
				       .turn_bytes = BYTES_PER_TURN,
				       .keeps_queue = true,
				       .lend = EGRESS_FDS_MAX };
	struct control_channel *c = calloc(1, sizeof(*c));
	struct channel *channel = &egress->out.channel;

	if (c == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	c->egress = egress;
	c->control = control;
	c->control_watch = (struct loop_fd){ .fd = -1, .on_ready = on_control, .arg = c };
	c->orphans = (struct loop_timer){ .on_expire = on_orphans, .arg = c };
	c->counts = (struct loop_timer){ .on_expire = on_counts, .arg = c };
	rules.reserve = &c->reserve;
	channel_init(channel, egress->loop, &rules);
	channel->arg = c;
	channel->on_message = on_message;
	channel->on_end = on_end;
	if ((control >= 0 && loop_add(egress->loop, &c->control_watch, control, EPOLLIN, e) < 0) ||
	    (sock >= 0 && control_channel_use_channel(c, sock, e) < 0)) {
		control_channel_free(c);
		return NULL;
	}
	fd_reserve_fill(&c->reserve);
	on_counts(&c->counts);
	return c;
}

void control_channel_free(struct control_channel *c)
{
	loop_remove(c->egress->loop, &c->control_watch);
	loop_timer_cancel(c->egress->loop, &c->orphans);
	loop_timer_cancel(c->egress->loop, &c->counts);
	channel_release(&c->egress->out.channel);
	fd_reserve_release(&c->reserve);
	io_close_all(&c->control, 1);
	free(c);
}
