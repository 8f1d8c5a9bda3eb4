/* audit_rotate.c - theory of operation
 *
 * cordon-notary makes the new key (ROTATE) and signs with both from then on. A job walks over the
 * logs and appends a record `audit.key` with the new key to each. The next checkpoint of that log
 * covers the record and has both signatures: it is kept for ever. The record has a signature by the
 * former key that names the new one, which only cordon-notary can make: verifiers who know the
 * former key believe the new one by it, and no key that cordond makes up. When each log has such a
 * checkpoint the former key is destroyed (RETIRE).
 *
 * What was done is in the rows: the key that the last record of a log names, and the key that
 * verifies its last checkpoint. That there is a rotation is known by cordon-notary, which tells its
 * former key. So any of the programs may be killed at any moment, and the job begins again. A log
 * that begins meanwhile begins with the new key. */
#include "daemon/audit/audit_rotate.h"

#include <string.h>

#include "daemon/audit/audit_checkpoint.h"
#include "daemon/audit/audit_private.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define PIECE 16 /* logs */
#define AGAIN_NS (500 * CLOCK_MS)

const char *audit_former_vkey(const struct audit *a)
{
	return a->former;
}

/* ---- which key verifies a checkpoint */

static bool is_signed_by(const struct tlog_note *n, const char *vkey)
{
	struct tlog_vkey k;
	struct err e;

	if (tlog_vkey_parse(vkey, strlen(vkey), &k, &e) < 0)
		return false;
	for (unsigned i = 0; i < n->nsigs; i++)
		if (n->sigs[i].len == TLOG_SIG && memcmp(n->sigs[i].id, k.id, sizeof(k.id)) == 0)
			return true;
	return false;
}

bool audit_rotate_anchor(const struct audit *a, struct store_audit_log *row, const char *note,
			 char ret_former[STORE_AUDIT_VKEY_MAX])
{
	struct tlog_note n;
	struct err e;

	if (tlog_note_split(note, strlen(note), &n, &e) < 0)
		return false;
	/* The first checkpoint that says by which key: older rows have none. */
	if (row->vkey[0] == '\0' && a->former[0] != '\0' &&
	    (strcmp(row->named, a->vkey) != 0 || row->named_seq > 0))
		str_copy(row->vkey, a->former);
	if (row->vkey[0] == '\0' || !is_signed_by(&n, row->vkey)) {
		str_copy(row->vkey, a->vkey);
		return false;
	}
	if (row->named[0] == '\0' || strcmp(row->named, row->vkey) == 0 ||
	    row->named_seq >= row->note_size || !is_signed_by(&n, row->named))
		return false;
	memcpy(ret_former, row->vkey, STORE_AUDIT_VKEY_MAX);
	memcpy(row->vkey, row->named, sizeof(row->vkey));
	return true;
}

/* ---- the walk over the logs */

struct audit_rotate_batch {
	unsigned n;
	uint64_t last;
	struct {
		uint64_t id;
		char tenant[STORE_ID_MAX];
		char vkey[STORE_AUDIT_VKEY_MAX], named[STORE_AUDIT_VKEY_MAX];
	} logs[PIECE];
};

static int on_log(const struct store_audit_log *row, void *cookie)
{
	struct audit_rotate_batch *b = cookie;

	b->last = row->id;
	b->logs[b->n].id = row->id;
	str_copy(b->logs[b->n].tenant, row->tenant);
	str_copy(b->logs[b->n].vkey, row->vkey);
	str_copy(b->logs[b->n].named, row->named);
	b->n++;
	return 0;
}

/* Append the record that names the new key to the log of that tenant, if it is still the log. */
static int name_key(struct audit *a, const char *tenant, uint64_t id, struct err *e)
{
	const struct audit_record record = { .tenant = tenant, .type = "audit.key" };
	struct audit_log *l = audit_find(a, tenant, e);
	char proof[BASE64_LENGTH(NOTARY_SIG) + 1];

	if (l == NULL)
		return -1;
	base64_encode(a->next_proof, sizeof(a->next_proof), proof);
	if (l->id != id) /* it has ended by an alarm */
		return 0;
	if (audit_append(a, &record, e, "vkey\t%s\nformer\t%s\nproof\t%s\n", a->vkey, a->former,
			 proof) < 0)
		return -1;
	return store_audit_log_named(a->store, id, a->vkey, l->next - 1, e);
}

static int name_keys(struct audit *a, const struct audit_rotate_batch *b, struct err *e)
{
	if (store_begin(a->store, e) < 0)
		return -1;
	for (unsigned i = 0; i < b->n; i++)
		if (strcmp(b->logs[i].named, a->vkey) != 0 &&
		    name_key(a, b->logs[i].tenant, b->logs[i].id, e) < 0)
			return -1;
	return store_commit(a->store, e);
}

/* 1: each log of the batch has its checkpoint. 0: one does not, and is due. */
static int are_signed(struct audit *a, const struct audit_rotate_batch *b, struct err *e)
{
	int all = 1;

	for (unsigned i = 0; i < b->n; i++) {
		struct audit_log *l;

		if (strcmp(b->logs[i].vkey, a->vkey) == 0)
			continue;
		if (store_begin(a->store, e) < 0)
			return -1;
		l = audit_find(a, b->logs[i].tenant, e);
		if (l == NULL || store_commit(a->store, e) < 0)
			return -1;
		if (l->id != b->logs[i].id || l->next == 0)
			continue; /* it has ended, or is empty: its first checkpoint is to come */
		audit_due(a, l, 0);
		all = 0;
	}
	return all;
}

/* The next logs. 1: there may be more. 0: that was the last, or one must be waited for. */
static int audit_rotate_visit(struct audit *a, struct err *e)
{
	struct audit_rotate_batch b = { .last = a->named_log };
	int done;

	if (store_audit_log_each(a->store, a->named_log, PIECE, on_log, &b, e) < 0)
		return -1;
	done = a->all_named ? are_signed(a, &b, e) : name_keys(a, &b, e) < 0 ? -1 : 1;
	if (done < 0)
		return -1;
	if (done == 0) {
		loop_timer_set(a->loop, &a->again, clock_now_ns() + AGAIN_NS);
		return 0;
	}
	a->named_log = b.last;
	if (b.n == PIECE)
		return 1;
	a->named_log = 0;
	if (!a->all_named) {
		a->all_named = true;
		return 1;
	}
	notary_link_retire(a->o.notary, &a->retire_call);
	return 0;
}

static bool on_naming(struct job *job)
{
	struct audit *a = job->arg;
	struct err e = { 0 };
	int more;

	if (a->former[0] == '\0')
		return false;
	more = audit_rotate_visit(a, &e);
	if (more < 0) {
		store_rollback(a->store);
		log_error("the new key could not be written to the audit logs", "error=%s", e.msg);
		loop_timer_set(a->loop, &a->again, clock_now_ns() + AGAIN_NS);
	}
	return more > 0;
}

static void on_again(struct loop_timer *t)
{
	struct audit *a = t->arg;

	if (a->former[0] != '\0')
		jobs_add(a->o.jobs, a->o.work, &a->naming);
}

/* ---- cordon-notary */

void audit_rotate_on_keys(struct audit *a, const struct notary_msg *m)
{
	bool same = strcmp(a->former, m->former_vkey) == 0;

	if (!same && m->former_vkey[0] == '\0')
		log_info("the former key of the audit log is destroyed", "former=%s vkey=%s",
			 a->former, m->vkey);
	str_copy(a->former, m->former_vkey);
	memcpy(a->next_proof, m->sig, sizeof(a->next_proof));
	if (a->former[0] == '\0')
		return;
	if (!same) {
		log_info("the audit log gets a new key", "former=%s vkey=%s", a->former, a->vkey);
		a->named_log = 0;
		a->all_named = false;
	}
	loop_timer_set(a->loop, &a->again, clock_now_ns());
}

static void on_retired(struct notary_call *c, const struct notary_msg *m, const struct err *failed)
{
	struct audit *a = c->arg;

	if (failed == NULL && m->type == NOTARY_KEY_IS)
		audit_take_keys(a, m);
	else /* another cordon-notary is asked for its keys first */
		loop_timer_set(a->loop, &a->again, clock_now_ns() + AGAIN_NS);
}

static void on_rotated(struct notary_call *c, const struct notary_msg *m, const struct err *failed)
{
	struct audit *a = c->arg;
	struct err e;

	if (failed != NULL) {
		e = *failed;
	} else if (m->type == NOTARY_KEY_IS) {
		audit_take_keys(a, m);
		completions_end_all(&a->rotators, NULL);
		return;
	} else if (m->reason == NOTARY_FULL) {
		(void)err_set(&e, ERR_CONFLICT, "a rotation is under way");
	} else {
		(void)err_set(&e, ERR_SYSTEM, "cordon-notary makes no new key: %s (%.100s)",
			      notary_reason_name(m->reason), m->text);
	}
	completions_end_all(&a->rotators, &e);
}

void audit_rotate_setup(struct audit *a)
{
	a->naming = (struct job){ .on_piece = on_naming, .arg = a };
	a->again = (struct loop_timer){ .on_expire = on_again, .arg = a };
	a->rotate_call = (struct notary_call){ .on_done = on_rotated, .arg = a };
	a->retire_call = (struct notary_call){ .on_done = on_retired, .arg = a };
}

void audit_rotate_release(struct audit *a)
{
	jobs_cancel(a->o.jobs, &a->naming);
	loop_timer_cancel(a->loop, &a->again);
	notary_link_cancel(&a->rotate_call);
	notary_link_cancel(&a->retire_call);
}

/* ---- */

/* On record before anything is done. */
static int audit_rotate_begin(struct audit *a, const struct store_actor *who, struct err *e)
{
	const struct audit_record record = { .tenant = AUDIT_NODE,
					     .type = "audit.rotation",
					     .actor = who };
	struct store_audit_log log;
	uint64_t n = 0;

	if (a->o.notary == NULL || !notary_link_is_up(a->o.notary) || a->vkey[0] == '\0')
		return err_set_reason(e, REASON_UNAVAILABLE, "cordon-notary is not running");
	if (a->former[0] != '\0' || a->rotators.first != NULL)
		return err_set(e, ERR_CONFLICT, "a rotation is under way");
	if (store_audit_log_get(a->store, AUDIT_NODE, 0, &log, e) == 0) {
		store_audit_log_release(&log);
		if (store_audit_note_count(a->store, log.id, STORE_AUDIT_KEPT_KEY, &n, e) < 0)
			return -1;
	}
	if (n >= AUDIT_ROTATIONS_MAX)
		return err_set(e, ERR_LIMIT, "the audit log of the node has had %d keys",
			       AUDIT_ROTATIONS_MAX);
	return audit_append(a, &record, e, "former\t%s\n", a->vkey);
}

void audit_rotate(struct audit *a, const struct store_actor *who, struct completion *w)
{
	struct err e = { 0 };

	if (audit_rotate_begin(a, who, &e) < 0) {
		completion_end_soon(w, a->loop, &e);
		return;
	}
	completion_begin(w, a->loop, &a->rotators);
	notary_link_rotate(a->o.notary, &a->rotate_call);
}
