/* api_audit_change.c - removals from an audit log: POST /v1/audit/erase erases sealed values, POST
 * /v1/audit/prune deletes old records before their retention ends.
 *
 * Both need a key with the scopes audit and admin, are on record before they begin, and run in
 * pieces in the tenant's share of the loop. A client that disconnects ends them, without undoing
 * the finished pieces. */
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_erase.h"
#include "daemon/audit/audit_prune.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/json/json.h"

/* Bytes of the longest answer: two numbers. */
#define ANSWER_SIZE 512

/* A removal in progress, as the state of its request. The job moves through the records of log. */
struct audit_change {
	struct job job;
	struct request *r;
	bool erases; /* else it prunes */
	bool begun, ended;
	bool all; /* epochs: the erasure goes on in the one before */
	struct audit_erasure erasure;
	char tenant[STORE_ID_MAX];
	struct store_audit_log log; /* without its texts */
	uint64_t before_ms, first;  /* of pruning */
};

/* Runs at the end of every request, also after a success. Then ended is set, and nothing is left to
 * do. */
static void change_release(struct request *r, bool answered)
{
	struct audit_change *c = r->state;
	struct err e = { 0 };

	core_job_cancel(r->core, &c->job);
	/* The client is gone, or a piece failed: erased values must not stay in the journal. */
	if (c->erases && c->begun && !c->ended && audit_erase_end(&c->erasure, &e) < 0)
		log_error("erased values may still be in the database's journal until the erasure "
			  "is repeated",
			  "tenant=%s error=%s", c->tenant, e.msg);
}

/* An erasure tells how many records it changed. A pruning tells how many it removed, and the first
 * one that is left. */
static void change_answer(struct audit_change *c)
{
	struct json j;

	json_init_heap(&j, ANSWER_SIZE);
	json_open(&j, NULL, '{');
	if (c->erases) {
		json_uint(&j, "records", c->erasure.records);
	} else {
		json_uint(&j, "records", c->log.first - c->first);
		json_uint(&j, "first", c->log.first);
	}
	json_close(&j, '}');
	reply_json(c->r, 200, &j);
}

/* Continue in the epoch before. 0: there is none. An epoch without a log is skipped. */
static int change_former(struct audit_change *c, struct err *e)
{
	struct store *store = core_store(c->r->core);

	while (c->log.epoch > 1) {
		uint64_t epoch = c->log.epoch - 1;

		if (store_audit_log_get(store, c->tenant, epoch, &c->log, e) == 0) {
			store_audit_log_release(&c->log);
			c->log.note = NULL;
			c->erasure.log = c->log.id;
			c->erasure.next = 0;
			return 1;
		}
		if (e->code != ERR_NOT_FOUND)
			return -1;
		c->log.epoch = epoch;
	}
	return 0;
}

/* 1: there is more work. 0: all is done, and erased values have left the journal. -1: e says why
 * not. */
static int change_piece(struct audit_change *c, struct err *e)
{
	int more;

	if (!c->erases)
		return audit_prune_tile(core_audit(c->r->core), &c->log, c->before_ms, "request",
					request_actor(c->r), e);
	more = audit_erase_piece(&c->erasure, e);
	if (more == 0 && c->all)
		more = change_former(c, e);
	if (more != 0)
		return more;
	if (audit_erase_end(&c->erasure, e) < 0)
		return -1;
	c->ended = true;
	return 0;
}

/* The job's piece. It answers the request at the end or at the first failure, and asks for no
 * further piece then. */
static bool on_piece(struct job *job)
{
	struct audit_change *c = job->arg;
	struct err e = { 0 };
	int more = change_piece(c, &e);

	if (more > 0)
		return true;
	if (more < 0)
		reply_error(c->r, &e);
	else
		change_answer(c);
	return false;
}

/* ---- the body
 *
 * change_begin() reads the body, then finds the log, then puts an erasure on record, then starts
 * the job. Each step that fails answers the request, and nothing has been removed. */

/* Names of sealed values that the erasure is limited to. Any word with other letters than theirs is
 * refused before the erasure is on record. */
static void read_names(struct json_members *m, struct audit_erasure *x)
{
	json_t *list = json_members_array(m, "values", AUDIT_ERASE_NAMES);

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		if (word == NULL || word[0] == '\0' || strlen(word) >= sizeof(x->names[0]) ||
		    strspn(word, "abcdefghijklmnopqrstuvwxyz_") != strlen(word)) {
			(void)json_members_fail(m, "values", "must be names of sealed values");
			return;
		}
		str_copy(x->names[x->nnames++], word);
	}
}

/* Exactly one selection: a record, a session, or a person on whose behalf requests were made. */
static int read_erasure(struct json_members *m, struct audit_change *c, uint64_t *ret_epoch,
			struct err *e)
{
	struct audit_erasure *x = &c->erasure;
	const char *session = NULL, *on_behalf = NULL;
	uint64_t seq = UINT64_MAX;

	json_members_count(m, "seq", 0, STORE_AUDIT_SEQ_MAX, &seq);
	json_members_text(m, "session", STORE_ID_MAX - 1, &session);
	json_members_text(m, "on_behalf", STORE_ACTOR_BEHALF_MAX - 1, &on_behalf);
	json_members_count(m, "epoch", 1, UINT32_MAX, ret_epoch);
	read_names(m, x);
	if (json_members_end(m) < 0)
		return -1;
	if ((seq != UINT64_MAX) + (session != NULL) + (on_behalf != NULL) != 1)
		return err_set(e, ERR_INVALID, "one of seq, session and on_behalf must be given");
	x->by = seq != UINT64_MAX ? ERASE_SEQ : session != NULL ? ERASE_SESSION : ERASE_ON_BEHALF;
	x->seq = seq;
	str_copy(x->session, session == NULL ? "" : session);
	str_copy(x->on_behalf, on_behalf == NULL ? "" : on_behalf);
	return 0;
}

/* Without keep a mistyped body would remove everything, so keep must be there. */
static int read_pruning(struct json_members *m, struct audit_change *c, uint64_t *ret_epoch)
{
	uint64_t keep = UINT64_MAX, now = clock_wall_ms();

	json_members_time(m, "keep", NULL, &keep, NULL);
	json_members_count(m, "epoch", 1, UINT32_MAX, ret_epoch);
	if (!m->failed && keep == UINT64_MAX)
		(void)json_members_fail(m, "keep", "must be given: a time, such as 30d");
	c->before_ms = now > keep ? now - keep : 0;
	return json_members_end(m);
}

/* Whose log, and which one. The operator may name another tenant or the node. A key with limits of
 * its own may change no log. */
static int find_log(struct audit_change *c, const char *tenant, uint64_t epoch, struct err *e)
{
	struct request *r = c->r;
	const char *own = tenant_row(r->tenant)->id;

	if (tenant == NULL)
		tenant = own;
	if (strcmp(tenant, own) != 0 && auth_check_operator(r, e) < 0)
		return -1;
	str_copy(c->tenant, strcmp(tenant, "node") == 0 ? AUDIT_NODE : tenant);
	if (auth_check_unlimited(r, e) < 0)
		return -1;
	if (store_audit_log_get(core_store(r->core), c->tenant, epoch, &c->log, e) < 0)
		return e->code == ERR_NOT_FOUND
			       ? err_set(e, ERR_NOT_FOUND, "there is no such audit log")
			       : -1;
	store_audit_log_release(&c->log);
	c->log.note = NULL;
	c->first = c->log.first;
	return 0;
}

/* Without an epoch an erasure covers all epochs of the log. One record has a number in one epoch
 * only. */
static int change_read(struct audit_change *c, json_t *root, struct err *e)
{
	const char *tenant = NULL;
	struct json_members m;
	uint64_t epoch = 0;
	int done;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "tenant", STORE_ID_MAX - 1, &tenant);
	done = c->erases ? read_erasure(&m, c, &epoch, e) : read_pruning(&m, c, &epoch);
	c->all = epoch == 0 && c->erasure.by != ERASE_SEQ;
	return done < 0 ? -1 : find_log(c, tenant, epoch, e);
}

/* An erasure is on record from here on, even if the client leaves before the first piece. */
static void change_begin(struct exchange *x, const uint8_t *body, size_t len, bool erases)
{
	struct request *r = request_of(x);
	struct audit_change *c = request_state(r, sizeof(*c), change_release);
	struct err e = { 0 };
	json_t *root;
	int done;

	if (c == NULL)
		return;
	*c = (struct audit_change){ .r = r, .erases = erases };
	c->job = (struct job){ .on_piece = on_piece, .arg = c };
	root = json_members_parse(body, len, &e);
	done = root == NULL ? -1 : change_read(c, root, &e);
	json_decref(root);
	if (done == 0 && erases) {
		c->erasure.audit = core_audit(r->core);
		c->erasure.log = c->log.id;
		done = audit_erase_begin(&c->erasure, c->tenant, request_actor(r), &e);
	}
	if (done < 0) {
		reply_error(r, &e);
		return;
	}
	c->begun = true;
	core_job_add(r->core, r->tenant, &c->job);
}

static void on_erase_body(struct exchange *x, const uint8_t *body, size_t len)
{
	change_begin(x, body, len, true);
}

static void on_prune_body(struct exchange *x, const uint8_t *body, size_t len)
{
	change_begin(x, body, len, false);
}

void api_audit_erase(struct request *r)
{
	request_body(r, on_erase_body);
}

void api_audit_prune(struct request *r)
{
	request_body(r, on_prune_body);
}
