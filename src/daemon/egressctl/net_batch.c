/* net_batch.c - see net_batch.h. */
#include "daemon/egressctl/net_batch.h"

#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_batch.h"
#include "daemon/egressctl/net_state.h"
#include "daemon/store/store_net.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define BATCH_CHECKPOINTS 6 /* how many times `audit_checkpoint` rows wait */
#define BATCHES_PER_TURN 4
#define BATCH_AGAIN_MS 1000 /* after a failure */

enum { BATCH_NETWORK, BATCH_PACKAGES, BATCHES };

/* The rows behind the last batch, as far as they go into this one. */
struct batch_reading {
	struct audit_batch batches[BATCHES];
	uint64_t weight, last;
	struct err *e;
};

static void on_batch_due(struct loop_timer *t);

void net_batch_init(struct net_batch_due *d, struct core *c)
{
	*d = (struct net_batch_due){ .core = c };
	d->timer = (struct loop_timer){ .on_expire = on_batch_due, .arg = d };
}

void net_batch_release(struct net_batch_due *d)
{
	loop_timer_cancel(core_loop(d->core), &d->timer);
}

/* ---- the sessions with rows, the one that has waited longest first */

static void batch_enlist(struct session *s, uint64_t wait_ms)
{
	struct net_batch_due *d = &net_access_of(session_core(s))->batches;
	struct net_batch *b = &net_session_of(s)->batch;

	if (b->due)
		return;
	b->due = true;
	b->at_ns = clock_now_ns() + wait_ms * CLOCK_MS;
	b->prev = d->last;
	b->next = NULL;
	*(d->last == NULL ? &d->first : &net_session_of(d->last)->batch.next) = s;
	d->last = s;
	if (d->first == s)
		loop_timer_set(core_loop(session_core(s)), &d->timer, b->at_ns);
}

void net_batch_forget(struct session *s)
{
	struct net_batch_due *d = &net_access_of(session_core(s))->batches;
	struct net_batch *b = &net_session_of(s)->batch;

	if (!b->due)
		return;
	*(b->prev == NULL ? &d->first : &net_session_of(b->prev)->batch.next) = b->next;
	*(b->next == NULL ? &d->last : &net_session_of(b->next)->batch.prev) = b->prev;
	b->due = false;
}

void net_batch_look(struct session *s)
{
	batch_enlist(s, BATCH_CHECKPOINTS * core_config(session_core(s))->audit_checkpoint_ms);
}

/* ---- one batch */

static int batch_on_row(const struct store_net *row, void *cookie)
{
	struct batch_reading *r = cookie;
	unsigned which = strcmp(row->kind, "package") == 0 ? BATCH_PACKAGES : BATCH_NETWORK;

	if (audit_batch_add(&r->batches[which], row, r->e) < 0)
		return -1;
	r->weight += STORE_NET_WEIGHT(strlen(row->data));
	r->last = row->seq;
	return r->weight >= NET_BATCH_WEIGHT ? 1 : 0;
}

/* Those without rows are no records. */
static int batch_append(struct session *s, const struct batch_reading *r, uint64_t after,
			struct err *e)
{
	const struct store_session *row = session_row(s);
	struct audit_record records[BATCHES] = { { .type = "network.batch" },
						 { .type = "package.batch" } };
	char root[2 * TLOG_HASH + 1];

	for (unsigned i = 0; i < BATCHES; i++) {
		const struct audit_batch *b = &r->batches[i];

		if (b->tree.size == 0)
			continue;
		records[i].tenant = row->tenant;
		records[i].session = row->id;
		audit_batch_root(b, root);
		if (audit_append(core_audit(session_core(s)), &records[i], e,
				 "records\t%llu\nfirst_seq\t%llu\nlast_seq\t%llu\n"
				 "after_seq\t%llu\nlost_before\t%llu\nroot\t%s\n",
				 (unsigned long long)b->tree.size, (unsigned long long)b->first,
				 (unsigned long long)b->last, (unsigned long long)after,
				 (unsigned long long)b->lost, root) < 0)
			return -1;
	}
	return 0;
}

static int batch_take(struct session *s, struct err *e)
{
	struct store *store = core_store(session_core(s));
	const char *id = session_row(s)->id;
	struct batch_reading r = { .e = e };
	struct store_net_filter from = { .session = id,
					 .verdict = STORE_NET_ANY,
					 .limit = NET_BATCH_WEIGHT };
	bool own;

	if (store_join(store, &own, e) < 0 ||
	    store_net_batched(store, id, &from.after_seq, e) < 0 ||
	    store_net_list(store, &from, batch_on_row, &r, NULL, e) < 0 ||
	    batch_append(s, &r, from.after_seq, e) < 0 ||
	    (r.last > 0 && store_net_set_batched(store, id, r.last, e) < 0) ||
	    store_leave(store, own, e) < 0)
		return -1;
	net_session_of(s)->batch.weight = 0;
	return r.last > 0 ? 1 : 0;
}

/* 1: there may be more rows. 0: every row has its batch. -1: the transaction is rolled back. */
static int batch_write(struct session *s, struct err *e)
{
	int more = batch_take(s, e);

	if (more < 0)
		store_rollback(core_store(session_core(s)));
	return more;
}

int net_batch_finish(struct session *s, struct err *e)
{
	int more = 1;

	if (!net_session_of(s)->batch.due)
		return 0;
	while (more > 0)
		more = batch_write(s, e);
	return more;
}

int net_batch_count(struct session *s, uint64_t weight, struct err *e)
{
	struct net_batch *b = &net_session_of(s)->batch;

	net_batch_look(s);
	b->weight += weight;
	return b->weight < NET_BATCH_WEIGHT || batch_write(s, e) >= 0 ? 0 : -1;
}

/* ---- those that waited long enough */

static void on_batch_due(struct loop_timer *t)
{
	struct net_batch_due *d = t->arg;
	uint64_t now = clock_now_ns();
	struct session *s;
	struct err e;
	int more;

	for (unsigned i = 0; i < BATCHES_PER_TURN && (s = d->first) != NULL; i++) {
		if (net_session_of(s)->batch.at_ns > now)
			break;
		more = batch_write(s, &e);
		if (more > 0)
			continue;
		net_batch_forget(s);
		if (more == 0)
			continue;
		log_error("a batch of network records could not be written",
			  "session_id=%s error=%s", session_row(s)->id, e.msg);
		batch_enlist(s, BATCH_AGAIN_MS);
	}
	if (d->first != NULL) {
		uint64_t at = net_session_of(d->first)->batch.at_ns;

		loop_timer_set(core_loop(d->core), t, at < now ? now : at);
	}
}
