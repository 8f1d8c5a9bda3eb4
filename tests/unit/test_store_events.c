/* Rows of events: what is written is read back, field by field. */
#include "daemon/store/store.h"

#include "daemon/store/schema.h"
#include "daemon/store/store_event.h"
#include "store_support.h"

static int add_event(const struct store_event *row, void *cookie)
{
	char seq[24];

	(void)snprintf(seq, sizeof(seq), "%llu", (unsigned long long)row->seq);
	return add_id(cookie, seq);
}

static const char *events(struct store *s, const char *tenant, const char *session, uint64_t after,
			  unsigned limit)
{
	static struct ids ids;
	struct store_event_filter f = {
		.tenant = tenant, .session = session, .after_seq = after, .limit = limit
	};
	struct err e;

	ids = (struct ids){ 0 };
	MUST(store_event_list(s, &f, add_event, &ids, NULL, &e));
	return ids.text;
}

static int same_event(const struct store_event *row, void *cookie)
{
	CHECK(row->seq == 1 && row->time_ms == 7);
	CHECK_STR(row->tenant, "ten_a");
	CHECK_STR(row->session, "ses_1");
	CHECK_STR(row->execution, "exe_1");
	CHECK_STR(row->type, "session.started");
	CHECK_STR(row->data, "{\"a\":1}");
	CHECK_STR(row->actor.interface, "api");
	CHECK_STR(row->actor.key_id, "key_1");
	CHECK_STR(row->actor.request_id, "req_1");
	*(bool *)cookie = true;
	return 1;
}

static void events_in_order(void)
{
	struct store *s = new_store();
	struct store_event a = { .tenant = "ten_a",
				 .session = "ses_1",
				 .execution = "exe_1",
				 .time_ms = 7,
				 .type = "session.started",
				 .data = "{\"a\":1}",
				 .actor = { "api", "key_1", "req_1" } };
	struct store_event b = { .tenant = "ten_b", .time_ms = 8, .type = "x" };
	struct store_event_filter all = { 0 };
	bool seen = false;
	uint64_t seq = 99;
	struct err e;

	MUST(store_event_last(s, &seq, &e));
	CHECK(seq == 0);
	MUST(store_event_append(s, &a, &seq, &e));
	CHECK(seq == 1);
	MUST(store_event_list(s, &all, same_event, &seen, NULL, &e));
	CHECK(seen);
	MUST(store_event_append(s, &b, NULL, &e));
	memcpy(a.session, "ses_2", 6);
	MUST(store_event_append(s, &a, &seq, &e));
	memcpy(a.session, "ses_1", 6);
	MUST(store_event_append(s, &a, &seq, &e));
	CHECK(seq == 4);
	CHECK_STR(events(s, NULL, NULL, 0, 0), "1 2 3 4");
	CHECK_STR(events(s, NULL, NULL, 1, 2), "2 3");
	CHECK_STR(events(s, "ten_a", NULL, 0, 0), "1 3 4");
	CHECK_STR(events(s, "ten_a", NULL, 1, 1), "3");
	CHECK_STR(events(s, NULL, "ses_1", 0, 0), "1 4");
	CHECK_STR(events(s, "ten_a", "ses_1", 1, 0), "4");
	CHECK_STR(events(s, "ten_b", "ses_1", 0, 0), ""); /* another's session shows nothing */
	CHECK_STR(events(s, NULL, NULL, 4, 0), "");
	end_store(s);
}

static void events_are_pruned(void)
{
	struct store *s = new_store();
	struct err e;
	uint64_t seq;

	for (uint64_t i = 1; i <= 10; i++) {
		struct store_event row = { .tenant = "ten_a", .time_ms = i * 10, .type = "x" };

		MUST(store_event_append(s, &row, NULL, &e));
	}
	CHECK(store_event_prune(s, 10, 100, NULL, NULL, &e) == 0);
	CHECK(store_event_prune(s, 40, 2, NULL, NULL, &e) == 2); /* a little at a time */
	CHECK(store_event_prune(s, 40, 2, NULL, NULL, &e) == 1);
	CHECK(store_event_prune(s, 40, 2, NULL, NULL, &e) == 0);
	CHECK_STR(events(s, NULL, NULL, 0, 0), "4 5 6 7 8 9 10");
	MUST(store_event_count(s, "ten_a", &seq, &e));
	CHECK(seq == 7);
	CHECK(store_event_drop(s, "ten_b", 100, &e) == 0);
	CHECK(store_event_drop(s, "ten_a", 2, &e) == 2); /* the oldest, whatever the clock said */
	CHECK_STR(events(s, NULL, NULL, 0, 0), "6 7 8 9 10");
	CHECK(store_event_prune(s, 1000, 100, NULL, NULL, &e) == 5);
	MUST(store_event_last(s, &seq, &e));
	CHECK(seq == 10);
	{
		struct store_event row = { .tenant = "ten_a", .type = "x" };

		MUST(store_event_append(s, &row, &seq, &e));
	}
	CHECK(seq == 11); /* a number is never given twice */
	end_store(s);
}

static uint64_t append(struct store *s)
{
	const struct store_event row = { .tenant = "ten_a", .time_ms = 5, .type = "x" };
	uint64_t seq = 0;
	struct err e;

	MUST(store_event_append(s, &row, &seq, &e));
	return seq;
}

static void delete_all(struct store *s)
{
	struct err e;

	CHECK(store_event_prune(s, 1000, 100, NULL, NULL, &e) > 0);
	CHECK_STR(events(s, NULL, NULL, 0, 0), "");
}

/* A client continues behind the number that it saw, also if all rows are gone, the server was
 * started again, or a transaction was undone. */
static void numbers_only_grow(void)
{
	struct store *s = new_store();
	uint64_t last;
	struct err e;

	CHECK(append(s) == 1 && append(s) == 2 && append(s) == 3);
	delete_all(s);
	store_close(s);
	s = open_store();
	MUST(store_event_last(s, &last, &e));
	CHECK(last == 3);
	CHECK(append(s) == 4);
	CHECK(store_event_drop(s, "ten_a", 100, &e) == 1);
	store_close(s);
	s = open_store();
	CHECK(append(s) == 5);
	/* undone: the numbers, and a deletion with its note */
	MUST(store_begin(s, &e));
	CHECK(append(s) == 6);
	store_rollback(s);
	CHECK(append(s) == 6);
	MUST(store_begin(s, &e));
	delete_all(s);
	store_rollback(s);
	CHECK_STR(events(s, NULL, NULL, 0, 0), "5 6");
	delete_all(s);
	store_close(s);
	s = open_store();
	CHECK(append(s) == 7);
	end_store(s);
}

/* Numbers that SQLite counted, in a store of the version before, with rows or without. */
static void numbers_of_before_continue(void)
{
	for (int left = 0; left <= 1; left++) {
		struct store *s;
		sqlite3 *db;
		struct err e;
		uint64_t seq;

		make_dir();
		db = other_connection();
		MUST(schema_migrate(db, schema_steps, 57, &e));
		for (int i = 0; i < 9; i++)
			other_runs(db, "INSERT INTO event (tenant, session, execution, time_ms, "
				       "type, data) VALUES ('ten_a', 'ses_1', '', 5, 'x', '{}')");
		other_runs(db, left ? "DELETE FROM event WHERE seq > 4" : "DELETE FROM event");
		CHECK(number(db, "SELECT seq FROM sqlite_sequence WHERE name = 'event'") == 9);
		CHECK(sqlite3_close(db) == SQLITE_OK);
		s = open_store();
		CHECK_STR(events(s, NULL, "ses_1", 0, 0), left ? "1 2 3 4" : "");
		CHECK(append(s) == 10);
		MUST(store_event_count(s, "ten_a", &seq, &e));
		CHECK(seq == (left ? 5 : 1));
		store_close(s);
		db = other_connection();
		CHECK(number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'event' AND sql "
				 "NOT LIKE '%AUTOINCREMENT%'") == 1);
		CHECK(number(db, "SELECT count(*) FROM sqlite_sequence WHERE name = 'event'") == 0);
		CHECK(number(db, "SELECT count(*) FROM pragma_integrity_check WHERE "
				 "integrity_check = 'ok'") == 1);
		CHECK(sqlite3_close(db) == SQLITE_OK);
		end_store(open_store());
	}
}

TEST_MAIN({ "events in order", events_in_order }, { "events are pruned", events_are_pruned },
	  { "numbers only grow", numbers_only_grow },
	  { "numbers of before continue", numbers_of_before_continue })
