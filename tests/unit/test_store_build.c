/* Goal: builds, their logs, the cache and uploads are kept for each tenant apart, and what a build
 * that died left is found again. */
#include "daemon/store/store_build.h"

#include "store_support.h"

enum { WAITING, BUILDING, READY, FAILED };

static struct store_build a_build(const char *id, const char *tenant, const char *template,
				  uint32_t status, uint64_t created)
{
	struct store_build row = {
		.status = status, .created_ms = created, .tags = "default\n", .reason = ""
	};

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.template_id, sizeof(row.template_id), "%s", template);
	(void)snprintf(row.name, sizeof(row.name), "n-%s", template);
	return row;
}

static void add(struct store *s, struct store_build row)
{
	struct err e;

	MUST(store_build_insert(s, &row, &e));
}

static void a_build_that_died_is_an_error(void)
{
	struct store *s = new_store();
	struct store_build got;
	uint64_t n = 9;
	struct err e;

	add(s, a_build("b1", "ten_a", "t1", BUILDING, 1));
	add(s, a_build("b2", "ten_a", "t1", WAITING, 2));
	add(s, a_build("b3", "ten_a", "t1", READY, 3));
	MUST(store_build_give_up(s, BUILDING, FAILED, "the server ended", 7, &e));
	MUST(store_build_get(s, "b1", &got, &e));
	CHECK(got.status == FAILED && got.finished_ms == 7);
	CHECK_STR(got.reason, "the server ended");
	store_build_release(&got);
	MUST(store_build_count(s, "ten_a", WAITING, &n, &e));
	CHECK(n == 1);
	MUST(store_build_expire(s, WAITING, FAILED, "late", 2, 9, &e));
	MUST(store_build_count(s, "ten_a", WAITING, &n, &e));
	CHECK(n == 1);
	MUST(store_build_expire(s, WAITING, FAILED, "late", 3, 9, &e));
	MUST(store_build_count(s, "ten_a", WAITING, &n, &e));
	CHECK(n == 0);
	MUST(store_build_by_name(s, "ten_a", "n-t1", &got, &e));
	CHECK_STR(got.id, "b3");
	store_build_release(&got);
	CHECK(store_build_by_name(s, "ten_b", "n-t1", &got, &e) < 0 && e.code == ERR_NOT_FOUND);
	store_close(s);
}

static int count_entry(const struct store_build_entry *row, void *cookie)
{
	unsigned *n = cookie;

	(*n)++;
	return 0;
}

static unsigned entries(struct store *s, uint32_t level, const char *step, uint64_t skip)
{
	unsigned n = 0;
	struct err e;

	MUST(store_build_log_list(
		s, "b1",
		&(struct store_build_part){
			.level = level, .step = step, .skip = skip, .limit = 100 },
		count_entry, &n, &e));
	return n;
}

static void logs_are_counted_by_offset(void)
{
	struct store *s = new_store();
	struct err e;

	add(s, a_build("b1", "ten_a", "t1", BUILDING, 1));
	for (unsigned i = 0; i < 5; i++)
		MUST(store_build_log_add(s, "b1",
					 &(struct store_build_entry){ .seq = i,
								      .level = i % 2,
								      .step = i < 3 ? "1" : "2",
								      .message = "x" },
					 &e));
	CHECK(entries(s, 0, "", 0) == 5);
	CHECK(entries(s, 0, "", 3) == 2);
	CHECK(entries(s, 1, "", 0) == 2);
	CHECK(entries(s, 1, "", 1) == 1);
	CHECK(entries(s, 0, "2", 0) == 2);
	MUST(store_build_delete_template(s, "t1", &e));
	store_close(s);
}

static void logs_go_in_pieces(void)
{
	const struct store_build_entry entry = { .step = "1", .message = "x" };
	struct store_build_entry at = entry;
	struct store *s = new_store();
	struct store_build row = a_build("b1", "ten_a", "t1", FAILED, 1);
	struct store_build_gone g;
	uint64_t sum = 0;
	bool more = false;
	struct err e;

	row.log_bytes = 100;
	row.finished_ms = 1;
	add(s, row);
	for (at.seq = 0; at.seq < 5; at.seq++)
		MUST(store_build_log_add(s, "b1", &at, &e));
	row = a_build("b2", "ten_a", "t1", FAILED, 2);
	row.log_bytes = 10;
	row.finished_ms = 2;
	add(s, row);
	MUST(store_build_log_sum(s, "ten_a", &sum, &e));
	CHECK(sum == 110);
	CHECK(store_build_gone_any(s, &g, &e) < 0 && e.code == ERR_NOT_FOUND);
	MUST(store_build_log_drop(s, "ten_a", &e)); /* of the one that ended first */
	MUST(store_build_log_sum(s, "ten_a", &sum, &e));
	CHECK(sum == 10);
	MUST(store_build_gone_any(s, &g, &e));
	CHECK_STR(g.id, "b1");
	CHECK(g.kind == STORE_BUILD_GONE_LOG);
	MUST(store_build_log_remove(s, "b1", 3, &more, &e));
	CHECK(more && entries(s, 0, "", 0) == 2);
	MUST(store_build_log_remove(s, "b1", 3, &more, &e));
	CHECK(!more && entries(s, 0, "", 0) == 0);
	MUST(store_build_gone_delete(s, &g, &e));
	MUST(store_build_delete_template(s, "t1", &e));
	CHECK(store_build_log_drop(s, "ten_a", &e) < 0 && e.code == ERR_NOT_FOUND);
	for (unsigned n = 0; n < 3; n++) { /* two logs, and the archives of the template */
		MUST(store_build_gone_any(s, &g, &e));
		MUST(store_build_gone_delete(s, &g, &e));
	}
	CHECK(g.kind == STORE_BUILD_GONE_UPLOADS);
	CHECK_STR(g.id, "t1");
	CHECK(store_build_gone_any(s, &g, &e) < 0);
	store_close(s);
}

static int count_build(const struct store_build *row, void *cookie)
{
	unsigned *n = cookie;

	(*n)++;
	return 0;
}

static void old_builds_are_pruned(void)
{
	struct store *s = new_store();
	struct store_build row;
	char id[8];
	unsigned n = 0;
	struct err e;

	for (unsigned i = 0; i < 6; i++) {
		(void)snprintf(id, sizeof(id), "b%u", i);
		row = a_build(id, "ten_a", "t1", FAILED, i + 1);
		row.finished_ms = i == 0 ? 0 : 1; /* the first one still runs */
		add(s, row);
	}
	MUST(store_build_prune(s, "t1", 2, &e));
	MUST(store_build_list(s, "t1", 100, 0, count_build, &n, &e));
	CHECK(n == 3);
	store_close(s);
}

static int put_id(const struct store_build *row, void *cookie)
{
	(void)snprintf((char *)cookie + strlen(cookie), 64 - strlen(cookie), "%s ", row->id);
	return 0;
}

static void names_without_a_version_are_found(void)
{
	static const uint32_t open[] = { WAITING, BUILDING };
	struct store *s = new_store();
	char ids[64] = "";
	uint64_t n = 0;
	struct err e;

	MUST(store_build_names(s, "ten_a", &n, &e));
	CHECK(n == 0);
	add(s, a_build("b1", "ten_a", "t1", FAILED, 5));
	add(s, a_build("b2", "ten_a", "t1", FAILED, 6));
	add(s, a_build("b3", "ten_a", "t2", FAILED, 3));
	add(s, a_build("b4", "ten_a", "t3", FAILED, 1)); /* has another that waits */
	add(s, a_build("b5", "ten_a", "t3", WAITING, 2));
	add(s, a_build("b6", "ten_b", "t4", FAILED, 1));
	MUST(store_build_names(s, "ten_a", &n, &e));
	CHECK(n == 3);
	MUST(store_build_unmade(s, "ten_a", open, 9, put_id, ids, &e));
	CHECK_STR(ids, "b3 b2 ");
	ids[0] = '\0';
	MUST(store_build_unmade(s, "ten_a", open, 1, put_id, ids, &e));
	CHECK_STR(ids, "b3 ");
	ids[0] = '\0';
	MUST(store_build_templates(s, "ten_a", "", 100, put_id, ids, &e));
	CHECK_STR(ids, "b2 b3 b5 ");
	store_close(s);
}

static void tenants_have_their_own_cache_and_uploads(void)
{
	struct store_build_cached put = { .tenant = "ten_a",
					  .key = "k",
					  .layer = "lay_1",
					  .bytes = 5,
					  .used_ms = 2,
					  .user = "u",
					  .workdir = "/w",
					  .env = "A=b",
					  .env_len = 4 };
	struct store_build_upload up = { .tenant = "ten_a",
					 .template_id = "t1",
					 .hash = "h",
					 .digest = "d",
					 .file = "f1",
					 .bytes = 9 };
	struct store *s = new_store();
	struct store_build_cached got;
	struct store_build_share share;
	struct store_build_upload found;
	uint64_t bytes = 0, rows = 0;
	struct err e;

	MUST(store_build_cache_put(s, &put, &e));
	MUST(store_build_cache_get(s, "ten_a", "k", &got, &e));
	CHECK_STR(got.layer, "lay_1");
	CHECK_STR((const char *)got.env, "A=b");
	store_build_cache_release(&got);
	CHECK(store_build_cache_get(s, "ten_b", "k", &got, &e) < 0 && e.code == ERR_NOT_FOUND);
	MUST(store_build_cache_sum(s, &bytes, &rows, &e));
	CHECK(bytes == 5 && rows == 1);
	MUST(store_build_cache_oldest(s, "ten_a", false, &got, &e));
	store_build_cache_release(&got);
	put.bytes = 1;
	(void)snprintf(put.tenant, sizeof(put.tenant), "ten_b");
	for (unsigned i = 0; i < 3; i++) {
		(void)snprintf(put.key, sizeof(put.key), "k%u", i);
		MUST(store_build_cache_put(s, &put, &e));
	}
	MUST(store_build_cache_share(s, "ten_b", &share, &e));
	CHECK(share.bytes == 3 && share.rows == 3);
	CHECK_STR(share.tenant, "ten_b");
	MUST(store_build_cache_most(s, true, &share, &e));
	CHECK_STR(share.tenant, "ten_a");
	MUST(store_build_cache_most(s, false, &share, &e));
	CHECK_STR(share.tenant, "ten_b");
	MUST(store_build_cache_delete(s, "ten_a", "k", &e));

	MUST(store_build_upload_put(s, &up, &e));
	MUST(store_build_upload_get(s, "ten_a", "t1", "h", &found, &e));
	CHECK_STR(found.digest, "d");
	CHECK(store_build_upload_get(s, "ten_b", "t1", "h", &found, &e) < 0);
	CHECK(store_build_upload_get(s, "ten_a", "t2", "h", &found, &e) < 0);
	MUST(store_build_upload_sum(s, "ten_a", &bytes, &rows, &e));
	CHECK(bytes == 9 && rows == 1);
	CHECK(store_build_upload_has(s, "f1", &e) == 1 && store_build_upload_has(s, "f2", &e) == 0);
	MUST(store_build_upload_delete(s, "f1", &e));
	CHECK(store_build_upload_get(s, "ten_a", "t1", "h", &found, &e) < 0);
	store_close(s);
}

TEST_MAIN({ "a build that died is an error", a_build_that_died_is_an_error },
	  { "logs are counted by offset", logs_are_counted_by_offset },
	  { "logs go in pieces", logs_go_in_pieces },
	  { "old builds are pruned", old_builds_are_pruned },
	  { "names without a version are found", names_without_a_version_are_found },
	  { "tenants have their own cache and uploads", tenants_have_their_own_cache_and_uploads })
