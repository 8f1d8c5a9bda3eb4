/* Goal: a key counts for an hour, for its tenant, and is replaced by a new row. */
#include "daemon/store/store_once.h"

#include "lib/base/str.h"
#include "store_support.h"

#define NOW (10 * STORE_ONCE_MS)

static struct store_once row_of(const char *tenant, const char *key, uint64_t at)
{
	struct store_once row = { .created_ms = at, .digest = { 1 } };

	str_copy(row.tenant, tenant);
	str_copy(row.key, key);
	str_copy(row.object, "object");
	return row;
}

static void an_hour(void)
{
	struct store *s = new_store();
	struct store_once row = row_of("t", "k", NOW), got;
	struct err e;

	CHECK(store_once_insert(s, &row, &e) == 0);
	CHECK(store_once_get(s, "t", "k", NOW, &got, &e) == 0);
	CHECK_STR(got.object, "object");
	CHECK(got.digest[0] == 1 && got.created_ms == NOW);
	CHECK(store_once_get(s, "t", "k", NOW + STORE_ONCE_MS, &got, &e) == 0);
	CHECK(store_once_get(s, "t", "k", NOW + STORE_ONCE_MS + 1, &got, &e) < 0);
	CHECK(e.code == ERR_NOT_FOUND);
	CHECK(store_once_get(s, "u", "k", NOW, &got, &e) < 0 && e.code == ERR_NOT_FOUND);
	str_copy(row.object, "another");
	CHECK(store_once_insert(s, &row, &e) == 0);
	CHECK(store_once_get(s, "t", "k", NOW, &got, &e) == 0);
	CHECK_STR(got.object, "another");
	CHECK(store_once_delete(s, "t", "k", &e) == 0 && store_once_delete(s, "t", "k", &e) == 0);
	CHECK(store_once_get(s, "t", "k", NOW, &got, &e) < 0);
	end_store(s);
}

/* Old rows of any tenant go, more of them with each new one than one. */
static void old_ones_go(void)
{
	struct store *s = new_store();
	struct store_once row;
	uint64_t n;
	struct err e;

	for (unsigned i = 0; i < 40; i++) {
		char key[16];

		(void)snprintf(key, sizeof(key), "old%u", i);
		row = row_of("t", key, 1 + i);
		CHECK(store_once_insert(s, &row, &e) == 0);
	}
	CHECK(store_once_count(s, "t", 100, &n, &e) == 0 && n == 40);
	CHECK(store_once_count(s, "t", NOW, &n, &e) == 0 && n == 0);
	row = row_of("u", "new", NOW);
	CHECK(store_once_insert(s, &row, &e) == 0);
	CHECK(store_once_count(s, "t", 100, &n, &e) == 0 && n == 8);
	CHECK(store_once_insert(s, &row, &e) == 0);
	CHECK(store_once_count(s, "t", 100, &n, &e) == 0 && n == 0);
	CHECK(store_once_count(s, "u", NOW, &n, &e) == 0 && n == 1);
	end_store(s);
}

TEST_MAIN({ "an hour", an_hour }, { "old ones go", old_ones_go })
