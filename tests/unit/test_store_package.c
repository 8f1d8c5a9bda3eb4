/* Packages of sessions: records of one version become one row, found by what it is, bounded. */
#include "daemon/store/store_package.h"

#include "store_support.h"

static int add_name(const struct store_package *row, void *cookie)
{
	CHECK_STR(row->tenant, "ten_a");
	return add_id(cookie, row->name);
}

static bool add(struct store *s, const char *session, const char *name, unsigned result,
		const char *data)
{
	struct store_package row = { .tenant = "ten_a",
				     .ecosystem = "npm",
				     .registry = "r",
				     .version = "1",
				     .result = result,
				     .attempts = 1,
				     .downloads = result == 4,
				     .refusals = result == 1,
				     .bytes = 10,
				     .data = data };
	static uint64_t now;
	bool is_new;
	struct err e;

	row.first_ms = row.last_ms = ++now;
	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	MUST(store_package_add(s, &row, &is_new, &e));
	return is_new;
}

static const char *list(struct store *s, const struct store_package_filter *f)
{
	static struct ids ids;
	struct err e;

	ids = (struct ids){ 0 };
	MUST(store_package_list(s, f, add_name, &ids, NULL, &e));
	return ids.text;
}

#define LIST(...) list(s, &(struct store_package_filter){ .session = "ses_a", __VA_ARGS__ })

static int check_row(const struct store_package *row, void *cookie)
{
	CHECK(row->attempts == 3 && row->downloads == 1 && row->refusals == 2 && row->bytes == 30 &&
	      row->result == 4 && row->last_ms == row->first_ms + 2);
	CHECK_STR(row->data, "{\"a\":2}");
	return 0;
}

static void folded(void)
{
	struct store_package_filter all = { .session = "ses_a", .result = -1 };
	struct store *s = new_store();
	struct err e;

	CHECK(add(s, "ses_a", "one", 1, "{\"a\":1}"));
	CHECK(!add(s, "ses_a", "one", 4, "{\"a\":2}"));
	CHECK(!add(s, "ses_a", "one", 1, "{\"a\":3}"));
	MUST(store_package_list(s, &all, check_row, NULL, NULL, &e));
	CHECK(add(s, "ses_b", "one", 4, "{\"a\":1}"));
	CHECK(add(s, "ses_a", "two", 1, "{\"a\":1}"));
	CHECK_STR(LIST(.result = -1), "one two");
	CHECK_STR(LIST(.result = 1), "two");
	CHECK_STR(LIST(.result = -1, .name = "one"), "one");
	CHECK_STR(LIST(.result = -1, .ecosystem = "pypi"), "");
	CHECK_STR(LIST(.result = -1, .limit = 1), "one");
	end_store(s);
}

static void bounded(void)
{
	struct store *s = new_store();
	uint64_t n = 0;
	struct err e;

	CHECK(add(s, "ses_a", "kept", 4, "{\"a\":1}"));
	CHECK(add(s, "ses_a", "old", 1, "{\"a\":1}"));
	CHECK(add(s, "ses_a", "new", 1, "{\"a\":1}"));
	CHECK(store_package_drop(s, "ses_a", 1, &e) == 1);
	CHECK_STR(LIST(.result = -1), "kept new");
	MUST(store_package_count(s, "ses_a", &n, &e));
	CHECK(n == 2);
	MUST(store_package_count_tenant(s, "ten_a", &n, &e));
	CHECK(n == 2);
	CHECK(store_package_prune(s, UINT32_MAX, 1, NULL, NULL, &e) == 1);
	CHECK_STR(LIST(.result = -1), "new");
	CHECK(store_package_drop_tenant(s, "ten_a", 9, &e) == 1);
	CHECK(store_package_drop(s, "ses_a", 9, &e) == 0);
	end_store(s);
}

/* A row is as old as its last attempt. Rows that are older than all others, and asked for again,
 * do not keep others from expiring. */
static void expires_by_the_last_attempt(void)
{
	struct store *s = new_store();
	struct store_package row = { .tenant = "ten_a",
				     .session = "ses_a",
				     .ecosystem = "npm",
				     .registry = "r",
				     .name = "first",
				     .version = "1",
				     .attempts = 1,
				     .data = "{}" };
	struct err e;
	bool is_new;

	row.first_ms = row.last_ms = 1000;
	MUST(store_package_add(s, &row, &is_new, &e));
	(void)snprintf(row.name, sizeof(row.name), "second");
	MUST(store_package_add(s, &row, &is_new, &e));
	(void)snprintf(row.name, sizeof(row.name), "first");
	row.last_ms = 5000;
	MUST(store_package_add(s, &row, &is_new, &e));
	CHECK(!is_new && store_package_prune(s, 2000, 1, NULL, NULL, &e) == 1);
	CHECK_STR(LIST(.result = -1), "first");
	CHECK(store_package_prune(s, 2000, 1, NULL, NULL, &e) == 0);
	end_store(s);
}

/* Numbers that a cordon-egress made up: sums stop, and rows can still be written. */
static void sums_do_not_overflow(void)
{
	struct store *s = new_store();
	struct store_package_sum big = { .bytes = 1ULL << 53 }, got;
	struct err e;

	for (unsigned i = 0; i < 2000; i++)
		MUST(store_package_sum_add(s, "ses_a", &big, &e));
	MUST(store_package_sum_get(s, "ses_a", &got, &e));
	CHECK(got.bytes == 1ULL << 53);
	end_store(s);
}

static void sums(void)
{
	struct store *s = new_store();
	struct store_package_sum one = { 1, 2, 3, 4, 5 }, got;
	struct err e;

	MUST(store_package_sum_get(s, "ses_a", &got, &e));
	CHECK(got.downloads == 0 && got.hits == 0);
	MUST(store_package_sum_add(s, "ses_a", &one, &e));
	MUST(store_package_sum_add(s, "ses_a", &one, &e));
	MUST(store_package_sum_get(s, "ses_a", &got, &e));
	CHECK(got.downloads == 2 && got.refusals == 4 && got.mismatches == 6 && got.bytes == 8 &&
	      got.hits == 10);
	MUST(store_package_sum_delete(s, "ses_a", &e));
	MUST(store_package_sum_get(s, "ses_a", &got, &e));
	CHECK(got.bytes == 0);
	end_store(s);
}

TEST_MAIN({ "records of one version are one row", folded },
	  { "what was downloaded is deleted last", bounded },
	  { "rows expire by their last attempt", expires_by_the_last_attempt },
	  { "sums do not overflow", sums_do_not_overflow }, { "sums of sessions", sums })
