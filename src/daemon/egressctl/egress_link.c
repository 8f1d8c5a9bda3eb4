/* egress_link.c - theory of operation
 *
 * The records of one turn of the loop are stored in one transaction. It ends before any other
 * message is handled, because those begin transactions of their own.
 *
 * Configurations are sent when it is their tenant's turn, and not while much waits for the socket
 * (egress_orders.h). So QUEUED_MAX is far above the bytes that an egress that reads leaves in the
 * queue.
 * An egress that does not read is given up, like one that breaks the protocol: the supervisor is
 * asked for another one at once. It is also asked if an egress has closed its channel and no other
 * channel comes, since that egress may still run. A record that cannot be read is dropped and
 * counted. The channel stays. */
#include "daemon/egressctl/egress_link.h"

#include <assert.h>
#include <string.h>

#include "daemon/egressctl/net_log.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/node/core.h"
#include "daemon/secrets/secret_egress.h"
#include "daemon/session/session.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/policy/access_record_text.h"

/* ---- turns of their loops */

/* Read the text of an EGRESS_TURNS message. ERR_INVALID: it is malformed. */
static int egress_link_egress_turns_take(struct egress_turns *t, const char *text, size_t len,
					 struct err *e)
{
	struct record_turns now;

	if (access_record_text_turns(text, len, &now, e) < 0)
		return -1;
	t->turns = (struct turns){ .count = now.count, .sum_ns = now.sum_ns, .max_ns = now.max_ns };
	for (size_t i = 0; i < TURNS_BUCKETS + 1 && i < now.nbuckets; i++)
		t->turns.buckets[i] = now.buckets[i];
	t->turns.slowest[0].ns = now.slowest_ns;
	memcpy(t->slowest, now.slowest, sizeof(t->slowest));
	return 0;
}

static void egress_link_add(struct turns *to, const struct turns *t)
{
	to->count += t->count;
	to->sum_ns += t->sum_ns;
	if (to->max_ns < t->max_ns)
		to->max_ns = t->max_ns;
	for (size_t i = 0; i < TURNS_BUCKETS + 1; i++)
		to->buckets[i] += t->buckets[i];
}

/* Another process takes the place of this one: counts must not go back. */
static void egress_link_egress_turns_restart(struct egress_turns *t)
{
	egress_link_add(&t->past, &t->turns);
	t->turns = (struct turns){ 0 };
	t->slowest[0] = '\0';
}

/* The sum of both. The longest and slowest turn of the two. */
static void egress_link_egress_turns_add(struct egress_turns *to, const struct egress_turns *t)
{
	egress_link_add(&to->turns, &t->turns);
	egress_link_add(&to->turns, &t->past);
	if (to->slowest[0] != '\0' && to->turns.slowest[0].ns >= t->turns.slowest[0].ns)
		return;
	to->turns.slowest[0].ns = t->turns.slowest[0].ns;
	memcpy(to->slowest, t->slowest, sizeof(to->slowest));
}

static void egress_link_egress_turns_write(const struct egress_turns *t, struct buf *to)
{
	turns_write_named(&t->turns, "cordon_egress", t->slowest, to);
}

/* ---- the channel to one process */

/* Of all processes together. Each has its egress_link_part, as it has its part of the sessions. */
#define QUEUED_MAX ((size_t)256 << 20)
#define BODY_MAX (EGRESS_ID_MAX + EGRESS_PROMPT_MAX)
#define FRAMES_PER_TURN 256 /* so that many records do not delay other work of the loop */
#define ASKING_MAX 64
#define SYNC_MS 10000 /* for PID 1s to pass their sockets. Then SYNCED is sent without them */

/* One process's part of a bound for all processes together. */
static size_t egress_link_part(const struct egress_link *l, size_t of_all)
{
	return of_all / l->all->n;
}

unsigned egress_link_asking_max(const struct egress_link *l)
{
	return (unsigned)egress_link_part(l, ASKING_MAX);
}

static void egress_link_lost_one(struct session *s, void *arg)
{
	if (session_egress_link(s) == arg)
		session_egress_on_disconnected(s);
}

static void egress_link_replace(struct egress_link *l)
{
	const struct core_options *o = core_options(l->core);

	if (o->replace_egress != NULL)
		o->replace_egress(o->arg, l->slot);
}

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	struct egress_link *l = c->arg;

	log_warn("cordon-egress disconnected", "slot=%u why=%s", l->slot, why);
	l->synced = false;
	loop_timer_set(core_loop(l->core), &l->another, clock_now_ns() + l->timeout_ms * CLOCK_MS);
	egress_orders_reset(&l->orders);
	session_each(l->core, NULL, egress_link_lost_one, l);
	if (l->hung)
		egress_link_replace(l);
}

/* This egress hangs, does not read or breaks the protocol. on_end() asks for another one. */
static void on_hung(struct channel *c, const char *why)
{
	struct egress_link *l = c->arg;

	l->hung = true;
	l->all->numbers.broken++;
}

void egress_link_break(struct egress_link *l, const char *why)
{
	channel_give_up(&l->channel, why);
}

bool egress_link_up(const struct egress_link *l)
{
	return channel_is_up(&l->channel);
}

/* ---- out */

int egress_link_send(struct egress_link *l, enum egress_type type, const char *id, const char *text,
		     size_t len, int *fds, struct err *e)
{
	uint8_t head[EGRESS_HEAD];

	assert(len <= EGRESS_TEXT_MAX);
	egress_msg_head(head, type, id, len);
	if (channel_send(&l->channel,
			 &(struct channel_msg){ .bytes = head,
						.len = sizeof(head),
						.more = text,
						.more_len = len,
						.fds = fds,
						.nfds = fds == NULL ? 0 : egress_msg_fds(type) },
			 e) == 0)
		return 0;
	egress_link_break(l, "it does not read");
	return err_set(e, ERR_LIMIT, "cordon-egress is not connected or does not read");
}

/* ---- in */

/* End the transaction that the records of this turn are in. */
static void egress_link_commit_records(struct egress_link *l)
{
	struct core *c = l->core;
	struct err e;

	if (l->recording && store_commit(core_store(c), &e) < 0) {
		store_rollback(core_store(c));
		log_error("network records could not be written", "error=%s", e.msg);
	}
	l->recording = false;
}

/* A record or count of one session is invalid: that must not cost the other sessions their network.
 */
static void egress_link_drop_invalid(struct egress_link *l, const struct egress_msg *m,
				     struct err *e)
{
	static struct log_limit limit = { .burst = 5, .interval_ms = 10000 };
	unsigned long long dropped;

	l->all->numbers.invalid++;
	err_sanitize(e);
	if (log_limit(&limit, &dropped))
		log_warn("invalid record of cordon-egress dropped",
			 "session_id=%s error=%s dropped=%llu", m->id, e->msg, dropped);
}

static void on_record(struct egress_link *l, struct session *s, const struct egress_msg *m)
{
	bool allowed = false;
	struct err failed;

	if (!l->recording && store_begin(core_store(l->core), &failed) < 0) {
		log_error("network record could not be written", "error=%s", failed.msg);
		return;
	}
	l->recording = true;
	if (net_log_take(s, m->text, m->len, &allowed, &failed) < 0) {
		if (failed.code == ERR_INVALID) {
			egress_link_drop_invalid(l, m, &failed);
			return;
		}
		l->recording = false; /* the store has rolled it back */
		log_error("network record could not be written", "session_id=%s error=%s", m->id,
			  failed.msg);
		return;
	}
	l->all->numbers.records++;
	l->all->numbers.refused += allowed ? 0 : 1;
}

static int on_message(struct channel *c, const struct channel_got *got, struct err *e)
{
	struct egress_link *l = c->arg;
	struct egress_msg m;
	struct session *s;
	struct err invalid;

	if (egress_msg_read(&got->frame, &m, e) < 0)
		return -1;
	if (m.type < EGRESS_TAKEN)
		return err_set(e, ERR_INVALID, "cordon-egress sent a message of cordond");
	if (m.type == EGRESS_TURNS)
		return egress_link_egress_turns_take(&l->turns, m.text, m.len, e);
	s = session_by_id(l->core, m.id);
	if (s == NULL || m.type == EGRESS_PONG)
		return 0; /* the session has ended */
	if (session_egress_link(s) != l) {
		(void)err_set(&invalid, ERR_INVALID, "the session belongs to another process");
		egress_link_drop_invalid(l, &m, &invalid);
		return 0;
	}
	if (m.type == EGRESS_RECORD) {
		on_record(l, s, &m);
		return 0;
	}
	egress_link_commit_records(l);
	if (m.type == EGRESS_TAKEN)
		session_egress_on_taken(s, m.text, m.len);
	else if (m.type == EGRESS_COUNTS && net_log_counts(s, m.text, m.len, &invalid) < 0)
		egress_link_drop_invalid(l, &m, &invalid);
	return 0;
}

static void on_turn(struct channel *c)
{
	egress_link_commit_records(c->arg);
}

/* ---- is it alive? */

/* No channel has come since the last one was lost. */
static void on_another(struct loop_timer *t)
{
	struct egress_link *l = t->arg;

	egress_link_replace(l);
	loop_timer_set(core_loop(l->core), t, clock_now_ns() + l->timeout_ms * CLOCK_MS);
}

static void on_ping(struct channel *c)
{
	struct err e;

	IGNORED(egress_link_send(c->arg, EGRESS_PING, "", NULL, 0, NULL, &e),
		"egress was given up");
}

static void on_room(struct channel *c)
{
	egress_orders_go_on(&((struct egress_link *)c->arg)->orders);
}

static void egress_link_init(struct egress_link *l, struct egress_links *all, unsigned slot)
{
	uint64_t timeout_ms = core_config(all->core)->egress_timeout_ms;
	/* Any byte is the answer to a ping. */
	const struct channel_rules rules = { .peer = "cordon-egress",
					     .framed = true,
					     .in_max = BODY_MAX,
					     .out_max = QUEUED_MAX / all->n,
					     .untrusted = true,
					     .turn_messages = FRAMES_PER_TURN / all->n,
					     .ping_ms = timeout_ms / 3,
					     .patience_ms = timeout_ms };

	*l = (struct egress_link){
		.all = all, .core = all->core, .slot = slot, .timeout_ms = timeout_ms
	};
	l->another = (struct loop_timer){ .on_expire = on_another, .arg = l };
	channel_init(&l->channel, core_loop(l->core), &rules);
	l->channel.arg = l;
	l->channel.on_message = on_message;
	l->channel.on_end = on_end;
	l->channel.on_hung = on_hung;
	l->channel.on_ping = on_ping;
	l->channel.on_turn = on_turn;
	l->channel.on_room = on_room;
	egress_orders_init(&l->orders, l);
}

static void egress_link_release(struct egress_link *l)
{
	loop_timer_cancel(core_loop(l->core), &l->another);
	channel_release(&l->channel);
	egress_orders_release(&l->orders);
}

/* ---- sessions */

static void egress_link_attach_one(struct session *s, void *arg)
{
	if (session_egress_link(s) == arg)
		session_egress_on_connected(s);
}

/* Take over the channel of a new egress. */
static int egress_link_attach(struct egress_link *l, int sock, struct err *e)
{
	if (channel_attach(&l->channel, sock, e) < 0)
		return -1;
	loop_timer_cancel(core_loop(l->core), &l->another);
	l->hung = false;
	egress_link_egress_turns_restart(&l->turns);
	log_info("cordon-egress connected", "slot=%u", l->slot);
	session_each(l->core, NULL, egress_link_attach_one, l);
	egress_links_sync_later(l->all);
	return 0;
}

/* Send SYNCED if it was not sent yet, and no session is missing or it takes too long. */
static void egress_link_synced(struct egress_link *l, bool missing)
{
	struct err e;

	if (!channel_is_up(&l->channel) || l->synced ||
	    (missing && clock_now_ns() < l->channel.since_ns + SYNC_MS * CLOCK_MS))
		return;
	l->synced = true;
	IGNORED(egress_link_send(l, EGRESS_SYNCED, "", NULL, 0, NULL, &e),
		"the next channel sends it again");
}

/* ---- all processes */

static void on_sync(struct loop_task *t)
{
	egress_links_sync(t->arg);
}

void egress_links_init(struct egress_links *all, struct core *c, unsigned n)
{
	*all = (struct egress_links){ .core = c, .n = n };
	all->sync = (struct loop_task){ .on_run = on_sync, .arg = all };
	for (unsigned i = 0; i < n; i++)
		egress_link_init(&all->links[i], all, i);
}

void egress_links_release(struct egress_links *all)
{
	loop_task_cancel(core_loop(all->core), &all->sync);
	for (unsigned i = 0; i < all->n; i++)
		egress_link_release(&all->links[i]);
}

/* FNV-1a. Ids are random, but not all of their characters are. A client cannot choose one. */
unsigned egress_links_slot(const char *session_id, unsigned n)
{
	uint32_t h = 2166136261U;

	for (; *session_id != '\0'; session_id++)
		h = (h ^ (uint8_t)*session_id) * 16777619U;
	return (h ^ h >> 16) % n;
}

int egress_links_attach(struct egress_links *all, unsigned slot, int sock, struct err *e)
{
	if (slot < all->n)
		return egress_link_attach(&all->links[slot], sock, e);
	fd_close(sock);
	return err_set(e, ERR_INVALID, "there is no process %u of cordon-egress", slot);
}

struct look {
	bool missing[SERVE_EGRESS_MAX];
};

static void egress_link_look_one(struct session *s, void *arg)
{
	struct look *l = arg;

	/* Also when its process is synced: it had to wait because many others were asked. */
	session_egress_try(s);
	if (session_egress_is_missing(s))
		l->missing[session_egress_link(s)->slot] = true;
}

void egress_links_sync(struct egress_links *all)
{
	struct look l = { 0 };

	if (egress_links_up(all) == 0 || !core_recovered(all->core))
		return;
	for (unsigned i = 0; i < all->n; i++)
		all->links[i].waiting = false;
	session_each(all->core, NULL, egress_link_look_one, &l);
	for (unsigned i = 0; i < all->n; i++)
		egress_link_synced(&all->links[i], l.missing[i]);
}

void egress_links_sync_later(struct egress_links *all)
{
	loop_defer(core_loop(all->core), &all->sync);
}

unsigned egress_links_up(const struct egress_links *all)
{
	unsigned up = 0;

	for (unsigned i = 0; i < all->n; i++)
		up += egress_link_up(&all->links[i]) ? 1 : 0;
	return up;
}

bool egress_links_any_hung(const struct egress_links *all)
{
	for (unsigned i = 0; i < all->n; i++)
		if (all->links[i].hung)
			return true;
	return false;
}

void egress_links_write_turns(const struct egress_links *all, struct buf *to)
{
	struct egress_turns sum = { 0 };

	for (unsigned i = 0; i < all->n; i++)
		egress_link_egress_turns_add(&sum, &all->links[i].turns);
	egress_link_egress_turns_write(&sum, to);
}
