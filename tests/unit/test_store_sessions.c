/* Rows of sessions, their retention and the bytes of their records: what is written is read back,
 * field by field. */
#include "daemon/store/store.h"

#include "daemon/store/store_execution.h"
#include "daemon/store/store_records.h"
#include "daemon/store/store_usage.h"
#include "store_support.h"

static const struct store_session full_session = {
	.id = "ses_1",
	.tenant = "ten_a",
	.template = "debian",
	.profile = 1,
	.level = 2,
	.created_ms = 3,
	.limits = { 4, 5, 6, 7, 8, 9 },
	.output_limit = 10,
	.env = "A=b\0C=\n",
	.env_len = 8,
	.mounts = "m\xc3\xbc",
	.state = 11,
	.reason = 12,
	.started_ms = 13,
	.ended_ms = 14,
	.deadline_ms = 15,
	.paused_since_ms = 16,
	.paused_total_ms = 17,
	.boot_id = "boot",
	.cold = 2,
	.pid = -18,
	.detail = "it's \"over\"",
	.timeout_ms = 19,
	.idle_ms = 20,
	.on_timeout = 21,
	.on_idle = 22,
	.metadata = "{}",
	.rules = "r",
	.network = "n",
	.client = "{\"a\":1}",
	.usage = { 23, 24, 25, 26 },
};

static void same_session(const struct store_session *got, const struct store_session *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->tenant, want->tenant);
	CHECK_STR(got->template, want->template);
	CHECK(got->profile == want->profile && got->level == want->level);
	CHECK(got->created_ms == want->created_ms);
	CHECK(memcmp(&got->limits, &want->limits, sizeof(got->limits)) == 0);
	CHECK(got->output_limit == want->output_limit);
	CHECK(got->env_len == want->env_len && memcmp(got->env, want->env, got->env_len) == 0);
	CHECK_STR(got->mounts, want->mounts);
	CHECK(got->state == want->state && got->reason == want->reason && got->pid == want->pid);
	CHECK(got->started_ms == want->started_ms && got->ended_ms == want->ended_ms);
	CHECK(got->deadline_ms == want->deadline_ms);
	CHECK(got->paused_since_ms == want->paused_since_ms);
	CHECK(got->paused_total_ms == want->paused_total_ms);
	CHECK_STR(got->boot_id, want->boot_id);
	CHECK(got->cold == want->cold);
	CHECK_STR(got->detail, want->detail);
	CHECK(got->timeout_ms == want->timeout_ms && got->idle_ms == want->idle_ms);
	CHECK(got->on_timeout == want->on_timeout && got->on_idle == want->on_idle);
	CHECK_STR(got->metadata, want->metadata);
	CHECK_STR(got->rules, want->rules);
	CHECK_STR(got->network, want->network);
	CHECK_STR(got->client, want->client);
	CHECK(memcmp(&got->usage, &want->usage, sizeof(got->usage)) == 0);
}

static void session_there_and_back(void)
{
	struct store_session row = full_session, got, empty = a_session("ses_2", "ten_a", 9);
	struct store_usage usage = { 230, 240, 250, 260 };
	struct store *s = new_store();
	struct err e;

	MUST(store_session_insert(s, &row, &e));
	memset(&got, 0xff, sizeof(got));
	MUST(store_session_get(s, "ses_1", &got, &e));
	same_session(&got, &row);
	store_session_release(&got);
	store_session_release(&got); /* harmless */
	FAILS(store_session_insert(s, &row, &e), ERR_CONFLICT);
	memcpy(row.tenant, "ten_x", 6);
	memcpy(row.id, "ses_x", 6);
	FAILS(store_session_insert(s, &row, &e), ERR_NOT_FOUND);
	FAILS(store_session_update_state(s, &row, &e), ERR_NOT_FOUND);
	FAILS(store_session_update_settings(s, &row, &e), ERR_NOT_FOUND);
	FAILS(store_session_update_usage(s, "ses_x", &usage, &e), ERR_NOT_FOUND);
	FAILS(store_session_delete(s, "ses_x", &e), ERR_NOT_FOUND);
	FAILS(store_session_get(s, "ses_x", &got, &e), ERR_NOT_FOUND);
	MUST(store_session_insert(s, &empty, &e)); /* NULL texts */
	MUST(store_session_get(s, "ses_2", &got, &e));
	CHECK_STR(got.metadata, "");
	CHECK_STR(got.detail, "");
	CHECK(got.env_len == 0);
	store_session_release(&got);
	end_store(s);
}

/* Each update writes its own group of fields and no other. */
static void session_updates(void)
{
	struct store_session want = full_session, got, other;
	struct store *s = new_store();
	struct err e;

	MUST(store_session_insert(s, &want, &e));
	want.state = 110;
	want.reason = 120;
	want.started_ms = 130;
	want.ended_ms = 140;
	want.deadline_ms = 150;
	want.paused_since_ms = 160;
	want.paused_total_ms = 170;
	want.pid = 180;
	want.detail = "other";
	memcpy(want.boot_id, "next", 5);
	other = want;
	other.timeout_ms = other.created_ms = 999;
	other.metadata = "not this";
	other.usage.cpu_us = 999;
	MUST(store_session_update_state(s, &other, &e));
	MUST(store_session_get(s, "ses_1", &got, &e));
	same_session(&got, &want);
	store_session_release(&got);
	want.timeout_ms = 190;
	want.idle_ms = 200;
	want.on_timeout = 210;
	want.on_idle = 220;
	want.metadata = "{1}";
	want.rules = "rr";
	want.network = "nn";
	want.client = "";
	other = want;
	other.state = 999;
	other.detail = "not this";
	MUST(store_session_update_settings(s, &other, &e));
	MUST(store_session_get(s, "ses_1", &got, &e));
	same_session(&got, &want);
	store_session_release(&got);
	want.usage = (struct store_usage){ 1, 2, 3, 4 };
	MUST(store_session_update_usage(s, "ses_1", &want.usage, &e));
	MUST(store_session_get(s, "ses_1", &got, &e));
	same_session(&got, &want);
	store_session_release(&got);
	/* The state and the usage at once: first as it ends, then when it has ended. */
	want.id[4] = '2';
	want.ended_ms = 0;
	MUST(store_session_insert(s, &want, &e));
	for (uint64_t ended = 0; ended <= 77; ended += 77) {
		want.state++;
		want.ended_ms = ended;
		want.usage.cpu_us += 5;
		MUST(store_session_update_end(s, &want, &e));
		MUST(store_session_get(s, "ses_2", &got, &e));
		same_session(&got, &want);
		store_session_release(&got);
	}
	end_store(s);
}

static void sum_usage(const char *label, const struct store_usage_sums *sums, void *cookie)
{
	CHECK_STR(label, "");
	*(struct store_usage_sums *)cookie = *sums;
}

/* Into a new row and into one that is there. Without a mark the earlier one stays. */
static void usage_is_added(void)
{
	const struct store_usage_sums more = { 1, 2, 3, 4, 5, 1 };
	struct store_usage_mark mark = { 7, 8, 9, 10 }, got;
	struct store_session row = a_session("ses_1", "ten_a", 1);
	struct store_usage_sums sums = { 0 };
	struct store *s = new_store();
	struct err e;

	MUST(store_session_insert(s, &row, &e));
	MUST(store_usage_add(s, "ten_a", "ses_1", 3600000, &more, &mark, &e));
	mark.cpu_us = 11;
	MUST(store_usage_add(s, "ten_a", "ses_1", 3600000, &more, &mark, &e));
	MUST(store_usage_add(s, "ten_a", "ses_1", 3600000, &more, NULL, &e));
	MUST(store_usage_mark(s, "ses_1", &got, &e));
	CHECK(memcmp(&got, &mark, sizeof(got)) == 0);
	MUST(store_usage_sum(s, "ten_a", 0, 7200000, 10, sum_usage, &sums, &e));
	CHECK(sums.cpu_us == 3 && sums.net_bytes_out == 15 && sums.sessions == 3);
	FAILS(store_usage_add(s, "ten_a", "ses_x", 3600000, &more, NULL, &e), ERR_NOT_FOUND);
	end_store(s);
}

static int add_session(const struct store_session *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static const char *listed(struct store *s, const struct store_session_filter *f)
{
	static struct ids ids;
	struct err e;

	ids = (struct ids){ 0 };
	MUST(store_session_list(s, f, add_session, &ids, NULL, &e));
	return ids.text;
}

#define LIST(...) listed(s, &(struct store_session_filter){ __VA_ARGS__ })

static void session_pages(void)
{
	struct store *s = six_sessions();

	CHECK_STR(LIST(.tenant = "ten_a", .ascending = true), "ses_1 ses_2 ses_3 ses_4 ses_5");
	CHECK_STR(LIST(.tenant = "ten_a"), "ses_5 ses_4 ses_3 ses_2 ses_1");
	CHECK_STR(LIST(.tenant = "ten_b"), "ses_6");
	CHECK_STR(LIST(.tenant = "ten_x"), "");
	CHECK_STR(LIST(.tenant = "ten_a", .limit = 2), "ses_5 ses_4");
	CHECK_STR(LIST(.tenant = "ten_a", .limit = 2, .after_ms = 40, .after_id = "ses_4"),
		  "ses_3 ses_2");
	CHECK_STR(LIST(.tenant = "ten_a", .limit = 2, .after_ms = 40, .after_id = "ses_5"),
		  "ses_4 ses_3");
	CHECK_STR(LIST(.tenant = "ten_a", .after_ms = 10, .after_id = "ses_1"), "");
	CHECK_STR(LIST(.tenant = "ten_a", .ascending = true, .after_ms = 40, .after_id = "ses_4"),
		  "ses_5");
	CHECK_STR(LIST(.tenant = "ten_a", .after_id = ""), "ses_5 ses_4 ses_3 ses_2 ses_1");
	CHECK_STR(LIST(.tenant = "ten_a", .template = "other"), "ses_3");
	CHECK_STR(LIST(.template = "host", .tenant = "ten_b"), "ses_6");
	/* what has not ended is shown whatever its state: the caller may know better */
	CHECK_STR(LIST(.tenant = "ten_a", .states = 1 << 0 | 1 << 2), "ses_5 ses_4 ses_3 ses_1");
	CHECK_STR(LIST(.tenant = "ten_a", .states = 1 << 2, .template = "other"), "ses_3");
	CHECK_STR(LIST(.tenant = "ten_a", .states = 1U << 31), "ses_5 ses_4 ses_3");
	/* the limit is on rows looked at */
	CHECK_STR(LIST(.tenant = "ten_a", .states = 1, .ascending = true, .limit = 2), "ses_1");
	end_store(s);
}

static void live_sessions(void)
{
	struct store *s = six_sessions();
	struct ids ids = { 0 };
	struct err e;

	MUST(store_session_each_live(s, add_session, &ids, &e));
	CHECK_STR(ids.text, "ses_6 ses_3 ses_4 ses_5");
	ids = (struct ids){ .stop_at = 2 };
	MUST(store_session_each_live(s, add_session, &ids, &e));
	CHECK_STR(ids.text, "ses_6 ses_3");
	end_store(s);
}

static void add_deleted(const char *id, const char *tenant, void *cookie)
{
	CHECK_STR(tenant, "ten_a");
	(void)add_id(cookie, id);
}

static void execute(struct store *s, const char *id, const char *session, uint64_t created_ms)
{
	struct store_execution row = { .tenant = "ten_a", .created_ms = created_ms };
	struct err e;

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	MUST(store_execution_insert(s, &row, &e));
}

static const char *next_ended(struct store *s, uint64_t after_ms, const char *after,
			      uint64_t before_ms)
{
	static char id[STORE_ID_MAX];
	uint64_t ms;
	struct err e;
	int got = store_session_next_ended(s, after_ms, after, before_ms, &ms, id, &e);

	CHECK(got >= 0);
	return got == 0 ? "" : id;
}

static void session_retention(void)
{
	struct store *s = six_sessions();
	struct ids ids = { 0 };
	uint64_t n = 99, bytes;
	struct err e;

	execute(s, "exe_1", "ses_1", 1);
	execute(s, "exe_2", "ses_1", 2);
	execute(s, "exe_3", "ses_3", 3);
	/* those that ended first come first, whenever they were made */
	CHECK_STR(next_ended(s, 0, "", 100), "");
	CHECK_STR(next_ended(s, 0, "", 1000), "ses_1");
	CHECK_STR(next_ended(s, 100, "ses_1", 1000), "ses_2");
	CHECK_STR(next_ended(s, 101, "ses_2", 1000), "");
	/* in a transaction that is taken back nothing has happened */
	MUST(store_begin(s, &e));
	CHECK(store_execution_delete_some(s, "ses_1", 10, add_deleted, &ids, &e) == 2);
	CHECK_STR(ids.text, "exe_1 exe_2");
	store_rollback(s);
	MUST(store_execution_count(s, "ses_1", &n, &bytes, &e));
	CHECK(n == 2);
	/* in pieces */
	ids = (struct ids){ 0 };
	CHECK(store_execution_delete_some(s, "ses_1", 1, add_deleted, &ids, &e) == 1);
	CHECK_STR(ids.text, "exe_1");
	CHECK(store_execution_delete_some(s, "ses_1", 1, add_deleted, &ids, &e) == 1);
	CHECK(store_execution_delete_some(s, "ses_1", 1, add_deleted, &ids, &e) == 0);
	MUST(store_session_delete(s, "ses_1", &e));
	MUST(store_session_delete(s, "ses_3", &e)); /* its execution goes with it */
	MUST(store_execution_count(s, "ses_3", &n, &bytes, &e));
	CHECK(n == 0);
	CHECK_STR(LIST(.tenant = "ten_a"), "ses_5 ses_4 ses_2");
	end_store(s);
}

static uint64_t taken(struct store *s, const char *tenant, uint64_t *ret_rows)
{
	uint64_t bytes;
	struct err e;

	MUST(store_records_get(s, tenant, ret_rows, &bytes, &e));
	return bytes;
}

/* What a tenant's records take is known after every write. */
static void records_are_added_up(void)
{
	struct store *s = new_store();
	struct store_session row = a_session("ses_1", "ten_a", 1);
	struct store_execution x = { .id = "exe_1",
				     .session = "ses_1",
				     .tenant = "ten_a",
				     .command = "make",
				     .cwd = "/tmp" };
	struct ids ids = { 0 };
	uint64_t rows;
	struct err e;

	CHECK(taken(s, "ten_a", &rows) == 0 && rows == 0);
	row.env = "A=b";
	row.env_len = 4;
	row.policy = "0123456789";
	MUST(store_session_insert(s, &row, &e));
	CHECK(taken(s, "ten_a", &rows) == STORE_RECORD_BASE + 14 && rows == 1);
	row.policy = "01234";
	MUST(store_session_update_settings(s, &row, &e));
	CHECK(taken(s, "ten_a", &rows) == STORE_RECORD_BASE + 9 && rows == 1);
	MUST(store_execution_insert(s, &x, &e));
	CHECK(taken(s, "ten_a", &rows) == 2 * STORE_RECORD_BASE + 17 && rows == 2);
	FAILS(store_execution_insert(s, &x, &e), ERR_CONFLICT); /* counts nothing */
	CHECK(taken(s, "ten_a", &rows) == 2 * STORE_RECORD_BASE + 17 && rows == 2);
	CHECK(taken(s, "ten_b", &rows) == 0);
	CHECK(store_execution_delete_some(s, "ses_1", 9, add_deleted, &ids, &e) == 1);
	CHECK(taken(s, "ten_a", &rows) == STORE_RECORD_BASE + 9 && rows == 1);
	MUST(store_execution_insert(s, &x, &e));
	MUST(store_session_delete(s, "ses_1", &e));
	CHECK(taken(s, "ten_a", &rows) == 0 && rows == 0);
	end_store(s);
}

/* They are written with the commit, and read as the transaction has them before. */
static void records_of_a_transaction(void)
{
	struct store *s = new_store();
	struct store_session a = a_session("ses_1", "ten_a", 1), b = a_session("ses_2", "ten_b", 2);
	uint64_t rows;
	struct err e;

	for (unsigned i = 0; i < 2; i++) {
		MUST(store_begin(s, &e));
		MUST(store_session_insert(s, &a, &e));
		MUST(store_session_insert(s, &b, &e));
		a.id[4] = '3';
		MUST(store_session_insert(s, &a, &e));
		CHECK(taken(s, "ten_b", &rows) == STORE_RECORD_BASE && rows == 1);
		CHECK(taken(s, "ten_a", &rows) == 2 * STORE_RECORD_BASE && rows == 2);
		a.id[4] = '1';
		if (i == 0) {
			store_rollback(s);
			CHECK(taken(s, "ten_a", &rows) == 0 && taken(s, "ten_b", &rows) == 0);
		}
	}
	MUST(store_commit(s, &e));
	store_close(s);
	s = open_store();
	CHECK(taken(s, "ten_b", &rows) == STORE_RECORD_BASE && rows == 1);
	CHECK(taken(s, "ten_a", &rows) == 2 * STORE_RECORD_BASE && rows == 2);
	end_store(s);
}

/* A callback may read, with other functions. */
static int read_inside(const struct store_session *row, void *cookie)
{
	struct store_session again;
	struct ids live = { 0 };
	struct store *s = cookie;
	struct err e;

	MUST(store_session_each_live(s, add_session, &live, &e));
	MUST(store_session_get(s, row->id, &again, &e));
	CHECK_STR(again.id, row->id);
	CHECK(again.created_ms == row->created_ms);
	CHECK_STR(live.text, "ses_6 ses_3 ses_4 ses_5");
	store_session_release(&again);
	return 0;
}

static void callbacks_may_read(void)
{
	struct store *s = six_sessions();
	struct store_session_filter f = { .tenant = "ten_a" };
	struct err e;

	MUST(store_session_list(s, &f, read_inside, s, NULL, &e));
	end_store(s);
}

TEST_MAIN({ "a session, there and back", session_there_and_back },
	  { "updates of a session", session_updates }, { "usage is added", usage_is_added },
	  { "pages of sessions", session_pages }, { "live sessions", live_sessions },
	  { "retention of sessions", session_retention },
	  { "records are added up", records_are_added_up },
	  { "records of a transaction", records_of_a_transaction },
	  { "callbacks may read", callbacks_may_read })
