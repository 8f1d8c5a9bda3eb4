/* api_audit.c - the audit log: its records in pages or followed, exports with everything for a
 * verifier, checkpoints, tiles (doc/audit.md).
 *
 * A key of scope audit reads the log of its tenant. The operator's reads every log. Each reading is
 * a record of that log, before the first byte of the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_checkpoint.h"
#include "daemon/audit/audit_read.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/web/auth.h"
#include "front/web/json_view.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/sse_out.h"
#include "lib/base/base64.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/http/http1.h"
#include "lib/json/json.h"
#include "lib/tlog/tlog_tile.h"

#define LIMIT 100 /* by default */
#define LIMIT_MOST 1000
#define BATCH 64 /* records that a stream looks at in one piece of work */
#define LINE_SIZE (128U << 10)
#define FRESH_MS 3000
#define NODE_LOG "node" /* the log of the node, as the parameter `tenant` */
#define TILES "/v1/audit/"

/* The parameters of a request. */
struct audit_query {
	char tenant[STORE_ID_MAX]; /* "": the log of the node */
	char session[STORE_ID_MAX], type[64];
	uint64_t epoch, after, limit; /* epoch 0: the last one */
	bool follow, proofs, after_given, cosigned;
};

/* The wanted log. -1: there is none, or it is not the client's. */
static int read_tenant(struct request *r, struct audit_query *q, struct err *e)
{
	char name[STORE_ID_MAX];

	if (request_text(r, "tenant", name, sizeof(name), e) < 0 ||
	    request_number(r, "epoch", 1, UINT32_MAX, &q->epoch, e) < 0)
		return -1;
	if (name[0] == '\0')
		str_copy(name, tenant_row(r->tenant)->id);
	if (strcmp(name, tenant_row(r->tenant)->id) != 0 && auth_check_operator_reads(r, e) < 0)
		return -1;
	str_copy(q->tenant, strcmp(name, NODE_LOG) == 0 ? AUDIT_NODE : name);
	return 0;
}

static int read_query(struct request *r, struct audit_query *q, struct err *e)
{
	*q = (struct audit_query){ .limit = LIMIT, .after = UINT64_MAX };
	if (read_tenant(r, q, e) < 0 ||
	    request_text(r, "session", q->session, sizeof(q->session), e) < 0 ||
	    request_text(r, "type", q->type, sizeof(q->type), e) < 0 ||
	    request_bool(r, "follow", &q->follow, e) < 0 ||
	    request_bool(r, "proofs", &q->proofs, e) < 0 ||
	    request_number(r, "after", 0, STORE_AUDIT_SEQ_MAX, &q->after, e) < 0 ||
	    request_number(r, "limit", 1, LIMIT_MOST, &q->limit, e) < 0)
		return -1;
	q->after_given = (q->follow && sse_out_last_id(r, &q->after)) || q->after != UINT64_MAX;
	if (str_has_control(q->session))
		return err_set(e, ERR_INVALID, "session: must be the id of a session");
	if (q->type[0] != '\0' && audit_type_find(q->type) == NULL)
		return err_set(e, ERR_INVALID, "type: no such type of records (doc/audit.md)");
	if (q->proofs && (q->session[0] != '\0' || q->type[0] != '\0' || q->after_given))
		return err_set(e, ERR_INVALID,
			       "proofs: an export with proofs is of the whole log, without "
			       "session, type and after");
	return 0;
}

static int get_log(struct request *r, const struct audit_query *q, struct store_audit_log *ret,
		   struct err *e)
{
	if (store_audit_log_get(core_store(r->core), q->tenant, q->epoch, ret, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		(void)err_set(e, ERR_NOT_FOUND, "there is no such audit log");
	return -1;
}

/* The reading is on record, in that log. An unknown tenant has no log. */
static int note_read(struct request *r, const struct audit_query *q, const char *how, struct err *e)
{
	struct store_audit_log log;

	if (strcmp(q->tenant, tenant_row(r->tenant)->id) != 0) {
		if (get_log(r, q, &log, e) < 0)
			return -1;
		store_audit_log_release(&log);
	}
	return audit_note_read(core_audit(r->core), request_actor(r), q->tenant,
			       &(struct audit_reading){ .how = how,
							.session = q->session,
							.type = q->type,
							.epoch = q->epoch,
							.continues = q->after_given,
							.after = q->after },
			       e);
}

static bool has_type(const struct audit_query *q, const struct store_audit *row)
{
	return q->type[0] == '\0' ||
	       audit_leaf_is_type(row->leaf, row->leaf_len, q->type, strlen(q->type));
}

static void show_origin(struct json *j, struct request *r, const struct store_audit_log *log)
{
	char origin[TLOG_NAME_MAX];

	audit_origin(core_audit(r->core), log, origin);
	json_text(j, "origin", origin);
}

static void show_record(struct json *j, const struct store_audit *row)
{
	json_open(j, NULL, '{');
	json_uint(j, "seq", store_audit_seq(row));
	json_raw_bytes(j, "record", row->leaf, row->leaf_len);
	if (row->side[0] == '\0')
		json_none(j, "side");
	else
		json_raw(j, "side", row->side);
	json_close(j, '}');
}

/* ---- in pages
 *
 * list_page() begins the answer, on_page_piece() adds records, on_page_finish() the cursor. */

struct audit_page {
	struct list_job job; /* first */
	struct audit_query q;
	uint64_t log, next, shown, last;
	size_t looked; /* bytes of records, in this piece */
	bool more;     /* than the page may have */
	bool end;      /* there are no more */
};

static int on_page_row(const struct store_audit *row, void *cookie)
{
	struct audit_page *p = cookie;

	p->more = p->shown == p->q.limit || list_job_page_is_full(&p->job);
	if (p->more || p->looked >= AUDIT_PIECE || list_job_piece_is_full(&p->job))
		return 1;
	p->looked += row->leaf_len + strlen(row->side);
	p->last = store_audit_seq(row);
	if (!has_type(&p->q, row))
		return 0;
	show_record(&p->job.j, row);
	p->shown++;
	return 0;
}

static int on_page_piece(struct list_job *w, struct err *e)
{
	struct audit_page *p = (struct audit_page *)w;
	const struct store_audit_filter f = {
		.log = p->log,
		.from = p->next,
		.session = p->q.session[0] == '\0' ? NULL : p->q.session,
		.limit = LIST_JOB_PIECE,
	};
	struct store_looked looked;

	p->looked = 0;
	if (store_audit_list(core_store(w->r->core), &f, on_page_row, p, &looked, e) < 0)
		return -1;
	if (looked.rows > 0)
		p->next = looked.seq + 1;
	p->end = looked.end;
	return list_job_count(w, &looked) && !p->more;
}

static void on_page_finish(struct list_job *w)
{
	struct audit_page *p = (struct audit_page *)w;

	json_close(&w->j, ']');
	json_view_next(&w->j, !p->end, p->next == 0 ? 0 : p->next - 1);
	json_close(&w->j, '}');
}

static void list_page(struct request *r, const struct audit_query *q)
{
	struct audit_page *p = list_job_new(r, sizeof(*p), on_page_piece, on_page_finish);
	struct store_audit_log log;
	struct err e = { 0 };
	uint64_t size;

	if (p == NULL)
		return;
	if (get_log(r, q, &log, &e) < 0 ||
	    store_audit_next(core_store(r->core), &log, &size, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	p->q = *q;
	p->log = log.id;
	p->next = q->after_given ? q->after + 1 : 0;
	json_open(&p->job.j, NULL, '{');
	show_origin(&p->job.j, r, &log);
	json_uint(&p->job.j, "epoch", log.epoch);
	json_uint(&p->job.j, "first", log.first);
	json_uint(&p->job.j, "size", size);
	json_open(&p->job.j, "records", '[');
	store_audit_log_release(&log);
	list_job_start(&p->job);
}

/* For the tenant's last log. on_done follows once, with an error after FRESH_MS. */
static void wait_for_checkpoint(struct request *r, const struct audit_query *q,
				completion_fn *on_done)
{
	r->wait.on_done = on_done;
	r->wait.arg = r;
	audit_checkpoint_wait(core_audit(r->core), q->tenant, &r->wait);
	if (completion_is_waiting(&r->wait))
		completion_set_deadline(&r->wait, FRESH_MS, "a checkpoint");
}

/* ---- streams: followed records as server-sent events, exports as lines */

struct audit_stream {
	struct sse_out out; /* first */
	struct job job;
	struct audit_query q;
	struct audit_listener listener;
	struct store_audit_log log; /* without its texts */
	uint64_t next;		    /* the number of the next record */
	uint64_t size;		    /* an export ends there, but a followed list */
	uint64_t limit;		    /* of this piece of an export */
	uint64_t noted;		    /* the size of the last checkpoint sent */
	uint32_t noted_kind;	    /* of a kept one */
	uint64_t bridge; /* the head's key is believed until this kept checkpoint. 0: none */
	size_t looked;	 /* bytes of records, in this piece */
	bool headed, listening;
};

static void stream_release(struct request *r, bool answered)
{
	struct audit_stream *s = r->state;

	sse_out_release(&s->out);
	core_job_cancel(r->core, &s->job);
	if (s->listening)
		audit_unlisten(&s->listener);
}

static void stream_wake(struct request *r)
{
	struct audit_stream *s = r->state;

	if (sse_out_ready(&s->out))
		core_job_add(r->core, r->tenant, &s->job);
}

static void on_records(struct audit_listener *l)
{
	stream_wake(l->arg);
}

/* Send a line of an export. A line that does not fit into memory ends the stream: a verifier must
 * not get a gap. */
static void put_line(struct audit_stream *s, struct json *j)
{
	char *text = json_ok(j) ? realloc(j->text, j->len + 2) : NULL;

	if (text == NULL) {
		json_release(j);
		(void)paced_stream_put(&s->out.paced, NULL, 0);
		return;
	}
	text[j->len] = '\n';
	(void)paced_stream_put(&s->out.paced, text, j->len + 1);
}

/* The next kept checkpoint that an export can have from where it is. Those among deleted records
 * have no place in it, and those of a former name of the node are of another log. */
static int find_kept(struct audit_stream *s, struct store_audit_note *ret, struct err *e)
{
	struct request *r = s->out.paced.r;
	uint64_t size = s->next > s->log.first ? s->next : s->log.first;
	uint32_t kind = size == s->noted ? s->noted_kind : 0;
	char origin[TLOG_NAME_MAX];
	size_t n;

	audit_origin(core_audit(r->core), &s->log, origin);
	n = strlen(origin);
	while (store_audit_note_after(core_store(r->core), s->log.id, size, kind, ret, e) == 0) {
		if (strncmp(ret->note, origin, n) == 0 && ret->note[n] == '\n')
			return 1;
		size = ret->size;
		kind = ret->kind;
		store_audit_note_release(ret);
	}
	return e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* The key that was believed before the oldest checkpoint of the export. */
static int find_first_key(struct audit_stream *s, char ret[STORE_AUDIT_VKEY_MAX], struct err *e)
{
	const char *last = audit_vkey(core_audit(s->out.paced.r->core));
	struct audit_stream from = *s;
	struct store_audit_note kept;
	int found;

	from.next = from.log.first;
	from.noted = UINT64_MAX;
	(void)snprintf(ret, STORE_AUDIT_VKEY_MAX, "%s",
		       s->log.vkey[0] == '\0' ? last : s->log.vkey);
	while ((found = find_kept(&from, &kept, e)) > 0) {
		bool is_key = kept.kind == STORE_AUDIT_KEPT_KEY;

		from.next = from.noted = kept.size;
		from.noted_kind = kept.kind;
		if (is_key) {
			memcpy(ret, kept.vkey, STORE_AUDIT_VKEY_MAX);
			s->bridge = kept.size;
		}
		store_audit_note_release(&kept);
		if (is_key)
			return 0;
	}
	return found;
}

/* The first line tells the verifier which key to believe first. */
static int put_head(struct audit_stream *s, struct err *e)
{
	struct request *r = s->out.paced.r;
	char vkey[STORE_AUDIT_VKEY_MAX];
	struct json j;

	if (find_first_key(s, vkey, e) < 0)
		return -1;
	json_init_heap(&j, LINE_SIZE);
	json_open(&j, NULL, '{');
	json_uint(&j, "cordon_audit", 1);
	show_origin(&j, r, &s->log);
	json_text(&j, "vkey", vkey);
	json_uint(&j, "first", 0);
	json_uint(&j, "size", s->size);
	json_close(&j, '}');
	put_line(s, &j);
	s->headed = true;
	return 0;
}

/* The hashes of a tile of deleted records. -1: the store failed, or it is not there. */
static int put_tile(struct audit_stream *s, struct err *e)
{
	struct store *store = core_store(s->out.paced.r->core);
	uint8_t hashes[STORE_AUDIT_TILE_MAX];
	char text[BASE64_LENGTH(sizeof(hashes)) + 1];
	uint64_t index = s->next / TLOG_TILE;
	struct json j;

	if (s->next % TLOG_TILE != 0 ||
	    store_audit_tile_get(store, s->log.id, 0, index, hashes, e) != (int)sizeof(hashes))
		return err_set(e, ERR_INVALID, "audit: a tile is missing");
	base64_encode(hashes, sizeof(hashes), text);
	json_init_heap(&j, LINE_SIZE);
	json_open(&j, NULL, '{');
	json_uint(&j, "tile", 0);
	json_uint(&j, "index", index);
	json_text(&j, "hashes", text);
	json_close(&j, '}');
	put_line(s, &j);
	s->next += TLOG_TILE;
	return 0;
}

static void put_note(struct audit_stream *s, const char *text, uint32_t kind)
{
	struct json j;

	json_init_heap(&j, LINE_SIZE);
	json_open(&j, NULL, '{');
	json_text(&j, "checkpoint", text);
	json_close(&j, '}');
	put_line(s, &j);
	s->noted = s->next;
	s->noted_kind = kind;
}

static void put_leaf(struct audit_stream *s, const struct store_audit *row)
{
	struct json j;

	json_init_heap(&j, LINE_SIZE);
	json_open(&j, NULL, '{');
	json_uint(&j, "index", store_audit_seq(row));
	json_bytes(&j, "leaf", row->leaf, row->leaf_len);
	if (row->side[0] != '\0')
		json_raw(&j, "side", row->side);
	json_close(&j, '}');
	put_line(s, &j);
}

static void send_event(struct audit_stream *s, const struct store_audit *row)
{
	const char *type = "record";
	char id[24];
	struct json j;

	json_init_heap(&j, LINE_SIZE);
	show_record(&j, row);
	(void)snprintf(id, sizeof(id), "%llu", (unsigned long long)store_audit_seq(row));
	if (json_ok(&j))
		sse_out_event(&s->out, type, id, j.text, j.len);
	json_release(&j);
}

static int on_stream_row(const struct store_audit *row, void *cookie)
{
	struct audit_stream *s = cookie;
	uint64_t seq = store_audit_seq(row);

	/* An export is without gaps: deleted records are a tile. */
	if (s->looked >= AUDIT_PIECE || !sse_out_ready(&s->out) ||
	    (s->q.proofs && (seq != s->next || seq >= s->limit)))
		return 1;
	s->looked += row->leaf_len + strlen(row->side);
	if (s->q.proofs)
		put_leaf(s, row);
	else if (has_type(&s->q, row))
		send_event(s, row);
	s->next = seq + 1;
	return 0;
}

static int stream_records(struct audit_stream *s, bool *ret_end, struct err *e)
{
	const struct store_audit_filter f = {
		.log = s->log.id,
		.from = s->next,
		.session = s->q.session[0] == '\0' ? NULL : s->q.session,
		.limit = BATCH,
	};
	struct store_looked looked;

	s->looked = 0;
	if (store_audit_list(core_store(s->out.paced.r->core), &f, on_stream_row, s, &looked, e) <
	    0)
		return -1;
	*ret_end = looked.end;
	return 0;
}

/* Records of an export. The first one that is due must be there. */
static int put_records(struct audit_stream *s, struct err *e)
{
	uint64_t before = s->next;
	bool unused;

	if (stream_records(s, &unused, e) < 0)
		return -1;
	if (s->next != before || !sse_out_ready(&s->out))
		return 0;
	audit_record_missing(core_audit(s->out.paced.r->core), s->q.tenant, s->log.epoch);
	return err_set(e, ERR_INVALID, "audit: record %llu is missing",
		       (unsigned long long)s->next);
}

/* Records, hashes of deleted ones, or the checkpoint that covers those before. */
static int put_next(struct audit_stream *s, uint64_t end, struct err *e)
{
	struct store_audit_note kept = { 0 };
	int has_kept = find_kept(s, &kept, e), done = 0;
	uint64_t at = s->log.note_size;

	if (has_kept < 0)
		return -1;
	if (has_kept > 0 && (at <= s->next || kept.size < at))
		at = kept.size;
	s->limit = at > s->next && at < end ? at : end;
	if (s->next < s->log.first)
		done = put_tile(s, e);
	else if (has_kept > 0 && kept.size == s->next)
		put_note(s, kept.note, kept.kind);
	else if (s->next < s->limit)
		done = put_records(s, e);
	store_audit_note_release(&kept);
	return done;
}

/* Whether all checkpoints for this moment were sent. */
static int is_noted(struct audit_stream *s, struct err *e)
{
	struct store_audit_note kept = { 0 };
	int has_kept = find_kept(s, &kept, e);
	bool now = has_kept > 0 && kept.size == s->next;

	store_audit_note_release(&kept);
	return has_kept < 0 ? -1 : !now;
}

/* A piece of an export. *ret_end: all that there is now was sent. */
static int export_piece(struct audit_stream *s, bool *ret_end, struct err *e)
{
	struct store *store = core_store(s->out.paced.r->core);
	struct store_audit_log log;
	uint64_t end;
	int noted;

	*ret_end = false;
	if (!s->headed)
		return put_head(s, e);
	if (store_audit_log_get(store, s->q.tenant, s->log.epoch, &log, e) < 0)
		return -1;
	/* The texts of the row are borrowed during this call. */
	s->log = log;
	/* A checkpoint comes right behind the last record that it covers. A follower gets only
	 * records that one covers. */
	end = s->q.follow ? log.note_size : s->size;
	if (s->bridge > 0 && s->bridge >= s->next && s->bridge < log.first)
		goto failed; /* it was deleted meanwhile, and the head's key with it */
	if (put_next(s, end, e) < 0)
		goto failed;
	noted = sse_out_ready(&s->out) ? is_noted(s, e) : 0;
	if (noted < 0)
		goto failed;
	/* A kept one of that size has all that the last one has. */
	if (noted > 0 && s->noted < log.note_size && s->next == log.note_size)
		put_note(s, log.note, UINT32_MAX);
	*ret_end = noted > 0 && s->next >= end;
	if (*ret_end && !s->q.follow && sse_out_ready(&s->out))
		paced_stream_end(&s->out.paced);
	store_audit_log_release(&log);
	s->log.note = NULL;
	return 0;
failed:
	store_audit_log_release(&log);
	return -1;
}

static bool on_stream_piece(struct job *job)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	struct request *r = job->arg;
	struct audit_stream *s = r->state;
	struct err e = { 0 };
	unsigned long long dropped;
	bool end = false;
	int done = s->q.proofs ? export_piece(s, &end, &e) : stream_records(s, &end, &e);

	if (done < 0) {
		if (log_limit(&limit, &dropped))
			log_error("a stream of audit records was cut short",
				  "tenant=%s epoch=%llu error=%s dropped=%llu", s->q.tenant,
				  (unsigned long long)s->log.epoch, e.msg, dropped);
		paced_stream_drop(&s->out.paced);
	} else if (!end && sse_out_ready(&s->out))
		core_job_add(r->core, r->tenant, job);
	return false;
}

static uint64_t on_export_keepalive(struct paced_stream *p, uint64_t now_ns)
{
	return now_ns + 3600ULL * 1000000000; /* lines are not kept alive */
}

static bool begin_stream(struct request *r, struct audit_stream *s)
{
	if (!s->q.proofs)
		return sse_out_begin(&s->out, r, stream_wake);
	s->out.paced.on_room = stream_wake;
	s->out.paced.counts = true;
	s->out.paced.on_keepalive = on_export_keepalive;
	return paced_stream_begin(&s->out.paced, r, "application/x-ndjson", 3600ULL * 1000000000);
}

/* fresh: the last checkpoint covers the whole export. */
static void run_stream(struct request *r, bool fresh)
{
	struct audit_stream *s = r->state;
	const struct audit_query *q = &s->q;
	struct err e = { 0 };

	if (get_log(r, q, &s->log, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	store_audit_log_release(&s->log);
	s->log.note = NULL;
	if (store_audit_next(core_store(r->core), &s->log, &s->size, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (fresh)
		s->size = s->log.note_size;
	/* Without a number to begin at, followers begin now. An export is of all. */
	s->next = q->after_given ? q->after + 1 : q->proofs ? 0 : s->size;
	if (!begin_stream(r, s))
		return;
	str_copy(s->listener.tenant, q->tenant);
	s->listener.on_records = on_records;
	s->listener.arg = r;
	audit_listen(core_audit(r->core), &s->listener);
	s->listening = true;
	stream_wake(r);
}

/* An export that cannot have a new checkpoint has the last one. */
static void on_export_fresh(struct completion *w, const struct err *failed)
{
	run_stream(w->arg, failed == NULL);
}

static void start_stream(struct request *r, const struct audit_query *q)
{
	struct audit_stream *s = request_state(r, sizeof(*s), stream_release);
	struct err e = { 0 };

	if (s == NULL)
		return;
	s->q = *q;
	s->job = (struct job){ .on_piece = on_stream_piece, .arg = r };
	if (request_stream(r, &e) < 0)
		reply_error(r, &e);
	else if (q->proofs && q->epoch == 0)
		wait_for_checkpoint(r, q, on_export_fresh);
	else
		run_stream(r, false);
}

void api_audit_list(struct request *r)
{
	struct audit_query q;
	struct err e = { 0 };

	if (read_query(r, &q, &e) < 0 || note_read(r, &q,
						   q.proofs   ? "export"
						   : q.follow ? "follow"
							      : "list",
						   &e) < 0)
		reply_error(r, &e);
	else if (q.proofs || q.follow)
		start_stream(r, &q);
	else
		list_page(r, &q);
}

/* ---- checkpoints and tiles */

static bool wants_json(const struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;

	return http1_find(q->headers, q->headers_n, "accept", &value) == 1 &&
	       memmem(value.p, value.n, "application/json", 16) != NULL;
}

/* cosigned: without a text if there is none. */
static void show_checkpoint(struct request *r, const struct store_audit_log *log, uint64_t size,
			    const struct store_audit_note *cosigned)
{
	struct audit *a = core_audit(r->core);
	struct json j;

	json_init_heap(&j, LINE_SIZE);
	json_open(&j, NULL, '{');
	show_origin(&j, r, log);
	json_uint(&j, "epoch", log->epoch);
	json_text(&j, "alarm", log->alarm[0] == '\0' ? NULL : log->alarm);
	json_uint(&j, "records", size);
	json_uint(&j, "first", log->first);
	json_uint(&j, "size", log->note_size);
	json_view_time(&j, "signed_at", log->note_ms);
	json_text(&j, "vkey", log->vkey[0] == '\0' ? audit_vkey(a) : log->vkey);
	json_text(&j, "checkpoint", log->note_size == 0 ? NULL : log->note);
	json_text(&j, "cosigned", cosigned->note);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* The last checkpoint, with the lines of witnesses if they have signed that one. */
static void reply_note(struct request *r, const struct audit_query *q,
		       const struct store_audit_log *log, const struct store_audit_note *cosigned)
{
	bool kept = cosigned->note != NULL && (q->cosigned || cosigned->size == log->note_size);
	const char *text = kept ? cosigned->note : q->cosigned ? "" : log->note;

	if (*text == '\0')
		reply_code(r, 404, "not_found",
			   q->cosigned ? "no checkpoint of the log is cosigned"
				       : "the log has no checkpoint yet");
	else
		exchange_reply(r->x, 200, "text/plain; charset=utf-8", text, strlen(text));
}

static void answer_checkpoint(struct request *r, const struct audit_query *q)
{
	struct store_audit_note cosigned = { 0 };
	struct store_audit_log log;
	struct err e = { 0 };
	uint64_t size;

	if (get_log(r, q, &log, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (store_audit_next(core_store(r->core), &log, &size, &e) < 0 ||
	    (store_audit_note_cosigned(core_store(r->core), log.id, &cosigned, &e) < 0 &&
	     e.code != ERR_NOT_FOUND))
		reply_error(r, &e);
	else if (wants_json(r))
		show_checkpoint(r, &log, size, &cosigned);
	else
		reply_note(r, q, &log, &cosigned);
	store_audit_note_release(&cosigned);
	store_audit_log_release(&log);
}

static void on_fresh(struct completion *w, const struct err *failed)
{
	struct request *r = w->arg;
	const struct audit_query *q = r->state;

	if (failed != NULL)
		reply_error(r, failed);
	else
		answer_checkpoint(r, q);
}

void api_audit_checkpoint(struct request *r)
{
	struct audit_query *q = request_state(r, sizeof(*q), NULL);
	struct store_audit_log log;
	struct err e = { 0 };
	bool fresh = false;

	if (q == NULL)
		return;
	if (read_tenant(r, q, &e) < 0 || request_bool(r, "fresh", &fresh, &e) < 0 ||
	    request_bool(r, "cosigned", &q->cosigned, &e) < 0 || get_log(r, q, &log, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	store_audit_log_release(&log);
	if (!fresh) {
		answer_checkpoint(r, q);
		return;
	}
	wait_for_checkpoint(r, q, on_fresh);
}

void api_audit_tile(struct request *r)
{
	struct http1_span path = exchange_request(r->x)->path;
	size_t before = strlen(TILES);
	uint8_t hashes[STORE_AUDIT_TILE_MAX];
	struct audit_query q = { 0 };
	struct store_audit_log log;
	struct tlog_tile tile;
	struct err e = { 0 };
	int len;

	if (tlog_tile_parse(path.p + before, path.n - before, &tile, &e) < 0 ||
	    read_tenant(r, &q, &e) < 0 || get_log(r, &q, &log, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	store_audit_log_release(&log);
	len = tile.is_entries ? 0
			      : store_audit_tile_get(core_store(r->core), log.id, tile.level,
						     tile.index, hashes, &e);
	if (len < 0)
		reply_error(r, &e);
	else if ((size_t)len < tile.width * sizeof(struct tlog_hash))
		reply_code(r, 404, "not_found", "the log has no such tile");
	else
		exchange_reply(r->x, 200, "application/octet-stream", hashes,
			       tile.width * sizeof(struct tlog_hash));
}
