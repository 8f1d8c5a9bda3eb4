/* Rows of events: what is written is read back, field by field. */
#include "daemon/store/store.h"

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

TEST_MAIN({ "events in order", events_in_order }, { "events are pruned", events_are_pruned })
