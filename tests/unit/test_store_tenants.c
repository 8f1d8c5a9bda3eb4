/* Rows of tenants and their keys: what is written is read back, field by field. */
#include "daemon/store/store.h"

#include "daemon/store/store_key.h"
#include "store_support.h"

static int add_tenant(const struct store_tenant *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static int copy_tenant(const struct store_tenant *row, void *cookie)
{
	struct store_tenant *to = cookie;

	if (strcmp(row->id, to->id) != 0)
		return 0;
	*to = *row;
	return 1;
}

static struct store_tenant find_tenant(struct store *s, const char *id)
{
	struct store_tenant got;
	struct err e;

	memset(&got, 0xff, sizeof(got));
	(void)snprintf(got.id, sizeof(got.id), "%s", id);
	MUST(store_tenant_each(s, copy_tenant, &got, &e));
	return got;
}

static void tenants(void)
{
	struct store_tenant row = { .id = "ten_c",
				    .name = "aa",
				    .is_operator = true,
				    .disabled = true,
				    .created_ms = 1,
				    .max_sessions = 2,
				    .create_rate_milli = 3,
				    .create_burst = 4,
				    .queue_length = 5,
				    .queue_ms = 6,
				    .max_memory = UINT64_MAX,
				    .max_storage = 8,
				    .max_stored = 9,
				    .captured_secrets = 2 };
	struct store_tenant got;
	struct ids ids = { 0 };
	struct store *s = new_store();
	struct err e;

	MUST(store_tenant_insert(s, &row, &e));
	got = find_tenant(s, "ten_c");
	row.max_memory = INT64_MAX; /* as the header says */
	CHECK_STR(got.id, row.id);
	CHECK_STR(got.name, row.name);
	CHECK(got.is_operator && got.disabled && got.created_ms == 1 && got.max_sessions == 2);
	CHECK(got.create_rate_milli == 3 && got.create_burst == 4 && got.queue_length == 5);
	CHECK(got.queue_ms == 6 && got.max_memory == row.max_memory && got.max_storage == 8 &&
	      got.max_stored == 9 && got.captured_secrets == 2);
	row = (struct store_tenant){ .id = "ten_c", .name = "renamed", .queue_ms = 60 };
	MUST(store_tenant_update(s, &row, &e));
	got = find_tenant(s, "ten_c");
	CHECK_STR(got.name, "renamed");
	CHECK(!got.is_operator && !got.disabled && got.created_ms == 1 && got.queue_ms == 60);
	CHECK(got.max_sessions == 0 && got.max_storage == 0);
	MUST(store_tenant_each(s, add_tenant, &ids, &e));
	CHECK_STR(ids.text, "ten_a ten_b ten_c");
	ids = (struct ids){ .stop_at = 1 };
	MUST(store_tenant_each(s, add_tenant, &ids, &e));
	CHECK_STR(ids.text, "ten_a");
	FAILS(store_tenant_insert(s, &row, &e), ERR_CONFLICT);
	memcpy(row.name, "a", 2);
	FAILS(store_tenant_update(s, &row, &e), ERR_CONFLICT);
	memcpy(row.id, "ten_y", 6);
	FAILS(store_tenant_insert(s, &row, &e), ERR_CONFLICT); /* the name */
	memcpy(row.name, "y", 2);
	FAILS(store_tenant_update(s, &row, &e), ERR_NOT_FOUND);
	end_store(s);
}

static int add_key(const struct store_key *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static void keys(void)
{
	struct store_looked looked;
	struct store_key row = { .id = "key_1",
				 .tenant = "ten_a",
				 .name = "laptop",
				 .prefix = "01234567",
				 .scopes = UINT32_MAX,
				 .created_ms = 20,
				 .expires_ms = 2,
				 .last_used_ms = 3,
				 .revoked_ms = 0 };
	struct store_key got;
	struct ids ids = { 0 };
	struct store *s = new_store();
	struct err e;

	for (size_t i = 0; i < sizeof(row.hash); i++)
		row.hash[i] = (uint8_t)(i * 8); /* with a NUL in front */
	MUST(store_key_insert(s, &row, &e));
	memset(&got, 0xff, sizeof(got));
	MUST(store_key_get_by_hash(s, row.hash, &got, &e));
	CHECK_STR(got.id, "key_1");
	CHECK_STR(got.tenant, "ten_a");
	CHECK_STR(got.name, "laptop");
	CHECK_STR(got.prefix, "01234567");
	CHECK(memcmp(got.hash, row.hash, sizeof(row.hash)) == 0 && got.scopes == UINT32_MAX);
	CHECK(got.created_ms == 20 && got.expires_ms == 2 && got.last_used_ms == 3);
	CHECK(got.revoked_ms == 0);
	MUST(store_key_touch(s, "key_1", 50, &e));
	MUST(store_key_touch(s, "key_1", 40, &e)); /* a clock that went back */
	MUST(store_key_revoke(s, "key_1", 60, &e));
	MUST(store_key_revoke(s, "key_1", 70, &e));
	MUST(store_key_get(s, "key_1", &got, &e));
	CHECK(got.last_used_ms == 50 && got.revoked_ms == 60);
	memcpy(row.id, "key_2", 6);
	FAILS(store_key_insert(s, &row, &e), ERR_CONFLICT); /* the hash */
	row.hash[31] ^= 1;
	FAILS(store_key_get_by_hash(s, row.hash, &got, &e), ERR_NOT_FOUND);
	row.created_ms = 10;
	MUST(store_key_insert(s, &row, &e));
	memcpy(row.id, "key_3", 6);
	memcpy(row.tenant, "ten_b", 6);
	row.hash[31] ^= 2;
	MUST(store_key_insert(s, &row, &e));
	MUST(store_key_list(s, &(struct store_key_filter){ "ten_a", 0, NULL, 0 }, add_key, &ids,
			    &looked, &e));
	CHECK_STR(ids.text, "key_2 key_1");
	CHECK(looked.end && looked.rows == 2);
	ids = (struct ids){ 0 };
	MUST(store_key_list(s, &(struct store_key_filter){ "ten_a", 0, "", 1 }, add_key, &ids,
			    &looked, &e));
	CHECK_STR(ids.text, "key_2");
	CHECK(!looked.end && looked.rows == 1 && looked.ms == 10);
	CHECK_STR(looked.id, "key_2");
	ids = (struct ids){ 0 };
	MUST(store_key_list(s, &(struct store_key_filter){ "ten_a", 10, "key_2", 5 }, add_key, &ids,
			    NULL, &e));
	CHECK_STR(ids.text, "key_1");
	memcpy(row.tenant, "ten_x", 6);
	memcpy(row.id, "key_4", 6);
	row.hash[31] ^= 4;
	FAILS(store_key_insert(s, &row, &e), ERR_NOT_FOUND);
	FAILS(store_key_touch(s, "key_x", 1, &e), ERR_NOT_FOUND);
	FAILS(store_key_revoke(s, "key_x", 1, &e), ERR_NOT_FOUND);
	FAILS(store_key_get(s, "key_x", &got, &e), ERR_NOT_FOUND);
	end_store(s);
}

static void keys_are_counted_and_pruned(void)
{
	struct store *s = new_store();
	struct store_key row = { .tenant = "ten_a", .name = "n" };
	struct ids ids = { 0 };
	uint64_t n;
	struct err e;

	for (uint8_t i = 0; i < 6; i++) {
		(void)snprintf(row.id, sizeof(row.id), "key_%u", i);
		row.hash[0] = i;
		row.created_ms = 10U + i;
		row.expires_ms = i == 1 ? 50 : 0;
		row.revoked_ms = i == 2 || i == 3 ? 40 : 0;
		MUST(store_key_insert(s, &row, &e));
	}
	MUST(store_key_count(s, "ten_a", 49, &n, &e));
	CHECK(n == 4);
	MUST(store_key_count(s, "ten_a", 50, &n, &e));
	CHECK(n == 3);
	MUST(store_key_prune(s, "ten_a", 50, 1, &e)); /* 1 and 2 go, 3 is the youngest dead one */
	MUST(store_key_list(s, &(struct store_key_filter){ "ten_a", 0, NULL, 0 }, add_key, &ids,
			    NULL, &e));
	CHECK_STR(ids.text, "key_0 key_3 key_4 key_5");
	MUST(store_key_revoke_all(s, "ten_a", 60, &e));
	MUST(store_key_count(s, "ten_a", 50, &n, &e));
	CHECK(n == 0);
	end_store(s);
}

TEST_MAIN({ "tenants", tenants }, { "keys", keys },
	  { "keys are counted and pruned", keys_are_counted_and_pruned })
