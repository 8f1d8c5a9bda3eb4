/* All tables of the store: a row of each is written as the release with schema 39 wrote it, and is
 * read back as it was written. Databases are compared by their SQL, so that a column that a table
 * of the store forgets, or binds to another member, shows. */
#include <fcntl.h>

#include "lib/base/io.h"
#include "daemon/store/store_sample.h"
#include "lib/base/str.h"
#include "store_rows.h"

static void compare_table(sqlite3 *db, const char *table)
{
	static const char *const ways[][2] = { { "main", "other" }, { "other", "main" } };

	for (size_t i = 0; i < COUNT(ways); i++) {
		char sql[256];
		sqlite3_stmt *st;

		(void)snprintf(sql, sizeof(sql), "SELECT * FROM %s.%s EXCEPT SELECT * FROM %s.%s",
			       ways[i][0], table, ways[i][1], table);
		CHECK(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK);
		CHECK_CASE(table, sqlite3_step(st) == SQLITE_DONE);
		(void)sqlite3_finalize(st);
	}
}

/* Both have the same tables with the same rows. Returns how many tables have rows. */
static unsigned compare(const char *path, const char *other)
{
	sqlite3_stmt *tables;
	unsigned filled = 0;
	char sql[256];
	sqlite3 *db;

	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	(void)snprintf(sql, sizeof(sql), "ATTACH '%s' AS other", other);
	other_runs(db, sql);
	CHECK(sqlite3_prepare_v2(db,
				 "SELECT name FROM sqlite_schema WHERE type = 'table'"
				 " AND name NOT LIKE 'sqlite%'",
				 -1, &tables, NULL) == SQLITE_OK);
	while (sqlite3_step(tables) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(tables, 0);
		sqlite3_stmt *st;

		compare_table(db, name);
		(void)snprintf(sql, sizeof(sql), "SELECT 1 FROM %s LIMIT 1", name);
		CHECK(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK);
		filled += sqlite3_step(st) == SQLITE_ROW;
		(void)sqlite3_finalize(st);
	}
	(void)sqlite3_finalize(tables);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	return filled;
}

/* A store in a directory of its own. */
struct place {
	char dir[64], path[128];
};

static struct store *open_place(struct place *p)
{
	struct store *s;

	make_dir();
	s = open_store();
	str_copy(p->dir, test_dir);
	str_copy(p->path, db_path());
	return s;
}

static void remove_place(const struct place *p)
{
	str_copy(test_dir, p->dir);
	remove_dir();
}

/* Tables without rows in a database of schema 39: build_gone, layer_value. */
#define EMPTY 2

static void schema_39_is_taken_over(void)
{
	static char text[65536];
	struct place then, now;
	struct store *s;
	unsigned tables;
	sqlite3 *db;
	struct err e;

	make_dir();
	db = other_connection();
	CHECK(io_read_file(AT_FDCWD, STORE_V39_SQL, text, sizeof(text), &e) > 0);
	other_runs(db, text);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	str_copy(then.dir, test_dir);
	str_copy(then.path, db_path());
	store_close(open_store()); /* takes the steps to the newest schema */
	s = open_place(&now);
	rows_write(s, false);
	/* Schema 39 had no usage by session. */
	CHECK(store_usage_delete_session(s, "ses_1", 0, &e) == 1);
	store_close(s);
	/* Earlier records are in no batch. */
	db = other_connection();
	other_runs(db, "UPDATE session SET net_batched ="
		       " (SELECT seq FROM sqlite_sequence WHERE name = 'net')");
	CHECK(sqlite3_close(db) == SQLITE_OK);
	/* SQLite's number of the last event is kept, which a new store does not need before events
	 * are deleted. */
	CHECK(sqlite3_open(then.path, &db) == SQLITE_OK);
	other_runs(db, "DELETE FROM meta WHERE key = 'event_last'"
		       " AND CAST(value AS INTEGER) = (SELECT max(seq) FROM event)");
	CHECK(sqlite3_changes(db) == 1);
	CHECK(sqlite3_close(db) == SQLITE_OK);
	tables = compare(then.path, now.path);
	CHECK(tables > 20 && tables == compare(now.path, then.path));
	remove_place(&then);
	remove_place(&now);
}

/* ---- each row is read by one store, and written to another */

struct copy {
	struct store *from, *to;
};

static int copy_tenant(const struct store_tenant *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_tenant_insert(c->to, row, &e));
	return 0;
}

static int copy_key(const struct store_key *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_key_insert(c->to, row, &e));
	return 0;
}

static int copy_session(const struct store_session *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_session_insert(c->to, row, &e));
	return 0;
}

static int copy_execution(const struct store_execution *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_execution_insert(c->to, row, &e));
	return 0;
}

static int copy_event(const struct store_event *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_event_append(c->to, row, NULL, &e));
	return 0;
}

static int copy_net(const struct store_net *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_net_append(c->to, row, NULL, &e));
	return 0;
}

static int copy_claim(const struct store_net_claim *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_net_claim_set(c->to, "ses_1", row, &e));
	return 0;
}

static int copy_package(const struct store_package *row, void *cookie)
{
	struct copy *c = cookie;
	bool is_new;
	struct err e;

	MUST(store_package_add(c->to, row, &is_new, &e));
	CHECK(is_new);
	return 0;
}

static int copy_pin(const struct store_mcp_pin *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_mcp_pin_add(c->to, "ses_1", row, &e));
	return 0;
}

static int copy_sample(const struct store_sample *row, void *cookie)
{
	struct copy *c = cookie;
	uint64_t step = STORE_SAMPLE_MS;
	struct err e;

	MUST(store_sample_add(c->to, "ten_1", "ses_1", row, false, &step, &e));
	return 0;
}

static void copy_usage(const char *label, const struct store_usage_sums *sums, void *cookie)
{
	struct copy *c = cookie;
	struct store_usage_mark mark;
	struct err e;

	CHECK_STR(label, "blue");
	MUST(store_usage_mark(c->from, "ses_1", &mark, &e));
	MUST(store_usage_add(c->to, "ten_1", "ses_1", 8000, sums, &mark, &e));
}

static int copy_secret(const struct store_secret *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_secret_insert(c->to, row, &e));
	return 0;
}

static int copy_template(const struct store_template *row, void *cookie)
{
	struct store_template copy = *row;
	struct copy *c = cookie;
	struct err e;

	MUST(store_template_insert(c->to, &copy, &e));
	return 0;
}

static int copy_tag(const struct store_template_tag *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_template_tag_set(c->to, row, &e));
	return 0;
}

static int copy_layer(const struct store_layer *row, void *cookie)
{
	struct copy *c = cookie;
	char used[2][STORE_ID_MAX];
	struct err e;

	MUST(store_layer_insert(c->to, row, &e));
	CHECK(store_layer_used(c->from, STORE_LAYER_OF_SESSION, "ses_2", used, 2, &e) == 1);
	MUST(store_layer_use(c->to, STORE_LAYER_OF_SESSION, "ses_2", &row->id, 1, &e));
	return 0;
}

static int copy_layer_value(const struct store_layer_value *row, void *cookie)
{
	struct copy *c = cookie;
	uint64_t bytes;
	struct err e;

	MUST(store_layer_value_sum(c->from, "ten_1", &bytes, &e));
	MUST(store_layer_value_add(c->to, "lay_1", row, bytes, &e));
	return 0;
}

static int copy_volume(const struct store_volume *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_volume_insert(c->to, row, &e));
	MUST(store_volume_add_use(c->to, row->id, "ses_2", &e));
	return 0;
}

static int copy_build(const struct store_build *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_build_insert(c->to, row, &e));
	return 0;
}

static int copy_entry(const struct store_build_entry *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_build_log_add(c->to, "build", row, &e));
	return 0;
}

static int copy_upload(const struct store_build_upload *row, void *cookie)
{
	struct copy *c = cookie;
	struct err e;

	MUST(store_build_upload_put(c->to, row, &e));
	return 0;
}

static void copy_sessions(struct copy *c)
{
	struct store_session_filter sessions = { .tenant = "ten_1", .ascending = true };
	struct store_execution_filter executions = { .ascending = true };
	struct store_event_filter events = { .tenant = "ten_1" };
	struct store_net_filter net = { .session = "ses_1", .verdict = STORE_NET_ANY };
	struct store_package_filter packages = { .session = "ses_1", .result = -1 };
	struct store_key_filter keys = { .tenant = "ten_1" };
	struct store_package_sum sum;
	OWN_MEM char *policy = NULL;
	char meta[8];
	struct err e;

	MUST(store_tenant_each(c->from, copy_tenant, c, &e));
	MUST(store_tenant_get_policy(c->from, "ten_1", &policy, &e));
	MUST(store_tenant_set_policy(c->to, "ten_1", policy, &e));
	MUST(store_key_list(c->from, &keys, copy_key, c, NULL, &e));
	MUST(store_session_list(c->from, &sessions, copy_session, c, NULL, &e));
	for (size_t i = 0; i < COUNT(rows_sessions); i++) {
		executions.session = rows_sessions[i].id;
		MUST(store_execution_list(c->from, &executions, copy_execution, c, NULL, &e));
	}
	MUST(store_event_list(c->from, &events, copy_event, c, NULL, &e));
	MUST(store_net_list(c->from, &net, copy_net, c, NULL, &e));
	MUST(store_net_claim_each(c->from, "ses_1", 0, copy_claim, c, &e));
	MUST(store_package_list(c->from, &packages, copy_package, c, NULL, &e));
	MUST(store_package_sum_get(c->from, "ses_1", &sum, &e));
	MUST(store_package_sum_add(c->to, "ses_1", &sum, &e));
	MUST(store_mcp_pin_each(c->from, "ses_1", 0, copy_pin, c, &e));
	MUST(store_usage_sum(c->from, "ten_1", 0, 9000, 0, copy_usage, c, &e));
	MUST(store_sample_list(c->from, "ses_1", 0, 0, copy_sample, c, NULL, &e));
	MUST(store_secret_each(c->from, "", 0, copy_secret, c, &e));
	MUST(store_meta_get(c->from, "boot", meta, sizeof(meta), &e));
	MUST(store_meta_set(c->to, "boot", meta, &e));
}

static void copy_templates(struct copy *c)
{
	struct store_build_part part = { .step = "" };
	struct store_build_cached cached;
	struct store_build_gone gone;
	struct store_build build = { .id = "gone", .template_id = "eeee" };
	struct err e;

	MUST(store_template_each(c->from, copy_template, c, &e));
	MUST(store_template_tag_each(c->from, copy_tag, c, &e));
	MUST(store_layer_list(c->from, 0, "", 0, copy_layer, c, &e));
	MUST(store_layer_value_of(c->from, "lay_1", copy_layer_value, c, &e));
	MUST(store_volume_list(c->from, "ten_1", "", 0, copy_volume, c, &e));
	MUST(store_build_list(c->from, rows_build.template_id, 0, 0, copy_build, c, &e));
	MUST(store_build_log_list(c->from, "build", &part, copy_entry, c, &e));
	MUST(store_build_cache_get(c->from, "ten_1", "key", &cached, &e));
	MUST(store_build_cache_put(c->to, &cached, &e));
	store_build_cache_release(&cached);
	MUST(store_build_upload_each(c->from, copy_upload, c, &e));
	MUST(store_build_gone_any(c->from, &gone, &e));
	str_copy(build.tenant, gone.tenant);
	MUST(store_build_insert(c->to, &build, &e));
	MUST(store_build_prune(c->to, "eeee", 0, &e));
	build.finished_ms = 1;
	MUST(store_build_update(c->to, &build, &e));
	MUST(store_build_prune(c->to, "eeee", 0, &e));
	CHECK_STR(gone.id, "gone");
}

/* In the tables that schema 39 does not have, too. */
static void write_newer(struct store *s)
{
	struct store_build build = {
		.id = "gone", .tenant = "ten_1", .template_id = "eeee", .finished_ms = 1
	};
	struct store_layer_value value = { .tenant = "ten_1",
					   .about = "about",
					   .name = "name",
					   .hosts = "hosts",
					   .box = "box",
					   .box_len = 3 };
	struct store_sample sample = { 0,     15002, 15003, 15004, 15005, 15006,
				       15007, 15008, 15009, 15010, 15011 };
	uint64_t step = STORE_SAMPLE_MS;
	struct err e;

	MUST(store_build_insert(s, &build, &e));
	MUST(store_build_prune(s, "eeee", 0, &e));
	MUST(store_layer_value_add(s, "lay_1", &value, 14001, &e));
	MUST(store_sample_add(s, "ten_1", "ses_1", &sample, false, &step, &e));
}

/* One column holds the limit that ended an execution, and all that it hit. */
static void check_limits(struct store *s)
{
	static const struct {
		const char *limit, *list, *read;
	} cases[] = {
		{ "memory", "memory", "memory" },
		{ "memory", "", "memory" },
		{ "", "pids,disk", "pids,disk" },
		{ "disk", "pids,disk", "pids,disk" },
		{ "killed", "", "" },
		{ "killed", "pids", "pids" },
	};
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct store_execution row = rows_executions[0], got;

		str_copy(row.limit, cases[i].limit);
		str_copy(row.limits_hit, cases[i].list);
		MUST(store_execution_update(s, &row, &e));
		MUST(store_execution_get(s, row.id, &got, &e));
		CHECK_STR(got.limit, cases[i].limit);
		CHECK_STR(got.limits_hit, cases[i].read);
		store_execution_release(&got);
	}
}

static void rows_are_read_as_written(void)
{
	struct place one, two;
	struct copy c;
	unsigned tables;

	c.from = open_place(&one);
	c.to = open_place(&two);
	rows_write(c.from, true);
	write_newer(c.from);
	check_limits(c.from);
	copy_sessions(&c);
	copy_templates(&c);
	store_close(c.from);
	store_close(c.to);
	tables = compare(one.path, two.path);
	CHECK(tables > 20 + EMPTY && tables == compare(two.path, one.path));
	remove_place(&one);
	remove_place(&two);
}

TEST_MAIN({ "a database of schema 39 is taken over", schema_39_is_taken_over },
	  { "rows of all tables are read as they were written", rows_are_read_as_written })
