/* audit_records.c - see audit_records.h.
 *
 * A batch has the number and the tree's root for its records. A leaf has a record's bytes as the
 * server answers them. So this program reads pages as text, and takes each record out. */
#include "cmd/client/audit_records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/audit_verify.h"
#include "cmd/client/member.h"
#include "cmd/client/show_json.h"
#include "lib/base/hex.h"
#include "lib/base/own.h"
#include "lib/tlog/tlog.h"

/* ---- the batches and records of a session. A batch is a record of the audit log about many
 * network records: their number, the range of their numbers, and the root of a tree over them.
 * Network records and package records have batches of their own, so each kind is a list with its
 * own position. Records below the first batch, or behind the last one of a running session, are
 * in no batch and prove nothing. */
#define RECORDS_BATCHES 1000000 /* records of the audit log that are read, at most */
#define RECORDS_PAGES 100000
#define RECORDS_FIRST "{\"records\":["

enum { KIND_NETWORK, KIND_PACKAGES, KINDS };

struct records_batch {
	uint64_t records, first, last;
	char root[2 * TLOG_HASH + 1];
	struct tlog_range tree; /* of the records found */
};

struct records_kind {
	struct records_batch *batches; /* owned. In the order of the log */
	size_t n, at;		       /* at: of the next record */
};

struct records_found {
	struct records_kind kinds[KINDS];
	uint64_t after; /* no batch was made of records up to this one */
	bool has_after, ended;
	uint64_t batches, records, matched, before, waiting, lost;
	uint64_t missing;   /* records of batches that the server does not have any more */
	uint64_t first_bad; /* number of a record, or of a batch's first one */
	uint64_t last;	    /* the last record read */
	char why[160];	    /* "": all is good */
	bool changed;
};

/* Keep the first fault only. A change counts more than records that are missing, because records
 * may be missing for a good reason: the server deletes old ones. */
static void records_bad(struct records_found *f, uint64_t seq, bool changed, const char *why)
{
	if (f->changed || (f->why[0] != '\0' && !changed))
		return;
	f->changed = changed;
	f->first_bad = seq;
	(void)snprintf(f->why, sizeof(f->why), "%s", why);
}

/* ---- the batches */

/* A batch comes from the audit log, whose own verification is `cordon audit verify`. Here only
 * its form is checked, and that the ranges do not overlap. The array grows by 64, and the caller
 * frees it. */
static int records_add_batch(struct records_kind *k, const json_t *data, struct err *e)
{
	struct records_batch *b;
	const char *root = member_text(data, "root", "");

	if (k->n % 64 == 0) {
		b = reallocarray(k->batches, k->n + 64, sizeof(*b));
		if (b == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		k->batches = b;
	}
	b = &k->batches[k->n++];
	*b = (struct records_batch){ .records = member_number(data, "records", 0),
				     .first = member_number(data, "first_seq", 0),
				     .last = member_number(data, "last_seq", 0) };
	if (b->records == 0 || b->first == 0 || b->last < b->first ||
	    strlen(root) != 2 * TLOG_HASH || (k->n > 1 && b->first <= k->batches[k->n - 2].last))
		return err_set(e, ERR_INVALID, "the audit log has a batch that cannot be one");
	memcpy(b->root, root, sizeof(b->root));
	return 0;
}

/* The records of one type about the session, all of them. The server selects them, so their
 * proofs are not used here. */
static int records_read_log(struct api_call *a, const struct audit_records *r, const char *type,
			    json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/audit");
	target_query(&t, "tenant", r->tenant);
	target_query(&t, "session", r->session);
	target_query(&t, "type", type);
	target_query_number(&t, "limit", 1000);
	return api_call_pages(a, &t, "records", NULL, RECORDS_BATCHES, ret, e);
}

/* Both kinds of batches. after_seq of the first batch says from which record on the server made
 * batches at all, and lost_before counts records that the gateway dropped before they reached
 * the server. */
static int records_read_batches(struct api_call *a, const struct audit_records *r,
				struct records_found *f, struct err *e)
{
	static const char *const types[KINDS] = { "network.batch", "package.batch" };

	for (unsigned i = 0; i < KINDS; i++) {
		OWN_JSON *all = NULL;
		const json_t *item;
		size_t at;

		if (records_read_log(a, r, types[i], &all, e) < 0)
			return -1;
		json_array_foreach(all, at, item)
		{
			const json_t *data =
				json_object_get(json_object_get(item, "record"), "data");
			uint64_t after = member_number(data, "after_seq", 0);

			if (records_add_batch(&f->kinds[i], data, e) < 0)
				return -1;
			f->after = !f->has_after || after < f->after ? after : f->after;
			f->has_after = true;
			f->lost += member_number(data, "lost_before", 0);
			f->batches++;
		}
	}
	return 0;
}

/* A session that has ended gets no more batches. From then on every record must be in one. */
static int records_read_end(struct api_call *a, const struct audit_records *r,
			    struct records_found *f, struct err *e)
{
	OWN_JSON *all = NULL;

	if (records_read_log(a, r, "session.ended", &all, e) < 0)
		return -1;
	f->ended = json_array_size(all) > 0;
	return 0;
}

/* ---- the records */

/* Put one record into the tree of its batch. text has the very bytes that the server hashed, so
 * the record is not formatted again. A record without a batch is a change if a later batch
 * exists. */
static void records_take(struct records_found *f, const json_t *item, const char *text, size_t len)
{
	uint64_t seq = member_number(item, "seq", 0);
	bool package = strcmp(member_text(item, "kind", ""), "package") == 0;
	struct records_kind *k = &f->kinds[package ? KIND_PACKAGES : KIND_NETWORK];
	struct tlog_hash hash;

	if (seq <= f->last)
		records_bad(f, seq, true, "the records are not in order");
	f->last = seq;
	f->records++;
	while (k->at < k->n && k->batches[k->at].last < seq)
		k->at++;
	if (f->has_after && seq <= f->after) {
		f->before++;
	} else if (k->at < k->n && seq >= k->batches[k->at].first) {
		tlog_leaf(text, len, &hash);
		if (!tlog_range_add(&k->batches[k->at].tree, 0, &hash))
			records_bad(f, seq, true, "a batch has too many records");
	} else if (k->at < k->n) {
		records_bad(f, seq, true, "a record that is in no batch");
	} else {
		f->waiting++;
		if (f->ended)
			records_bad(f, seq, f->has_after, "a record behind the last batch");
	}
}

/* 1: there may be more, behind *after. 0: this was the last page. */
static int records_take_page(struct records_found *f, const char *page, size_t len, uint64_t *after,
			     struct err *e)
{
	static const char next[] = "],\"next\":";
	size_t at = strlen(RECORDS_FIRST);
	uint64_t before = *after;

	if (len < at || memcmp(page, RECORDS_FIRST, at) != 0)
		return err_set(e, ERR_INVALID, "the server's answer is not a list of records");
	while (at < len && page[at] == '{') {
		json_error_t where;
		OWN_JSON *item = json_loadb(page + at, len - at, JSON_DISABLE_EOF_CHECK, &where);

		if (item == NULL || where.position <= 0 || (size_t)where.position > len - at)
			return err_set(e, ERR_INVALID, "a record of the server cannot be read");
		records_take(f, item, page + at, (size_t)where.position);
		at += (size_t)where.position;
		at += at < len && page[at] == ',' ? 1 : 0;
	}
	/* The body ends with a NUL. */
	if (strncmp(page + at, next, strlen(next)) != 0)
		return err_set(e, ERR_INVALID, "the server's answer is not a page of a list");
	*after = strtoull(page + at + strlen(next), NULL, 10); /* "null": 0 */
	return *after > before;
}

/* Page by page, at most RECORDS_PAGES. A page is freed before the next one is read. */
static int records_read(struct api_call *a, const struct audit_records *r, struct records_found *f,
			struct err *e)
{
	uint64_t after = 0;
	int more = 1;

	for (unsigned pages = 0; more > 0 && pages < RECORDS_PAGES; pages++) {
		struct client_request q = { .method = "GET" };
		OWN_MEM char *body = NULL;
		struct target t;
		size_t len;

		target_init(&t, "/v1/sessions");
		target_part(&t, r->session);
		target_part(&t, "network");
		target_part(&t, "log");
		target_query_number(&t, "after", after);
		target_query_number(&t, "limit", 1000);
		if (api_call_send(a, &q, &t, e) < 0 ||
		    client_read_all(a->client, API_CALL_ANSWER_MAX, &body, &len, e) < 0)
			return -1;
		more = records_take_page(f, body, len, &after, e);
	}
	return more;
}

/* ---- the verdict */

/* Compare each tree with the root in the audit log. Fewer records than the batch has are
 * missing. As many with another root are changed. */
static void records_compare(struct records_found *f)
{
	for (unsigned i = 0; i < KINDS; i++) {
		for (size_t k = 0; k < f->kinds[i].n; k++) {
			const struct records_batch *b = &f->kinds[i].batches[k];
			struct tlog_hash root;
			char hex[2 * TLOG_HASH + 1];

			tlog_range_root(&b->tree, &root);
			hex_encode(root.bytes, sizeof(root.bytes), hex);
			if (b->tree.size < b->records) {
				f->missing += b->records - b->tree.size;
				records_bad(f, b->first, false,
					    "records of a batch are not there any more");
			} else if (b->tree.size > b->records || strcmp(hex, b->root) != 0) {
				records_bad(f, b->first, true,
					    "records of a batch are not those of the audit log");
			} else {
				f->matched += b->records;
			}
		}
	}
	if (f->before > 0)
		records_bad(f, 0, false, "records from before the first batch");
}

/* The verdicts and the exit codes are those of `cordon audit verify`, so that a script can treat
 * both alike. */
static enum audit_verdict records_verdict(const struct records_found *f)
{
	if (f->changed)
		return AUDIT_CHANGED;
	return f->why[0] == '\0' ? AUDIT_GOOD : AUDIT_INCOMPLETE;
}

/* The first three counts are always printed, the others only if they are not 0. In JSON all are
 * there. */
static void records_print(const struct records_found *f, bool as_json)
{
	static const char *const words[] = { "good", "changed", "incomplete" };
	const struct {
		const char *name, *text;
		uint64_t n;
	} rows[] = {
		{ "batches", "batches", f->batches },
		{ "records", "records read", f->records },
		{ "matched", "records verified", f->matched },
		{ "missing", "records missing", f->missing },
		{ "before", "before the batches", f->before },
		{ "waiting", "not in a batch yet", f->waiting },
		{ "lost", "lost by the gateway", f->lost },
	};
	enum audit_verdict v = records_verdict(f);
	OWN_JSON *j = json_pack("{s:s, s:i}", "verdict", words[v], "exit", (int)v);

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (as_json)
			(void)json_object_set_new(j, rows[i].name,
						  json_integer((json_int_t)rows[i].n));
		else if (i < 3 || rows[i].n > 0)
			(void)printf("%-22s %" PRIu64 "\n", rows[i].text, rows[i].n);
	}
	if (as_json) {
		if (v != AUDIT_GOOD)
			(void)json_object_set_new(j, "error", json_string(f->why));
		if (f->first_bad > 0)
			(void)json_object_set_new(j, "first_bad",
						  json_integer((json_int_t)f->first_bad));
		show_json(j, true, stdout);
		return;
	}
	if (f->first_bad > 0)
		(void)printf("%-22s %" PRIu64 "\n", "first bad record", f->first_bad);
	(void)printf("%-22s %s%s%s\n", "verdict", words[v], v == AUDIT_GOOD ? "" : ": ", f->why);
}

int audit_records_run(const struct verb *v, const struct args_common *o,
		      const struct audit_records *r)
{
	struct records_found f = { 0 };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = ARGS_OK;

	/* The end first: what the records have then is behind it. */
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0 ||
	    records_read_end(&a, r, &f, &e) < 0 || records_read_batches(&a, r, &f, &e) < 0 ||
	    records_read(&a, r, &f, &e) < 0)
		code = args_refused(v, &e);
	if (code == ARGS_OK) {
		records_compare(&f);
		records_print(&f, o->json);
		code = (int)records_verdict(&f);
	}
	for (unsigned i = 0; i < KINDS; i++)
		free(f.kinds[i].batches);
	return code;
}
