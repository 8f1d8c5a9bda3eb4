/* What sessions used, by hour, label and session: the same sums, once, and charged as long as they
 * are kept. */
#include "daemon/store/store_usage.h"

#include "daemon/store/store_records.h"
#include "store_support.h"

#define HOUR 3600000ULL

static uint64_t charged(struct store *s)
{
	uint64_t rows, bytes;
	struct err e;

	MUST(store_records_get(s, "ten_a", &rows, &bytes, &e));
	return bytes;
}

static void sum(const char *label, const struct store_usage_sums *u, void *cookie)
{
	*(uint64_t *)cookie += u->cpu_us;
}

static struct store_usage_sums of(struct store *s, const char *session, uint64_t from, uint64_t to)
{
	struct store_usage_sums u;
	struct err e;
	bool any;

	MUST(store_usage_of_session(s, session, from, to, &u, &any, &e));
	CHECK(any == (u.cpu_us > 0));
	return u;
}

static void by_session(void)
{
	struct store_session one = a_session("ses_1", "ten_a", 1),
			     two = a_session("ses_2", "ten_a", 1);
	struct store_usage_sums use = { .cpu_us = 10, .memory_kib_ms = 3, .sessions = 1 };
	struct store_usage_mark mark = { .cpu_us = 10 };
	struct store *s = new_store();
	uint64_t before, total = 0;
	struct err e;

	one.metadata = "{\"label\":\"red\"}";
	MUST(store_session_insert(s, &one, &e));
	MUST(store_session_insert(s, &two, &e));
	before = charged(s);
	for (unsigned i = 0; i < 6; i++)
		MUST(store_usage_add(s, "ten_a", "ses_1", i / 2 * HOUR, &use, &mark, &e));
	MUST(store_usage_add(s, "ten_a", "ses_2", HOUR, &use, &mark, &e));
	CHECK(charged(s) == before + 4 * STORE_USAGE_SESSION_SIZE);
	CHECK(of(s, "ses_1", 0, 3 * HOUR).cpu_us == 60);
	CHECK(of(s, "ses_1", HOUR, 2 * HOUR).memory_kib_ms == 6);
	CHECK(of(s, "ses_1", 3 * HOUR, 9 * HOUR).cpu_us == 0);
	CHECK(of(s, "ses_2", 0, 3 * HOUR).sessions == 1);
	CHECK(of(s, "ses_x", 0, 3 * HOUR).cpu_us == 0);
	MUST(store_usage_sum(s, "ten_a", 0, 3 * HOUR, 0, sum, &total, &e));
	CHECK(total == 70); /* as by label */
	FAILS(store_usage_add(s, "ten_a", "ses_x", 0, &use, &mark, &e), ERR_NOT_FOUND);
	/* both or none */
	MUST(store_begin(s, &e));
	MUST(store_usage_add(s, "ten_a", "ses_1", 7 * HOUR, &use, &mark, &e));
	store_rollback(s);
	CHECK(of(s, "ses_1", 7 * HOUR, 8 * HOUR).cpu_us == 0);
	CHECK(charged(s) == before + 4 * STORE_USAGE_SESSION_SIZE);
	/* with the record of the session the rows go, and what they counted */
	CHECK(store_usage_delete_session(s, "ses_1", 2, &e) == 2);
	CHECK(of(s, "ses_1", 0, 9 * HOUR).cpu_us == 20);
	MUST(store_session_delete(s, "ses_1", &e));
	MUST(store_session_delete(s, "ses_2", &e));
	CHECK(charged(s) == 0);
	total = 0;
	MUST(store_usage_sum(s, "ten_a", 0, 3 * HOUR, 0, sum, &total, &e));
	CHECK(total == 70); /* those by label stay */
	end_store(s);
}

TEST_MAIN({ "usage by session", by_session })
