/* Every function of every table: what is written is read back, field by field. */
#include "store.h"

#include "store_event.h"
#include "store_execution.h"
#include "store_key.h"
#include "store_records.h"
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
				    .max_storage = 8 };
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
	CHECK(got.queue_ms == 6 && got.max_memory == row.max_memory && got.max_storage == 8);
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
	MUST(store_key_list(s, "ten_a", 0, NULL, 0, add_key, &ids, &looked, &e));
	CHECK_STR(ids.text, "key_2 key_1");
	CHECK(looked.end && looked.rows == 2);
	ids = (struct ids){ 0 };
	MUST(store_key_list(s, "ten_a", 0, "", 1, add_key, &ids, &looked, &e));
	CHECK_STR(ids.text, "key_2");
	CHECK(!looked.end && looked.rows == 1 && looked.ms == 10);
	CHECK_STR(looked.id, "key_2");
	ids = (struct ids){ 0 };
	MUST(store_key_list(s, "ten_a", 10, "key_2", 5, add_key, &ids, NULL, &e));
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

static const struct store_session full_session = {
	.id = "ses_1",
	.tenant = "ten_a",
	.template = "debian",
	.profile = 1,
	.level = 2,
	.created_ms = 3,
	.limits = { 4, 5, 6, 7, 8, 9, 10 },
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
	CHECK(got->env_len == want->env_len && memcmp(got->env, want->env, got->env_len) == 0);
	CHECK_STR(got->mounts, want->mounts);
	CHECK(got->state == want->state && got->reason == want->reason && got->pid == want->pid);
	CHECK(got->started_ms == want->started_ms && got->ended_ms == want->ended_ms);
	CHECK(got->deadline_ms == want->deadline_ms);
	CHECK(got->paused_since_ms == want->paused_since_ms);
	CHECK(got->paused_total_ms == want->paused_total_ms);
	CHECK_STR(got->boot_id, want->boot_id);
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

/* a: 1 to 5, the last two at the same time; b: 6. */
static struct store *six_sessions(void)
{
	static const uint64_t created[] = { 10, 20, 30, 40, 40, 25 };
	struct store *s = new_store();
	struct err e;

	for (size_t i = 0; i < COUNT(created); i++) {
		char id[STORE_ID_MAX];
		struct store_session row;

		(void)snprintf(id, sizeof(id), "ses_%zu", i + 1);
		row = a_session(id, i == 5 ? "ten_b" : "ten_a", created[i]);
		row.state = (uint32_t)i;
		row.ended_ms = i < 2 ? 100 + i : 0;
		row.limits.memory_bytes = 1ULL << i;
		row.limits.disk_bytes = 100;
		if (i == 2)
			memcpy(row.template, "other", 6);
		MUST(store_session_insert(s, &row, &e));
	}
	return s;
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
	MUST(store_key_list(s, "ten_a", 0, NULL, 0, add_key, &ids, NULL, &e));
	CHECK_STR(ids.text, "key_0 key_3 key_4 key_5");
	MUST(store_key_revoke_all(s, "ten_a", 60, &e));
	MUST(store_key_count(s, "ten_a", 50, &n, &e));
	CHECK(n == 0);
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

static const struct store_execution full_execution = {
	.id = "exe_1",
	.session = "ses_1",
	.tenant = "ten_a",
	.kind = 1,
	.command_hash = { 0, 1, 2, 255 },
	.command = "echo 'x'",
	.cwd = "/home/user",
	.user = "user",
	.tty = true,
	.created_ms = 2,
	.timeout_ms = 3,
	.handle = UINT32_MAX,
	.state = 5,
	.started_ms = 6,
	.ended_ms = 7,
	.exit_code = -8,
	.signal = 9,
	.limit = "memory",
	.timed_out = true,
	.error_code = 10,
	.error = "no such file",
	.out_bytes = 11,
	.err_bytes = 12,
	.log_bytes = 13,
	.truncated = true,
	.cpu_us = 14,
	.output_open = true,
	.mark = (1ULL << 62) - 1,
	.client = "{\"cmd\":\"x\"}",
	.output_limit = 15,
};

static void same_execution(const struct store_execution *got, const struct store_execution *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->session, want->session);
	CHECK_STR(got->tenant, want->tenant);
	CHECK(memcmp(got->command_hash, want->command_hash, sizeof(got->command_hash)) == 0);
	CHECK_STR(got->command, want->command);
	CHECK_STR(got->cwd, want->cwd);
	CHECK_STR(got->user, want->user);
	CHECK(got->kind == want->kind && got->tty == want->tty && got->handle == want->handle);
	CHECK(got->created_ms == want->created_ms && got->timeout_ms == want->timeout_ms);
	CHECK(got->state == want->state && got->started_ms == want->started_ms);
	CHECK(got->ended_ms == want->ended_ms && got->exit_code == want->exit_code);
	CHECK(got->signal == want->signal && got->timed_out == want->timed_out);
	CHECK_STR(got->limit, want->limit);
	CHECK(got->error_code == want->error_code);
	CHECK_STR(got->error, want->error);
	CHECK(got->out_bytes == want->out_bytes && got->err_bytes == want->err_bytes);
	CHECK(got->log_bytes == want->log_bytes && got->truncated == want->truncated);
	CHECK(got->cpu_us == want->cpu_us && got->output_open == want->output_open);
	CHECK(got->mark == want->mark && got->output_limit == want->output_limit);
	CHECK_STR(got->client, want->client);
}

static void execution_there_and_back(void)
{
	struct store *s = six_sessions();
	struct store_execution want = full_execution, got, other;
	struct err e;

	MUST(store_execution_insert(s, &want, &e));
	memset(&got, 0xff, sizeof(got));
	MUST(store_execution_get(s, "exe_1", &got, &e));
	same_execution(&got, &want);
	store_execution_release(&got);
	other = (struct store_execution){ .id = "exe_1",
					  .handle = 1,
					  .state = 50,
					  .started_ms = 60,
					  .ended_ms = 70,
					  .exit_code = 80,
					  .signal = 90,
					  .limit = "pids",
					  .error_code = 100,
					  .error = "x",
					  .out_bytes = 110,
					  .err_bytes = 120,
					  .log_bytes = 130,
					  .cpu_us = 140,
					  .mark = 150,
					  .client = "",
					  .command = "no" };
	MUST(store_execution_update(s, &other, &e));
	MUST(store_execution_get(s, "exe_1", &got, &e));
	memcpy(other.session, want.session, sizeof(other.session));
	memcpy(other.tenant, want.tenant, sizeof(other.tenant));
	memcpy(other.user, want.user, sizeof(other.user));
	memcpy(other.command_hash, want.command_hash, sizeof(other.command_hash));
	other.kind = want.kind;
	other.command = want.command;
	other.cwd = want.cwd;
	other.tty = want.tty;
	other.created_ms = want.created_ms;
	other.timeout_ms = want.timeout_ms;
	other.output_limit = want.output_limit;
	same_execution(&got, &other);
	store_execution_release(&got);
	FAILS(store_execution_insert(s, &want, &e), ERR_CONFLICT);
	memcpy(want.id, "exe_x", 6);
	FAILS(store_execution_update(s, &want, &e), ERR_NOT_FOUND);
	FAILS(store_execution_get(s, "exe_x", &got, &e), ERR_NOT_FOUND);
	memcpy(want.session, "ses_x", 6);
	FAILS(store_execution_insert(s, &want, &e), ERR_NOT_FOUND);
	end_store(s);
}

static int add_execution(const struct store_execution *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static void execution_pages(void)
{
	struct store *s = six_sessions();
	struct store_execution_filter f = { .session = "ses_1", .limit = 2 };
	struct store_execution ended = { .id = "exe_2", .ended_ms = 1 };
	struct store_looked looked;
	struct ids ids = { 0 };
	uint64_t n, bytes;
	struct err e;

	execute(s, "exe_1", "ses_1", 5);
	execute(s, "exe_2", "ses_1", 6);
	execute(s, "exe_3", "ses_1", 6);
	execute(s, "exe_4", "ses_2", 1);
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_3 exe_2");
	f.after_ms = 6;
	f.after_id = "exe_2";
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_1");
	f = (struct store_execution_filter){ .session = "ses_1", .ascending = true };
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_1 exe_2 exe_3");
	f.after_ms = 6;
	f.after_id = "exe_2";
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, NULL, &e));
	CHECK_STR(ids.text, "exe_3");
	MUST(store_execution_update(s, &ended, &e));
	ids = (struct ids){ 0 };
	MUST(store_execution_each_live(s, NULL, add_execution, &ids, &e));
	CHECK_STR(ids.text, "exe_4 exe_1 exe_3");
	ids = (struct ids){ 0 };
	MUST(store_execution_each_live(s, "ses_1", add_execution, &ids, &e));
	CHECK_STR(ids.text, "exe_1 exe_3");
	MUST(store_execution_count(s, "ses_1", &n, &bytes, &e));
	CHECK(n == 3 && bytes == 3 * STORE_RECORD_BASE);
	/* a filter hides rows, and the cursor is behind what was looked at */
	f = (struct store_execution_filter){ .session = "ses_1", .states = 1 << 5, .limit = 2 };
	ids = (struct ids){ 0 };
	MUST(store_execution_list(s, &f, add_execution, &ids, &looked, &e));
	CHECK_STR(ids.text, "exe_3");
	CHECK_STR(looked.id, "exe_2");
	CHECK(looked.rows == 2 && looked.ms == 6 && !looked.end);
	/* a row at which the callback stops was not looked at */
	ids = (struct ids){ .stop_at = 1 };
	MUST(store_execution_list(s, &f, add_execution, &ids, &looked, &e));
	CHECK(looked.rows == 0 && !looked.end && looked.id[0] == '\0');
	end_store(s);
}

static void execution_marks(void)
{
	struct store *s = six_sessions();
	struct store_execution row = { .id = "exe_2", .mark = (1ULL << 62) - 2 };
	char id[STORE_ID_MAX] = "none";
	struct err e;

	execute(s, "exe_1", "ses_1", 5); /* never ran: no mark */
	execute(s, "exe_2", "ses_1", 6);
	execute(s, "exe_3", "ses_2", 6);
	FAILS(store_execution_by_mark(s, "ses_1", row.mark, id, &e), ERR_NOT_FOUND);
	MUST(store_execution_update(s, &row, &e));
	memcpy(row.id, "exe_3", 6); /* another cell, the same mark */
	MUST(store_execution_update(s, &row, &e));
	MUST(store_execution_by_mark(s, "ses_1", row.mark, id, &e));
	CHECK_STR(id, "exe_2");
	MUST(store_execution_by_mark(s, "ses_2", row.mark, id, &e));
	CHECK_STR(id, "exe_3");
	FAILS(store_execution_by_mark(s, "ses_1", row.mark - 1, id, &e), ERR_NOT_FOUND);
	FAILS(store_execution_by_mark(s, "ses_1", 0, id, &e), ERR_NOT_FOUND);
	FAILS(store_execution_by_mark(s, "ses_3", row.mark, id, &e), ERR_NOT_FOUND);
	CHECK_STR(id, "exe_3");
	end_store(s);
}

/* The ids that store_execution_logs() gives, each with its bytes. */
static const char *logs(struct store *s, const char *session, unsigned limit)
{
	static char text[256];
	struct store_execution_log list[8];
	unsigned n = 99;
	size_t at = 0;
	struct err e;

	CHECK(limit <= COUNT(list));
	MUST(store_execution_logs(s, session, limit, list, &n, &e));
	text[0] = '\0';
	for (unsigned i = 0; i < n && i < limit; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s:%llu ", list[i].id,
				       (unsigned long long)list[i].bytes);
	return text;
}

static uint64_t logs_size(struct store *s, const char *session)
{
	uint64_t n = 99;
	struct err e;

	MUST(store_execution_logs_size(s, session, &n, &e));
	return n;
}

static void execution_logs(void)
{
	struct store *s = six_sessions();
	static const struct store_execution rows[] = {
		{ .id = "exe_1", .ended_ms = 30, .log_bytes = 100 }, /* began first, ended last */
		{ .id = "exe_2", .ended_ms = 20, .log_bytes = 10 },
		{ .id = "exe_3", .ended_ms = 20, .log_bytes = 1ULL << 40 },
		{ .id = "exe_4", .ended_ms = 10, .log_bytes = 0 }, /* said nothing */
		{ .id = "exe_5", .ended_ms = 10, .log_bytes = 5, .output_open = true },
		{ .id = "exe_6", .ended_ms = 0, .log_bytes = 5 }, /* runs */
		{ .id = "exe_7", .ended_ms = 5, .log_bytes = 7 }, /* another session's */
	};
	struct store_execution got;
	struct err e;

	CHECK(logs_size(s, "ses_1") == 0);
	CHECK_STR(logs(s, "ses_1", 8), "");
	for (size_t i = 0; i < COUNT(rows); i++) {
		execute(s, rows[i].id, i == 6 ? "ses_2" : "ses_1", i);
		MUST(store_execution_update(s, &rows[i], &e));
	}
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 110);
	CHECK_STR(logs(s, "ses_1", 8), "exe_2:10 exe_3:1099511627776 exe_1:100 ");
	CHECK_STR(logs(s, "ses_1", 2), "exe_2:10 exe_3:1099511627776 ");
	CHECK_STR(logs(s, "ses_1", 0), "");
	CHECK_STR(logs(s, "ses_2", 8), "exe_7:7 ");
	MUST(store_execution_log_removed(s, "exe_2", &e));
	MUST(store_execution_log_removed(s, "exe_2", &e));
	FAILS(store_execution_log_removed(s, "exe_x", &e), ERR_NOT_FOUND);
	CHECK_STR(logs(s, "ses_1", 8), "exe_3:1099511627776 exe_1:100 ");
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 100);
	MUST(store_execution_get(s, "exe_2", &got, &e));
	CHECK(got.log_bytes == 0 && got.truncated && got.ended_ms == 20);
	store_execution_release(&got);
	/* in a transaction that is taken back nothing has happened */
	MUST(store_begin(s, &e));
	MUST(store_execution_log_removed(s, "exe_3", &e));
	store_rollback(s);
	CHECK(logs_size(s, "ses_1") == (1ULL << 40) + 100);
	CHECK(logs_size(s, "ses_2") == 7);
	end_store(s);
}

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

TEST_MAIN({ "tenants", tenants }, { "keys", keys },
	  { "a session, there and back", session_there_and_back },
	  { "updates of a session", session_updates }, { "pages of sessions", session_pages },
	  { "live sessions", live_sessions }, { "retention of sessions", session_retention },
	  { "records are added up", records_are_added_up },
	  { "keys are counted and pruned", keys_are_counted_and_pruned },
	  { "an execution, there and back", execution_there_and_back },
	  { "pages of executions", execution_pages }, { "executions by mark", execution_marks },
	  { "logs of a session", execution_logs }, { "events in order", events_in_order },
	  { "events are pruned", events_are_pruned }, { "callbacks may read", callbacks_may_read })
