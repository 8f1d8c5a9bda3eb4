/* Volumes in the store: rows, states, and what a session that mounts one keeps from happening. */
#include "daemon/store/store_volume.h"

#include "store_support.h"

static struct store_volume a_volume(const char *id, const char *tenant, const char *name)
{
	struct store_volume row = { .kind = 1,
				    .state = STORE_VOLUME_READY,
				    .bytes = 1000,
				    .created_ms = 2,
				    .expires_ms = 0,
				    .generation = 9 };

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	return row;
}

static int add(const struct store_volume *row, void *cookie)
{
	return add_id(cookie, row->name);
}

static void rows(void)
{
	struct store_volume row = a_volume("v1", "ten_a", "one"), got;
	struct store *s = new_store();
	uint64_t count, bytes;
	struct err e;

	MUST(store_volume_insert(s, &row, &e));
	MUST(store_volume_get(s, "v1", &got, &e));
	CHECK_STR(got.id, row.id);
	CHECK_STR(got.tenant, row.tenant);
	CHECK_STR(got.name, row.name);
	CHECK(got.kind == 1 && got.state == STORE_VOLUME_READY && got.bytes == 1000);
	CHECK(got.created_ms == 2 && got.expires_ms == 0 && got.generation == 9);
	MUST(store_volume_get_by_name(s, "ten_a", "one", &got, &e));
	FAILS(store_volume_get_by_name(s, "ten_b", "one", &got, &e), ERR_NOT_FOUND);
	memcpy(row.id, "v2", 3);
	FAILS(store_volume_insert(s, &row, &e), ERR_CONFLICT);
	memcpy(row.tenant, "ten_b", 6);
	MUST(store_volume_insert(s, &row, &e));
	memcpy(row.tenant, "ten_x", 6);
	memcpy(row.id, "v3", 3);
	FAILS(store_volume_insert(s, &row, &e), ERR_NOT_FOUND);
	MUST(store_volume_sum(s, "ten_a", &count, &bytes, &e));
	CHECK(count == 1 && bytes == 1000);
	end_store(s);
}

static void states(void)
{
	struct store_volume row = a_volume("v1", "ten_a", "one"), got;
	struct store *s = new_store();
	struct ids ids = { 0 };
	struct err e;

	row.state = STORE_VOLUME_MAKING;
	MUST(store_volume_insert(s, &row, &e));
	FAILS(store_volume_get_by_name(s, "ten_a", "one", &got, &e), ERR_NOT_FOUND);
	MUST(store_volume_list(s, "ten_a", "", 10, add, &ids, &e));
	CHECK_STR(ids.text, "");
	MUST(store_volume_each_unready(s, "", 10, add, &ids, &e));
	CHECK_STR(ids.text, "one");
	FAILS(store_volume_delete(s, "v1", &e), ERR_NOT_FOUND); /* not while it may have files */
	MUST(store_volume_set_ready(s, "v1", &e));
	FAILS(store_volume_set_ready(s, "v1", &e), ERR_NOT_FOUND);
	MUST(store_volume_list(s, "ten_a", "", 10, add, &ids, &e));
	CHECK_STR(ids.text, "one one");
	MUST(store_volume_set_dying(s, "v1", &e));
	FAILS(store_volume_set_dying(s, "v1", &e), ERR_NOT_FOUND);
	memcpy(row.id, "v2", 3);
	MUST(store_volume_insert(s, &row, &e)); /* the name is free again */
	MUST(store_volume_delete(s, "v1", &e));
	FAILS(store_volume_get(s, "v1", &got, &e), ERR_NOT_FOUND);
	end_store(s);
}

static void uses(void)
{
	struct store_volume row = a_volume("v1", "ten_a", "one");
	struct store *s = six_sessions(); /* 1 and 2 have ended */
	struct store_session session = a_session("ses_3", "ten_a", 30);
	struct ids ids = { 0 };
	uint64_t n = 9;
	struct err e;

	MUST(store_volume_insert(s, &row, &e));
	MUST(store_volume_add_use(s, "v1", "ses_1", &e));
	MUST(store_volume_uses(s, "v1", &n, &e));
	CHECK(n == 0);
	MUST(store_volume_add_use(s, "v1", "ses_3", &e));
	MUST(store_volume_add_use(s, "v1", "ses_3", &e)); /* mounted at two places */
	MUST(store_volume_uses(s, "v1", &n, &e));
	CHECK(n == 1);
	FAILS(store_volume_set_dying(s, "v1", &e), ERR_NOT_FOUND);
	session.state = STORE_SESSION_ENDING; /* its files are needed until it has ended */
	MUST(store_session_update_state(s, &session, &e));
	MUST(store_volume_uses(s, "v1", &n, &e));
	CHECK(n == 0);
	MUST(store_volume_set_dying(s, "v1", &e));
	MUST(store_volume_each_unready(s, "", 10, add, &ids, &e));
	CHECK_STR(ids.text, "");
	session.ended_ms = 5;
	MUST(store_session_update_state(s, &session, &e));
	MUST(store_volume_each_unready(s, "", 10, add, &ids, &e));
	CHECK_STR(ids.text, "one");
	FAILS(store_volume_add_use(s, "v1", "ses_4", &e), ERR_NOT_FOUND);
	MUST(store_session_delete(s, "ses_3", &e));
	MUST(store_volume_delete(s, "v1", &e));
	end_store(s);
}

static void expiry(void)
{
	struct store_volume row = a_volume("v1", "ten_a", "never");
	struct store *s = six_sessions();
	struct ids ids = { 0 };
	struct err e;

	MUST(store_volume_insert(s, &row, &e));
	row = a_volume("v2", "ten_a", "late");
	row.expires_ms = 200;
	MUST(store_volume_insert(s, &row, &e));
	row = a_volume("v3", "ten_b", "used");
	row.expires_ms = 50;
	MUST(store_volume_insert(s, &row, &e));
	MUST(store_volume_add_use(s, "v3", "ses_6", &e));
	row = a_volume("v4", "ten_b", "due");
	row.expires_ms = 60;
	MUST(store_volume_insert(s, &row, &e));
	MUST(store_volume_expired(s, 100, 10, add, &ids, &e));
	CHECK_STR(ids.text, "due");
	end_store(s);
}

TEST_MAIN({ "rows", rows }, { "states", states }, { "uses", uses }, { "expiry", expiry })
