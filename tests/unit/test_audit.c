/* The audit log's records: numbered without gaps across rollbacks and restarts, the bytes of their
 * leaves, sealed values, and the store that keeps them. */
#include <jansson.h>

#include "daemon/audit/audit.h"
#include "daemon/audit/audit_erase.h"
#include "daemon/audit/audit_flood.h"
#include "daemon/audit/audit_tree.h"
#include "daemon/audit/fact_lines.h"
#include "lib/base/hex.h"
#include "lib/config/config.h"
#include "lib/base/rand.h"
#include "lib/loop/jobs.h"
#include "lib/loop/loop.h"
#include "store_support.h"

static struct loop *the_loop(void)
{
	static struct loop *l;
	struct err e;

	if (l == NULL)
		CHECK((l = loop_new(&e)) != NULL);
	return l;
}

static struct audit *new_audit(struct store *s)
{
	struct err e = { 0 };
	static struct config config;
	static struct job_queue work;
	static struct jobs jobs;
	const struct audit_options o = {
		.loop = the_loop(), .store = s, .jobs = &jobs, .work = &work, .config = &config
	};
	struct audit *a;

	jobs_init(&jobs, o.loop);
	a = audit_new(&o, &e);

	CHECK(a != NULL);
	return a;
}

#define RECORD(...) (&(struct audit_record){ .type = "session.state", __VA_ARGS__ })

struct read {
	struct ids ids; /* the numbers */
	char leaf[STORE_AUDIT_LEAF_MAX], side[32768];
};

static int add(const struct store_audit *row, void *cookie)
{
	struct read *r = cookie;
	char seq[24];

	(void)snprintf(seq, sizeof(seq), "%llu", (unsigned long long)store_audit_seq(row));
	CHECK(row->leaf_len < sizeof(r->leaf) && strlen(row->side) < sizeof(r->side));
	memcpy(r->leaf, row->leaf, row->leaf_len);
	r->leaf[row->leaf_len] = '\0';
	memcpy(r->side, row->side, strlen(row->side) + 1);
	return add_id(&r->ids, seq);
}

static struct read *list(struct store *s, uint64_t log, struct store_audit_filter f)
{
	static struct read r;
	struct err e;

	r = (struct read){ 0 };
	f.log = log;
	MUST(store_audit_list(s, &f, add, &r, NULL, &e));
	return &r;
}

static uint64_t log_of(struct store *s, const char *tenant)
{
	struct store_audit_log row;
	struct err e;

	MUST(store_audit_log_get(s, tenant, 0, &row, &e));
	store_audit_log_release(&row);
	return row.id;
}

static void numbers(void)
{
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	uint64_t log, other;
	struct err e;

	MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = "ses_1"), &e, "to\trunning\n"));
	MUST(audit_append(a, RECORD(.tenant = "ten_b", .session = "ses_2"), &e, "%s", ""));
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = "ses_3"), &e, "%s", ""));
	log = log_of(s, "ten_a");
	other = log_of(s, "ten_b");
	CHECK(log != other);
	CHECK_STR(list(s, log, (struct store_audit_filter){ 0 })->ids.text, "0 1");
	CHECK_STR(list(s, other, (struct store_audit_filter){ 0 })->ids.text, "0");

	/* what was rolled back is not there, and its number is given to the next */
	MUST(store_begin(s, &e));
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = "ses_1"), &e, "%s", ""));
	MUST(audit_append(a, RECORD(.tenant = AUDIT_NODE), &e, "%s", ""));
	store_rollback(s);
	MUST(audit_append(a, RECORD(.tenant = AUDIT_NODE), &e, "%s", ""));
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = "ses_1"), &e, "%s", ""));
	CHECK_STR(list(s, log, (struct store_audit_filter){ 0 })->ids.text, "0 1 2");
	CHECK_STR(list(s, log_of(s, ""), (struct store_audit_filter){ 0 })->ids.text, "0");

	/* and so it is for another daemon */
	audit_free(a);
	store_close(s);
	s = open_store();
	a = new_audit(s);
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = "ses_1"), &e, "%s", ""));
	CHECK_STR(list(s, log, (struct store_audit_filter){ 0 })->ids.text, "0 1 2 3");
	CHECK_STR(list(s, log, (struct store_audit_filter){ .from = 1, .limit = 2 })->ids.text,
		  "1 2");
	CHECK_STR(list(s, log, (struct store_audit_filter){ .session = "ses_1" })->ids.text,
		  "0 2 3");
	CHECK_STR(list(s, log, (struct store_audit_filter){ .session = "ses_1", .from = 1 })
			  ->ids.text,
		  "2 3");
	CHECK_STR(list(s, log, (struct store_audit_filter){ .descending = true, .from = 2 })
			  ->ids.text,
		  "2 1 0");

	/* a record that is deleted is not numbered again, and no number is given twice */
	MUST(store_audit_prune(s, log, 4, &e));
	audit_free(a);
	a = new_audit(s);
	MUST(audit_append(a, RECORD(.tenant = "ten_a"), &e, "%s", ""));
	CHECK_STR(list(s, log, (struct store_audit_filter){ 0 })->ids.text, "4");
	FAILS(store_audit_append(s, log, 4, &(struct store_audit){ .leaf = "", .side = "" }, &e),
	      ERR_CONFLICT);
	audit_free(a);
	end_store(s);
}

static void leaves(void)
{
	static const struct store_actor who = { .interface = "api",
						.key_id = "key_1",
						.request_id = "req_1",
						.address = "192.0.2.1",
						.on_behalf = "ann@example.com" };
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct read *r;
	struct err e;

	MUST(audit_append(a,
			  &(struct audit_record){ .tenant = "ten_a",
						  .session = "ises1",
						  .execution = "exe_1",
						  .type = "execution.ended",
						  .actor = &who,
						  .time_ms = 1793000000123 },
			  &e, "exit_code\t7\nlimit\t\"\n"));
	r = list(s, log_of(s, "ten_a"), (struct store_audit_filter){ 0 });
	CHECK(strncmp(r->leaf,
		      "{\"v\":1,\"seq\":0,\"time\":\"2026-10-26T07:33:20.123Z\",\"type\":"
		      "\"execution.ended\","
		      "\"code\":\"EXE02\",\"tenant\":\"ten_a\",\"session\":\"ises1\","
		      "\"execution\":\"exe_1\",\"actor\":{\"key\":\"key_1\",\"interface\":\"api\","
		      "\"request\":\"req_1\",\"address\":\"192.0.2.1\"},\"data\":{\"exit_code\":7,"
		      "\"limit\":\"\\\"\"},\"sealed\":{\"on_behalf\":\"c:",
		      strcspn(r->leaf, "c") + 5) == 0);
	CHECK(strstr(r->leaf, "ann@") == NULL && strstr(r->side, "ann@example.com") != NULL);
	CHECK(audit_leaf_is_type(r->leaf, strlen(r->leaf), "execution.ended", 15));
	CHECK(!audit_leaf_is_type(r->leaf, strlen(r->leaf), "execution", 9));
	CHECK(!audit_leaf_is_type(r->leaf, strlen(r->leaf), "execution.ended2", 16));
	audit_free(a);
	end_store(s);
}

/* The commitment in the leaf is that of the salt and the value in the side. */
static void check_commitment(const struct read *r, const char *name)
{
	json_t *leaf = json_loads(r->leaf, 0, NULL), *side = json_loads(r->side, 0, NULL);
	json_t *one = json_object_get(side, name);
	const char *salt = json_string_value(json_object_get(one, "salt"));
	json_t *value = json_object_get(one, "value");
	char want[2 + 65] = "c:";
	uint8_t bytes[AUDIT_SALT];
	struct err e;

	CHECK(leaf != NULL && side != NULL && salt != NULL && value != NULL);
	MUST(hex_decode(salt, strlen(salt), bytes, sizeof(bytes), &e));
	audit_leaf_commit(bytes, name, json_string_value(value), json_string_length(value),
			  want + 2);
	CHECK_STR(json_string_value(json_object_get(json_object_get(leaf, "sealed"), name)), want);
	json_decref(leaf);
	json_decref(side);
}

static void sealed(void)
{
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	char path[3 * AUDIT_VALUE_MAX];
	struct read *r;
	uint64_t log;
	struct err e;

	/* bytes that are no text, and a value that is too long */
	memset(path, 1, sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	MUST(audit_append(a,
			  RECORD(.tenant = "ten_a",
				 .sealed = { { "path", path }, { "to", "/a\xff\xc3\xa9/\"b" } }),
			  &e, "%s", ""));
	log = log_of(s, "ten_a");
	r = list(s, log, (struct store_audit_filter){ 0 });
	check_commitment(r, "path");
	check_commitment(r, "to");
	/* a salt for each */
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .sealed = { { "path", "/a" } }), &e, "%s",
			  ""));
	(void)snprintf(path, sizeof(path), "%s",
		       list(s, log, (struct store_audit_filter){ .from = 1 })->leaf);
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .sealed = { { "path", "/a" } }), &e, "%s",
			  ""));
	r = list(s, log, (struct store_audit_filter){ .from = 2 });
	check_commitment(r, "path");
	CHECK(strcmp(strstr(path, "\"sealed\""), strstr(r->leaf, "\"sealed\"")) != 0);

	/* the side goes, the leaf stays */
	(void)snprintf(path, sizeof(path), "%s", r->leaf);
	MUST(store_audit_set_side(s, log * STORE_AUDIT_SEQ_MAX + 2, "", &e));
	r = list(s, log, (struct store_audit_filter){ .from = 2 });
	CHECK_STR(r->leaf, path);
	CHECK_STR(r->side, "");
	audit_free(a);
	end_store(s);
}

/* Facts that do not fit are in the record by their hash. */
static void long_facts(void)
{
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	char facts[4000];
	struct read *r;
	struct err e;

	memset(facts, 2, sizeof(facts) - 1);
	memcpy(facts, "a\t", 2);
	facts[sizeof(facts) - 1] = '\0';
	MUST(audit_append(a, RECORD(.tenant = "ten_a", .sealed = { { "path", "/a" } }), &e, "%s",
			  facts));
	r = list(s, log_of(s, "ten_a"), (struct store_audit_filter){ 0 });
	CHECK(strstr(r->leaf, "\"data\":{\"too_long_sha256\":\"") != NULL);
	check_commitment(r, "path");
	audit_free(a);
	end_store(s);
}

static void tiles(void)
{
	uint8_t put[STORE_AUDIT_TILE_MAX], got[STORE_AUDIT_TILE_MAX];
	struct store *s = new_store();
	struct err e;

	rand_bytes(put, sizeof(put));
	CHECK(store_audit_tile_get(s, 1, 0, 7, got, &e) == 0);
	MUST(store_audit_tile_put(s, 1, 0, 7, put, 64, &e));
	CHECK(store_audit_tile_get(s, 1, 0, 7, got, &e) == 64 && memcmp(put, got, 64) == 0);
	MUST(store_audit_tile_put(s, 1, 0, 7, put, sizeof(put), &e));
	CHECK(store_audit_tile_get(s, 1, 0, 7, got, &e) == (int)sizeof(put) &&
	      memcmp(put, got, sizeof(put)) == 0);
	CHECK(store_audit_tile_get(s, 1, 1, 7, got, &e) == 0);
	end_store(s);
}

/* ---- the tree */

static int add_leaf(const struct store_audit *row, void *cookie)
{
	struct tlog_range *r = cookie;
	struct tlog_hash h;

	tlog_leaf(row->leaf, row->leaf_len, &h);
	CHECK(tlog_range_add(r, 0, &h));
	return 0;
}

/* What tlog makes of the records one after the other. */
static void plain_root(struct store *s, uint64_t log, uint64_t size, struct tlog_hash *ret)
{
	struct tlog_range range = { 0 };
	struct err e;

	MUST(store_audit_list(s,
			      &(struct store_audit_filter){ .log = log, .limit = (unsigned)size },
			      add_leaf, &range, NULL, &e));
	CHECK(range.size == size);
	tlog_range_root(&range, ret);
}

static void grow(struct store *s, struct store_audit_log *log, uint64_t size)
{
	int more = 1;
	struct err e;

	for (int i = 0; i < 1000 && more > 0; i++)
		MUST(more = audit_tree_step(s, log, size, &e));
	CHECK(more == 0 && log->hashed == size);
}

static void trees(void)
{
	static const uint64_t sizes[] = { 1, 2, 200, 255, 256, 257, 511, 700, 1024, 1025, 1281 };
	struct tlog_hash roots[COUNT(sizes)], plain;
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct store_audit_log log;
	struct tlog_proof proof;
	struct err e;

	MUST(store_begin(s, &e));
	for (int i = 0; i < 1300; i++)
		MUST(audit_append(a, RECORD(.tenant = "ten_a"), &e, "n\t%d\n", i));
	MUST(store_commit(s, &e));
	MUST(store_audit_log_get(s, "ten_a", 0, &log, &e));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		grow(s, &log, sizes[i]);
		MUST(audit_tree_root(s, log.id, sizes[i], &roots[i], &e));
		plain_root(s, log.id, sizes[i], &plain);
		CHECK(tlog_hash_equal(&roots[i], &plain));
		for (size_t k = 0; k <= i; k++) {
			MUST(audit_tree_prove(s, log.id, sizes[k], sizes[i], &proof, &e));
			CHECK(tlog_consistency_holds(sizes[k], sizes[i], &roots[k], &roots[i],
						     &proof));
		}
	}
	/* it goes on where another daemon ended, and stops at a record that is missing */
	store_audit_log_release(&log);
	MUST(store_audit_log_get(s, "ten_a", 0, &log, &e));
	CHECK(log.hashed == 1281 && log.bytes > 1281 * 100);
	CHECK(audit_tree_step(s, &log, 1301, &e) < 0 && e.code == ERR_INVALID);
	CHECK(log.hashed == 1281);
	grow(s, &log, 1300);
	/* without the records the tiles are enough */
	MUST(store_audit_prune(s, log.id, 1024, &e));
	MUST(audit_tree_prove(s, log.id, 257, 1300, &proof, &e));
	MUST(audit_tree_root(s, log.id, 1300, &plain, &e));
	CHECK(tlog_consistency_holds(257, 1300, &roots[5], &plain, &proof));
	store_audit_log_release(&log);
	audit_free(a);
	end_store(s);
}

struct seqs {
	uint64_t at[64];
	unsigned n;
};

static int add_seq(const struct store_audit *row, void *cookie)
{
	struct seqs *seqs = cookie;

	CHECK(seqs->n < COUNT(seqs->at));
	seqs->at[seqs->n++] = store_audit_seq(row);
	return 0;
}

/* The records of a session, by lists of so many looked-at rows, are those that have its id. */
static void check_session(struct store *s, uint64_t log, const char *session, uint64_t first,
			  uint64_t size, unsigned every, unsigned rest)
{
	for (uint64_t from = 0; from <= size; from += 97) {
		struct store_audit_filter f = {
			.log = log, .from = from, .session = session, .limit = 61
		};
		uint64_t want = from > first ? from : first;
		struct store_looked looked = { 0 };
		struct err e;

		for (unsigned calls = 0; !looked.end; calls++) {
			struct seqs seqs = { 0 };

			CHECK(calls <= size);
			MUST(store_audit_list(s, &f, add_seq, &seqs, &looked, &e));
			CHECK(looked.rows <= f.limit);
			for (unsigned i = 0; i < seqs.n; i++, want++) {
				while (want % every != rest)
					want++;
				CHECK(seqs.at[i] == want);
			}
			f.from = looked.seq + 1;
		}
		while (want < size && want % every != rest)
			want++;
		CHECK(want >= size);
	}
}

static uint64_t count_ranges(uint64_t log)
{
	char path[128];
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	uint64_t n;

	(void)snprintf(path, sizeof(path), "%s/" STORE_FILE, test_dir);
	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_prepare_v2(db, "SELECT count(*) FROM audit_range WHERE first >> 40 = ?", -1,
				 &st, NULL) == SQLITE_OK);
	CHECK(sqlite3_bind_int64(st, 1, (sqlite3_int64)log) == SQLITE_OK);
	CHECK(sqlite3_step(st) == SQLITE_ROW);
	n = (uint64_t)sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	(void)sqlite3_close(db);
	return n;
}

static void sessions(void)
{
	static const uint64_t sizes[] = { 0, 1, 100, 256, 300, 700, 701 };
	static const char *const names[] = { "ses_0", "ses_1", "" };
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct store_audit_log log;
	struct err e;

	MUST(store_begin(s, &e));
	for (unsigned i = 0; i < 701; i++) {
		MUST(audit_append(a, RECORD(.tenant = "ten_a", .session = names[i % 3]), &e, "%s",
				  ""));
		MUST(audit_append(a, RECORD(.tenant = "ten_b", .session = "ses_1"), &e, "%s", ""));
	}
	MUST(store_commit(s, &e));
	MUST(store_audit_log_get(s, "ten_a", 0, &log, &e));
	for (size_t i = 0; i < COUNT(sizes); i++) {
		grow(s, &log, sizes[i]);
		check_session(s, log.id, "ses_0", 0, 701, 3, 0);
		check_session(s, log.id, "ses_1", 0, 701, 3, 1);
		check_session(s, log.id, "ses_2", 701, 701, 3, 2);
	}
	/* ranges go with the last of their records */
	CHECK(count_ranges(log.id) > 8);
	MUST(store_audit_prune(s, log.id, 200, &e));
	check_session(s, log.id, "ses_0", 200, 701, 3, 0);
	MUST(store_audit_prune(s, log.id, 600, &e));
	check_session(s, log.id, "ses_1", 600, 701, 3, 1);
	MUST(store_audit_prune(s, log.id, 701, &e));
	check_session(s, log.id, "ses_1", 701, 701, 3, 1);
	CHECK(count_ranges(log.id) == 0);
	store_audit_log_release(&log);
	audit_free(a);
	end_store(s);
}

static void check_lines(const char *want, size_t cap, const char *fmt, ...)
{
	char got[64];
	va_list args;

	va_start(args, fmt);
	CHECK(fact_lines_vprint(got, cap, fmt, args) == strlen(want));
	va_end(args);
	CHECK_STR(got, want);
}

/* No value makes a fact. */
static void plain_facts(void)
{
	static const char forged[] = "root\nkind\tservice\r";
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct read *r;
	struct err e;

	check_lines("user\troot?kind?service?\nn\t7\n", 64, "user\t%s\nn\t%d\n", forged, 7);
	check_lines("a\t1\nb\t2\nc\t3\nd\t4\nx\tee\n", 64, "a\t%u\nb\t%llu\n%sd\t%zu\nx\t%.2s\n",
		    1U, 2ULL, "c\t3\n", (size_t)4, "eee");
	check_lines("b\tx\n", 64, "?a\t%s\n?b\t%s\n?c\t%s\n", "", "x", "");
	check_lines("a\t12345\n", 9, "a\t%s\nb\t%s\n", "123456789", "x");
	check_lines("a\t1\n", 8, "a\t%s\nlong\t%s\n", "1", "x");
	check_lines("", 4, "long\t%s\n", "x");

	/* of two facts of a name the first one counts */
	MUST(audit_append(a, RECORD(.tenant = "ten_a"), &e, "user\t%s\nto\tx\n%s", forged,
			  "user\tann\nuse\tbob\n"));
	r = list(s, log_of(s, "ten_a"), (struct store_audit_filter){ 0 });
	CHECK(strstr(r->leaf, "\"data\":{\"user\":\"root?kind?service?\",\"to\":\"x\","
			      "\"use\":\"bob\"}") != NULL);
	audit_free(a);
	end_store(s);
}

/* A piece of work is bounded by the bytes of its records. */
static void large_sides(void)
{
	char value[AUDIT_VALUE_MAX] = "";
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct audit_erasure x = { .audit = a, .by = ERASE_ON_BEHALF, .on_behalf = "ann" };
	const struct store_actor ann = { .key_id = "key_a", .on_behalf = "ann" };
	unsigned pieces = 1;
	struct err e;
	int more;

	memset(value, 1, sizeof(value) - 1); /* six bytes each, as JSON */
	MUST(store_begin(s, &e));
	for (int i = 0; i < 60; i++)
		MUST(audit_append(a,
				  RECORD(.tenant = "ten_a", .actor = i % 2 ? &ann : NULL,
					 .sealed = { { "path", value } }),
				  &e, "%s", ""));
	MUST(store_commit(s, &e));
	x.log = log_of(s, "ten_a");
	while ((more = audit_erase_piece(&x, &e)) > 0)
		pieces++;
	CHECK(more == 0 && x.records == 30 && pieces >= 15 && pieces <= 60);
	CHECK_STR(list(s, x.log, (struct store_audit_filter){ .from = 59 })->side, "");
	audit_free(a);
	end_store(s);
}

/* A client's operations are records up to a rate, and counted beyond it. */
static void floods(void)
{
	const struct store_actor who = { .key_id = "key_a" };
	char path[600] = "", type[64];
	struct store *s = new_store();
	struct audit *a = new_audit(s);
	struct store_audit_log log;
	uint64_t next, had;
	struct read *r;
	struct err e;

	memset(path, 'p', sizeof(path) - 1);
	MUST(store_begin(s, &e));
	for (int i = 0; i < 8000; i++) /* a tenant's failed reads, then what works */
		MUST(audit_flood_append(a,
					&(struct audit_record){ .tenant = "ten_a",
								.type = "file.read",
								.actor = &who,
								.sealed = { { "path", path } } },
					"result\tfailed\n", true, 2, &e));
	MUST(audit_flood_append(a, &(struct audit_record){ .tenant = "ten_a", .type = "file.made" },
				"result\tdone\n", false, 0, &e));
	MUST(audit_flood_append(a, &(struct audit_record){ .tenant = "ten_b", .type = "file.made" },
				"result\tdone\n", false, 0, &e));
	MUST(store_commit(s, &e));
	MUST(store_audit_log_get(s, "ten_a", 0, &log, &e));
	MUST(store_audit_next(s, &log, &had, &e));
	CHECK(had > 3000 && had < 4500);
	r = list(s, log.id, (struct store_audit_filter){ .from = had - 1 });
	CHECK(strstr(r->leaf, "\"file.made\"") != NULL);
	r = list(s, log.id, (struct store_audit_filter){ .from = had - 2, .limit = 1 });
	CHECK(strstr(r->leaf, "\"file.counted\"") != NULL &&
	      strstr(r->leaf, "\"operations\":0,\"failed\":0,\"bytes\":0}") != NULL);
	CHECK(list(s, log_of(s, "ten_b"), (struct store_audit_filter){ 0 })->ids.n == 1);

	audit_flood_flush(a);
	audit_flood_flush(a);
	MUST(store_audit_next(s, &log, &next, &e));
	CHECK(next == had + 1);
	r = list(s, log.id, (struct store_audit_filter){ .from = had });
	had = 8000 - (had - 2); /* those without a record */
	(void)snprintf(type, sizeof(type), "\"operations\":%llu,\"failed\":%llu,",
		       (unsigned long long)had, (unsigned long long)had);
	CHECK(strstr(r->leaf, type) != NULL && strstr(r->leaf, "\"keys\":\"key_a\"") != NULL);
	store_audit_log_release(&log);
	audit_free(a);
	end_store(s);
}

/* Codes are given once, the table is in order, and every name is found. */
static void types(void)
{
	size_t n;
	const struct audit_type *all = audit_types_all(&n);

	for (size_t i = 0; i < n; i++) {
		CHECK(audit_type_find(all[i].name) == &all[i]);
		CHECK(strlen(all[i].code) == 5 && all[i].version > 0 && all[i].text[0] != '\0');
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(all[i].code, all[k].code) != 0 &&
			      strcmp(all[k].name, all[i].name) < 0);
	}
	CHECK(audit_type_find("") == NULL && audit_type_find("session.creates") == NULL);
}

TEST_MAIN({ "records are numbered without gaps", numbers }, { "the bytes of a leaf", leaves },
	  { "sealed values match their commitments", sealed },
	  { "facts that do not fit", long_facts }, { "no value makes a fact", plain_facts },
	  { "floods", floods }, { "large sides", large_sides }, { "tiles", tiles },
	  { "trees and proofs", trees }, { "records of a session", sessions }, { "types", types })
