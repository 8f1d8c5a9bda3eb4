/* audit_checkpoint.c - theory of operation
 *
 * Logs with new records are in the list `due`. A round takes them all. First their records are
 * hashed, a tile at a time, as a job. Then the journal is made durable once for all of them, by the
 * thread of the store: else a power cut would leave cordon-notary with a size that the store does
 * not have, and that looks like a rollback. Then one log after the other asks for its signature.
 * Logs with newer records are due again.
 *
 * cordon-notary compares the proof with the size and root that it remembers. If it remembers
 * another size than the last stored checkpoint (its answer was lost, or cordond died before it
 * stored it), it names it (stale), and the proof is made again from there. A failed proof is
 * an alarm: the store lost records (rollback), or has others (fork, gap). The log then ends, and a
 * new one begins with a record of that: its epoch is one more. So does a log that was signed by a
 * cordon-notary of another name (key), which knew its size and root: this one knows nothing.
 *
 * Without cordon-notary records continue, and checkpoints are late. */
#include "daemon/audit/audit_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_private.h"
#include "daemon/audit/audit_prune.h"
#include "daemon/audit/audit_tree.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define SYNC_POLL_NS (2 * CLOCK_MS)
#define RETRY_MS 1000	 /* after a failure */
#define LATE_MS 60000	 /* from then on it is logged */
#define AWAY_MS 2000	 /* a replaced cordon-notary is waited for */
#define TRIES 4		 /* of one log in a round */
#define LOOK_MS 60000ULL /* for old records */
#define BEAT_MS (15 * 60 * 1000ULL)
#define META_NAME "audit_name"
#define META_KEY "audit_vkey"
#define META_FORMER "audit_former_vkey"

unsigned audit_alarm_place(const char *why)
{
	return strcmp(why, "rollback") == 0 ? ALARM_ROLLBACK
	       : strcmp(why, "fork") == 0   ? ALARM_FORK
	       : strcmp(why, "gap") == 0    ? ALARM_GAP
					    : ALARM_KEY;
}

/* ---- which logs, and when */

static void audit_checkpoint_plan(struct audit *a, uint64_t within_ms)
{
	uint64_t at = clock_now_ns() + (a->hurries ? 0 : within_ms * CLOCK_MS);

	if (a->o.notary == NULL || (a->timer_ns != 0 && a->timer_ns <= at))
		return;
	a->timer_ns = at;
	if (a->round == ROUND_NONE)
		loop_timer_set(a->loop, &a->timer, at);
}

uint64_t audit_interval(const struct audit *a, bool soon)
{
	uint64_t every = a->o.config->audit_checkpoint_ms;

	return soon && every > AUDIT_SOON_MS ? AUDIT_SOON_MS : every;
}

static void push_due(struct audit *a, struct audit_log *l)
{
	l->where = LOG_DUE;
	l->next_due = a->due;
	a->due = l;
}

void audit_due(struct audit *a, struct audit_log *l, uint64_t within_ms)
{
	if (l->where == LOG_IDLE)
		push_due(a, l);
	else if (l->where == LOG_IN_ROUND)
		l->more = true;
	audit_checkpoint_plan(a, within_ms);
}

/* Out of the round. Its waiters are told by the caller. */
static struct audit_log *take_first(struct audit *a)
{
	struct audit_log *l = a->in_round;

	a->in_round = l->next_due;
	l->next_due = NULL;
	l->where = LOG_IDLE;
	if (l->more || l->fresh.first != NULL)
		push_due(a, l);
	l->more = false;
	return l;
}

static void end_round(struct audit *a)
{
	a->round = ROUND_NONE;
	if (a->timer_ns != 0)
		loop_timer_set(a->loop, &a->timer, a->timer_ns);
	else if (a->due != NULL)
		audit_checkpoint_plan(a, audit_interval(a, false));
}

/* cordon-notary was replaced a moment ago: another one comes. Who waits for a checkpoint has a
 * deadline, and waits on. */
static bool is_brief(const struct audit *a, const struct err *e)
{
	return e->reason == REASON_PEER_DIED ||
	       (!notary_link_is_up(a->o.notary) && notary_link_down_ms(a->o.notary) < AWAY_MS);
}

/* Unsigned logs are due again. */
static void round_failed(struct audit *a, const struct err *e)
{
	uint64_t now = clock_now_ns();
	bool brief = is_brief(a, e);

	if (a->late_ns == 0)
		a->late_ns = now;
	if (!a->late_told && now - a->late_ns >= LATE_MS * CLOCK_MS) {
		a->late_told = true;
		log_error("checkpoints of the audit log are late", "error=%s", e->msg);
	}
	while (a->in_round != NULL) {
		struct audit_log *l = a->in_round;

		l->more = true;
		(void)take_first(a);
		if (brief)
			completions_move(&l->in_round, &l->fresh);
		else
			completions_end_all(&l->in_round, e);
	}
	a->hurries = false; /* the end does not wait for it */
	audit_checkpoint_plan(a, RETRY_MS);
	end_round(a);
}

static void round_worked(struct audit *a)
{
	if (a->late_told)
		log_info("checkpoints of the audit log are signed again", "");
	a->late_told = false;
	a->late_ns = 0;
}

/* ---- hashes */

static int load_row(struct audit *a, struct audit_log *l, struct err *e)
{
	if (store_begin(a->store, e) < 0)
		return -1;
	/* It may end the log by an alarm. */
	if (audit_find(a, l->tenant, e) == NULL || store_commit(a->store, e) < 0 ||
	    store_audit_log_get(a->store, l->tenant, l->epoch, &a->row, e) < 0) {
		store_rollback(a->store);
		return -1;
	}
	store_audit_log_release(&a->row);
	a->row.note = NULL;
	a->has_row = true;
	l->size = l->next;
	l->tries = 0;
	l->broken = l->missing == l->epoch;
	l->missing = 0;
	return 0;
}

static void begin_sync(struct audit *a)
{
	a->round = ROUND_SYNCS;
	a->sync = store_sync(a->store);
	loop_timer_set(a->loop, &a->timer, clock_now_ns());
}

static bool on_hashing(struct job *job)
{
	struct audit *a = job->arg;
	struct audit_log *l = a->cursor;
	struct err e = { 0 };
	int more;

	if (l == NULL) {
		begin_sync(a);
		return false;
	}
	if (!a->has_row && load_row(a, l, &e) < 0) {
		round_failed(a, &e);
		return false;
	}
	more = audit_tree_step(a->store, &a->row, l->size, &e);
	if (more < 0 && e.code == ERR_INVALID) {
		log_error("the tree of an audit log cannot grow", "tenant=%s error=%s", l->tenant,
			  e.msg);
		l->broken = true;
		more = 0;
	}
	if (more < 0) {
		round_failed(a, &e);
		return false;
	}
	if (more == 0) {
		if (a->o.config->tenant_audit_max > 0 &&
		    a->row.bytes > a->o.config->tenant_audit_max)
			audit_retention_start(a);
		a->cursor = l->next_due;
		a->has_row = false;
	}
	return true;
}

static void begin_round(struct audit *a)
{
	a->timer_ns = 0;
	if (a->due == NULL)
		return;
	a->round = ROUND_HASHES;
	a->cursor = a->in_round = a->due;
	a->due = NULL;
	a->has_row = false;
	for (struct audit_log *l = a->in_round; l != NULL; l = l->next_due) {
		l->where = LOG_IN_ROUND;
		l->more = false;
		completions_move(&l->fresh, &l->in_round);
	}
	jobs_add(a->o.jobs, a->o.work, &a->hashing);
}

/* ---- signatures */

static void sign_next(struct audit *a);

static void log_is_done(struct audit *a, const struct err *e)
{
	struct audit_log *l = take_first(a);

	completions_end_all(&l->in_round, e);
	sign_next(a);
}

/* The first log of the round ends. Another one begins, and is due. */
static void raise_alarm(struct audit *a, const char *type, uint64_t known)
{
	struct audit_log *l = a->in_round;
	struct err e;

	if (store_begin(a->store, &e) < 0 || audit_find(a, l->tenant, &e) == NULL ||
	    audit_alarm(a, l, type, l->next, known, &e) < 0 || store_commit(a->store, &e) < 0) {
		store_rollback(a->store);
		log_error("an alarm of the audit log could not be written", "tenant=%s error=%s",
			  l->tenant, e.msg);
	}
	l->more = true;
	audit_checkpoint_plan(a, audit_interval(a, true));
	(void)err_set_reason(&e, REASON_UNAVAILABLE, "the audit log has ended by an alarm (%s)",
			     type);
	log_is_done(a, &e);
}

static int write_note(struct audit *a, struct store_audit_log *row, struct err *e)
{
	struct store_audit_note kept = { .log = row->id,
					 .size = row->note_size,
					 .kind = STORE_AUDIT_KEPT_KEY,
					 .note = row->note };
	bool another = audit_rotate_anchor(a, row, row->note, kept.vkey), alone;

	if (store_join(a->store, &alone, e) < 0)
		return -1;
	if ((another && store_audit_note_put(a->store, &kept, e) < 0) ||
	    store_audit_log_note(a->store, row, e) < 0) {
		store_rollback(a->store);
		return -1;
	}
	return store_leave(a->store, alone, e);
}

/* Store the checkpoint. lines: its signatures. */
static int keep_note(struct audit *a, struct store_audit_log *row, uint64_t size, const char *lines,
		     struct err *e)
{
	struct tlog_checkpoint c = { .size = size };
	char body[TLOG_CHECKPOINT_MAX], note[TLOG_CHECKPOINT_MAX + NOTARY_LINES_MAX + 1];
	const char *texts = row->note;
	int done;

	audit_origin(a, row, c.origin);
	memcpy(c.root.bytes, row->note_root, sizeof(c.root.bytes));
	if (tlog_checkpoint_format(&c, body) == 0)
		return err_set(e, ERR_INVALID, "audit: the origin is not valid");
	(void)snprintf(note, sizeof(note), "%s\n%s", body, lines);
	row->note = note;
	row->note_size = size;
	row->note_ms = clock_wall_ms();
	done = write_note(a, row, e);
	row->note = texts;
	return done;
}

static void on_signed(struct audit *a, const char *lines)
{
	struct audit_log *l = a->in_round;
	struct store_audit_log row;
	struct tlog_hash root;
	struct err e;

	if (store_audit_log_get(a->store, l->tenant, l->epoch, &row, &e) < 0) {
		round_failed(a, &e);
		return;
	}
	if (audit_tree_root(a->store, row.id, l->size, &root, &e) == 0) {
		memcpy(row.note_root, root.bytes, sizeof(row.note_root));
		if (keep_note(a, &row, l->size, lines, &e) == 0) {
			store_audit_log_release(&row);
			a->checkpoints++;
			l->again = false;
			round_worked(a);
			audit_notify(a, l->tenant); /* followers of exports send it */
			log_is_done(a, NULL);
			return;
		}
	}
	store_audit_log_release(&row);
	round_failed(a, &e);
}

/* Ask for a signature whose proof begins at that size. */
static void audit_checkpoint_ask(struct audit *a, uint64_t old_size)
{
	struct audit_log *l = a->in_round;
	const struct store_audit_log row = { .epoch = l->epoch };
	struct store_audit_log named = row;
	struct notary_sign s = { .old_size = old_size, .size = l->size };
	struct tlog_proof proof = { 0 };
	char origin[TLOG_NAME_MAX];
	struct tlog_hash root;
	struct err e;

	str_copy(named.tenant, l->tenant);
	audit_origin(a, &named, origin);
	if (audit_tree_root(a->store, l->id, l->size, &root, &e) < 0 ||
	    (old_size > 0 && old_size < l->size &&
	     audit_tree_prove(a->store, l->id, old_size, l->size, &proof, &e) < 0)) {
		if (e.code == ERR_INVALID) /* a tile is missing */
			raise_alarm(a, "audit.gap", l->size);
		else
			round_failed(a, &e);
		return;
	}
	s.origin = origin;
	s.root = root.bytes;
	s.proof = (const uint8_t *)proof.hashes;
	s.nproof = proof.n;
	notary_link_sign(a->o.notary, &a->call, &s);
}

/* It remembers another size than the proof began at. */
static void on_stale(struct audit *a, const struct notary_msg *m)
{
	struct audit_log *l = a->in_round;
	struct tlog_hash root;
	struct err e;

	if (m->size > l->size) {
		raise_alarm(a, "audit.rollback", m->size);
		return;
	}
	if (m->size > 0 && audit_tree_root(a->store, l->id, m->size, &root, &e) < 0) {
		if (e.code == ERR_INVALID)
			raise_alarm(a, "audit.gap", m->size);
		else
			round_failed(a, &e);
		return;
	}
	if (m->size > 0 && memcmp(root.bytes, m->root, sizeof(root.bytes)) != 0) {
		raise_alarm(a, "audit.fork", m->size);
		return;
	}
	if (++l->tries >= TRIES) {
		(void)err_set(&e, ERR_SYSTEM, "audit: cordon-notary refuses every proof");
		round_failed(a, &e);
		return;
	}
	audit_checkpoint_ask(a, m->size);
}

static void on_answer(struct notary_call *c, const struct notary_msg *m, const struct err *failed)
{
	struct audit *a = c->arg;
	struct err e;

	if (failed != NULL) {
		e = *failed;
		round_failed(a, &e);
	} else if (m->type == NOTARY_SIGNED) {
		on_signed(a, m->lines);
	} else if (m->reason == NOTARY_STALE) {
		on_stale(a, m);
	} else if (m->reason == NOTARY_ROLLBACK || m->reason == NOTARY_FORK) {
		raise_alarm(a, m->reason == NOTARY_FORK ? "audit.fork" : "audit.rollback", m->size);
	} else {
		(void)err_set(&e, ERR_SYSTEM, "audit: cordon-notary refuses to sign: %s (%.100s)",
			      notary_reason_name(m->reason), m->text);
		round_failed(a, &e);
	}
}

/* The next log of the round. */
static void sign_next(struct audit *a)
{
	struct audit_log *l = a->in_round;
	struct store_audit_log row;
	uint64_t signed_size;
	bool is_named;
	struct err e;

	if (l == NULL) {
		end_round(a);
		return;
	}
	if (l->broken) {
		raise_alarm(a, "audit.gap", l->size);
		return;
	}
	if (store_audit_log_get(a->store, l->tenant, l->epoch, &row, &e) < 0) {
		round_failed(a, &e);
		return;
	}
	signed_size = row.note_size;
	is_named = audit_is_named(a, &row);
	store_audit_log_release(&row);
	if (!is_named) /* all that the former cordon-notary remembered is gone */
		raise_alarm(a, "audit.key", 0);
	else if (signed_size == l->size && !l->again)
		loop_defer(a->loop, &a->unchanged);
	else
		audit_checkpoint_ask(a, signed_size <= l->size ? signed_size : 0);
}

/* The first log of the round has its checkpoint already. From a task, so that many such logs are no
 * recursion. */
static void on_unchanged(struct loop_task *t)
{
	log_is_done(t->arg, NULL);
}

static void on_timer(struct loop_timer *t)
{
	struct audit *a = t->arg;
	struct err e = { 0 };
	int done;

	if (a->round == ROUND_NONE) {
		begin_round(a);
		return;
	}
	if (a->round != ROUND_SYNCS)
		return;
	done = store_synced(a->store, a->sync, &e);
	if (done == 0) {
		loop_timer_set(a->loop, &a->timer, clock_now_ns() + SYNC_POLL_NS);
	} else if (done < 0) {
		round_failed(a, &e);
	} else if (a->name[0] == '\0') {
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "cordon-notary is not running");
		round_failed(a, &e);
	} else {
		a->round = ROUND_SIGNS;
		sign_next(a);
	}
}

/* ---- the key
 *
 * Its name is the first part of every origin. It is kept in the store, so that a daemon knows its
 * logs' origins before cordon-notary is up. */

/* A key that came by no rotation. Of another name: its folder was replaced, and every log ends by
 * an alarm. Else the store is from before a rotation. */
static void on_other_key(struct audit *a, const struct notary_msg *m)
{
	const struct audit_record record = { .tenant = AUDIT_NODE, .type = "audit.key" };
	struct err e = { 0 };

	if (strcmp(a->name, m->name) != 0) {
		log_error("cordon-notary has another name: every audit log ends, and another one "
			  "begins",
			  "former=%s present=%s", a->name, m->name);
		a->loaded = 0;
		jobs_add(a->o.jobs, a->o.work, &a->loading);
	} else if (audit_append(a, &record, &e, "vkey\t%s\nformer\t%s\n", m->vkey, a->vkey) < 0) {
		log_error("a record of the audit log could not be written", "error=%s", e.msg);
	}
}

static int write_keys(struct audit *a, const struct notary_msg *m, struct err *e)
{
	if (store_begin(a->store, e) < 0 || store_meta_set(a->store, META_NAME, m->name, e) < 0 ||
	    store_meta_set(a->store, META_KEY, m->vkey, e) < 0 ||
	    store_meta_set(a->store, META_FORMER, m->former_vkey, e) < 0)
		return -1;
	return store_commit(a->store, e);
}

void audit_take_keys(struct audit *a, const struct notary_msg *m)
{
	struct err e = { 0 };

	/* A key that came by a rotation is told to every log: audit_rotate.c. */
	if (a->vkey[0] != '\0' && strcmp(a->vkey, m->vkey) != 0 &&
	    (strcmp(a->name, m->name) != 0 || strcmp(a->vkey, m->former_vkey) != 0))
		on_other_key(a, m);
	if ((strcmp(a->vkey, m->vkey) != 0 || strcmp(a->former, m->former_vkey) != 0) &&
	    write_keys(a, m, &e) < 0) {
		store_rollback(a->store);
		log_error("the name of the audit log's key could not be written", "error=%s",
			  e.msg);
	}
	str_copy(a->name, m->name);
	str_copy(a->vkey, m->vkey);
	audit_rotate_on_keys(a, m);
	if (a->due != NULL)
		audit_checkpoint_plan(a, 0);
}

static void on_key(struct notary_call *c, const struct notary_msg *m, const struct err *failed)
{
	if (failed == NULL && m->type == NOTARY_KEY_IS)
		audit_take_keys(c->arg, m);
	/* Else it is asked again when another cordon-notary is up. */
}

static void on_up(void *arg)
{
	struct audit *a = arg;

	notary_link_key(a->o.notary, &a->key_call);
}

/* ---- the start
 *
 * Every log asks for the checkpoint that it has once more: a store from a backup is noticed at
 * once, not with the next record. */

static int on_log(const struct store_audit_log *row, void *cookie)
{
	struct audit *a = cookie;

	a->loaded = row->id;
	str_copy(a->load[a->nload++], row->tenant);
	return 0;
}

static bool on_loading(struct job *job)
{
	struct audit *a = job->arg;
	struct audit_log *l;
	struct err e = { 0 };

	a->nload = 0;
	if (store_audit_log_each(a->store, a->loaded, AUDIT_LOAD, on_log, a, &e) < 0) {
		log_error("the audit logs could not be read", "error=%s", e.msg);
		return false;
	}
	for (unsigned i = 0; i < a->nload; i++) {
		if (store_begin(a->store, &e) < 0)
			return false;
		l = audit_find(a, a->load[i], &e);
		if (l == NULL || store_commit(a->store, &e) < 0) {
			store_rollback(a->store);
			log_error("an audit log could not be read", "tenant=%s error=%s",
				  a->load[i], e.msg);
			continue;
		}
		l->again = true;
		audit_due(a, l, audit_interval(a, true));
	}
	return a->nload == AUDIT_LOAD;
}

int audit_checkpoint_setup(struct audit *a, struct err *e)
{
	a->timer = (struct loop_timer){ .on_expire = on_timer, .arg = a };
	a->unchanged = (struct loop_task){ .on_run = on_unchanged, .arg = a };
	a->hashing = (struct job){ .on_piece = on_hashing, .arg = a };
	a->loading = (struct job){ .on_piece = on_loading, .arg = a };
	a->call = (struct notary_call){ .on_done = on_answer, .arg = a };
	a->key_call = (struct notary_call){ .on_done = on_key, .arg = a };
	audit_rotate_setup(a);
	if ((store_meta_get(a->store, META_NAME, a->name, sizeof(a->name), e) < 0 ||
	     store_meta_get(a->store, META_KEY, a->vkey, sizeof(a->vkey), e) < 0 ||
	     store_meta_get(a->store, META_FORMER, a->former, sizeof(a->former), e) < 0) &&
	    e->code != ERR_NOT_FOUND)
		return -1;
	a->beat_ns = clock_now_ns();
	if (a->o.notary == NULL)
		return 0;
	notary_link_watch(a->o.notary, on_up, a);
	jobs_add(a->o.jobs, a->o.work, &a->loading);
	return 0;
}

void audit_checkpoint_release(struct audit *a)
{
	loop_timer_cancel(a->loop, &a->timer);
	loop_task_cancel(a->loop, &a->unchanged);
	jobs_cancel(a->o.jobs, &a->hashing);
	jobs_cancel(a->o.jobs, &a->loading);
	notary_link_cancel(&a->call);
	notary_link_cancel(&a->key_call);
	audit_rotate_release(a);
	if (a->o.notary != NULL)
		notary_link_watch(a->o.notary, NULL, NULL);
}

/* ---- for others */

void audit_checkpoint_wait(struct audit *a, const char *tenant, struct completion *w)
{
	struct audit_log *l;
	struct err e = { 0 };
	bool alone;

	if (a->o.notary == NULL || notary_link_down_ms(a->o.notary) >= AWAY_MS) {
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "cordon-notary is not running");
		completion_end_soon(w, a->loop, &e);
		return;
	}
	if (store_join(a->store, &alone, &e) < 0 || (l = audit_find(a, tenant, &e)) == NULL ||
	    store_leave(a->store, alone, &e) < 0) {
		store_rollback(a->store);
		completion_end_soon(w, a->loop, &e);
		return;
	}
	completion_begin(w, a->loop, &l->fresh);
	audit_due(a, l, 0);
}

void audit_tick(struct audit *a)
{
	const struct audit_record record = { .tenant = AUDIT_NODE, .type = "node.heartbeat" };
	uint64_t now = clock_now_ns();
	struct err e;

	if (now - a->looked_ns >= LOOK_MS * CLOCK_MS) {
		a->looked_ns = now;
		audit_retention_start(a);
	}
	if (now - a->beat_ns < BEAT_MS * CLOCK_MS)
		return;
	a->beat_ns = now;
	if (audit_append(a, &record, &e, "%s", "") < 0)
		log_error("a record of the audit log could not be written", "error=%s", e.msg);
}

void audit_hurry(struct audit *a)
{
	a->hurries = true;
	if (a->due != NULL)
		audit_checkpoint_plan(a, 0);
}

bool audit_is_idle(const struct audit *a)
{
	return a->o.notary == NULL || !notary_link_is_up(a->o.notary) || a->late_ns != 0 ||
	       (a->round == ROUND_NONE && a->due == NULL);
}

void audit_counts(const struct audit *a, struct audit_counts *ret)
{
	*ret = (struct audit_counts){
		.records = a->appended,
		.checkpoints = a->checkpoints,
		.pruned = a->pruned,
		.alarms_rollback = a->alarms[ALARM_ROLLBACK],
		.alarms_fork = a->alarms[ALARM_FORK],
		.alarms_gap = a->alarms[ALARM_GAP],
		.alarms_key = a->alarms[ALARM_KEY],
		.late_ms = a->late_ns == 0 ? 0 : (clock_now_ns() - a->late_ns) / CLOCK_MS + 1,
		.notary_up = a->o.notary != NULL && notary_link_is_up(a->o.notary),
	};
}
