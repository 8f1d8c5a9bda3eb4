/* store_build.c - see store_build.h. */
#include "daemon/store/store_build.h"

#include "daemon/store/stmt.h"
#include "daemon/store/store_layer.h"
#include "lib/base/str.h"

enum { CHANGES = COLUMN_GROUP }; /* store_build_update() writes it */

#define ROW struct store_build
static const struct column build_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(template_id, "template_id", 0),
	COLUMN(name, "name", 0),
	COLUMN(status, "status", CHANGES),
	COLUMN(step, "step", CHANGES),
	COLUMN(cpu_millis, "cpu_millis", 0),
	COLUMN(memory_bytes, "memory_bytes", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(updated_ms, "updated_ms", CHANGES),
	COLUMN(finished_ms, "finished_ms", CHANGES),
	COLUMN(version, "version", CHANGES),
	COLUMN(tags, "tags", 0),
	COLUMN(reason, "reason", CHANGES),
	COLUMN(log_bytes, "log_bytes", CHANGES),
};
static const struct table build_table = TABLE_OWNED("build", build_columns);
#undef ROW

#define ROW struct store_build_entry
static const struct column entry_columns[] = {
	COLUMN(seq, "seq", 0),
	COLUMN(time_ms, "time_ms", 0),
	COLUMN(level, "level", 0),
	/* for display */
	COLUMN(step, "step", 0),
	COLUMN(message, "message", 0),
};
static const struct table entry_table = TABLE("build_log", entry_columns);
#undef ROW

#define ROW struct store_build_gone
static const struct column gone_columns[] = {
	COLUMN(kind, "kind", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(id, "id", 0),
};
static const struct table gone_table = TABLE("build_gone", gone_columns);
#undef ROW

#define ROW struct store_build_cached
static const struct column cached_columns[] = {
	COLUMN(tenant, "tenant", 0),
	COLUMN(key, "key", 0),
	/* the result of the step */
	COLUMN(layer, "layer", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(used_ms, "used_ms", 0),
	COLUMN(user, "user", 0),
	COLUMN(workdir, "workdir", 0),
	COLUMN_BLOB(env, env_len, "env", 0),
};
static const struct table cached_table = TABLE_OWNED("build_cache", cached_columns);
#undef ROW

#define ROW struct store_build_share
static const struct column share_columns[] = {
	COLUMN_READ_ONLY(tenant, "tenant"),
	COLUMN_READ_ONLY(bytes, "coalesce(sum(bytes), 0)"),
	COLUMN_READ_ONLY(rows, "count(*)"),
};
static const struct table share_table = TABLE("build_cache", share_columns);
#undef ROW

#define ROW struct store_build_upload
static const struct column upload_columns[] = {
	COLUMN(tenant, "tenant", 0),
	COLUMN(template_id, "template_id", 0),
	COLUMN(hash, "hash", 0),
	/* the archive */
	COLUMN(digest, "digest", 0),
	COLUMN(file, "file", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(used_ms, "used_ms", 0),
};
static const struct table upload_table = TABLE("build_upload", upload_columns);
#undef ROW

ROWS_EACH(build_each, store_build)
ROWS_EACH(build_each_entry, store_build_entry)
ROWS_EACH(build_each_upload, store_build_upload)

#define BUILD_GONE "INSERT OR IGNORE INTO build_gone (kind, tenant, id) "

/* The tenant ?1's names with builds: one step in the index for each name, however many builds the
 * name has. */
#define BUILD_NAMES                                                                      \
	"WITH RECURSIVE names(n) AS (SELECT min(name) FROM build WHERE tenant = ?1"      \
	" UNION ALL SELECT (SELECT min(name) FROM build WHERE tenant = ?1 AND name > n)" \
	" FROM names WHERE n IS NOT NULL) "
/* The newest build of each name. */
#define BUILD_NEWEST                                                        \
	BUILD_NAMES "SELECT @ FROM names JOIN build ON id ="                \
		    " (SELECT id FROM build WHERE tenant = ?1 AND name = n" \
		    " ORDER BY created_ms DESC, id LIMIT 1) WHERE n IS NOT NULL"

/* The template ?1's ended builds whose version does not exist, except the ?2 newest. */
#define BUILD_OLD                                                         \
	"SELECT id FROM build WHERE template_id = ?1 AND finished_ms > 0" \
	" AND version NOT IN (SELECT id FROM template) AND id NOT IN"     \
	" (SELECT id FROM build WHERE template_id = ?1 ORDER BY created_ms DESC LIMIT ?2)"

int store_build_insert(struct store *s, const struct store_build *row, struct err *e)
{
	return row_insert(s, build_table, row, row->id, e);
}

int store_build_update(struct store *s, const struct store_build *row, struct err *e)
{
	return row_update(s, build_table, CHANGES, row, row->id, e);
}

void store_build_release(struct store_build *row)
{
	row_release(&build_table, row);
}

int store_build_get(struct store *s, const char *id, struct store_build *ret, struct err *e)
{
	return row_get(s, build_table, "FROM build WHERE id = ?", IN(id), id, ret, e);
}

int store_build_by_template(struct store *s, const char *template_id, struct store_build *ret,
			    struct err *e)
{
	return row_get(s, build_table,
		       "FROM build WHERE template_id = ? ORDER BY created_ms DESC, id LIMIT 1",
		       IN(template_id), template_id, ret, e);
}

int store_build_by_version(struct store *s, const char *version, struct store_build *ret,
			   struct err *e)
{
	return row_get(s, build_table, "FROM build WHERE version = ? LIMIT 1", IN(version), version,
		       ret, e);
}

int store_build_by_name(struct store *s, const char *tenant, const char *name,
			struct store_build *ret, struct err *e)
{
	return row_get(
		s, build_table,
		"FROM build WHERE tenant = ? AND name = ? ORDER BY created_ms DESC, id LIMIT 1",
		IN(tenant, name), name, ret, e);
}

int store_build_any(struct store *s, const char *tenant, struct store_build *ret, struct err *e)
{
	return row_get(s, build_table, "FROM build WHERE tenant = ? LIMIT 1", IN(tenant), tenant,
		       ret, e);
}

int store_build_list(struct store *s, const char *template_id, unsigned limit, unsigned skip,
		     store_build_fn *fn, void *cookie, struct err *e)
{
	return build_each(s,
			  READ(build_table, "FROM build WHERE template_id = ?"
					    " ORDER BY created_ms DESC, id LIMIT ? OFFSET ?"),
			  IN(template_id, value_limit(limit), skip), fn, cookie, e);
}

int store_build_templates(struct store *s, const char *tenant, const char *after, unsigned limit,
			  store_build_fn *fn, void *cookie, struct err *e)
{
	return build_each(s, READ_AS(build_table, BUILD_NEWEST " AND n > ?2 ORDER BY n LIMIT ?3"),
			  IN(tenant, after, value_limit(limit)), fn, cookie, e);
}

int store_build_unmade(struct store *s, const char *tenant, const uint32_t open[2], unsigned limit,
		       store_build_fn *fn, void *cookie, struct err *e)
{
	return build_each(s,
			  READ_AS(build_table, BUILD_NEWEST
				  " AND template_id NOT IN (SELECT template_id FROM build"
				  " WHERE tenant = ?1 AND status IN (?2, ?3)) AND NOT EXISTS"
				  " (SELECT 1 FROM template"
				  " WHERE template.template_id = build.template_id)"
				  " ORDER BY created_ms LIMIT ?4"),
			  IN(tenant, open[0], open[1], limit), fn, cookie, e);
}

int store_build_count(struct store *s, const char *tenant, uint32_t status, uint64_t *ret,
		      struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM build WHERE tenant = ? AND status = ?",
			   IN(tenant, status), tenant, ret, e);
}

int store_build_count_of(struct store *s, const char *template_id, uint64_t *ret, struct err *e)
{
	return stmt_number(s, "SELECT count(*) FROM build WHERE template_id = ?", IN(template_id),
			   template_id, ret, e);
}

int store_build_names(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(s, BUILD_NAMES "SELECT count(*) FROM names WHERE n IS NOT NULL",
			   IN(tenant), tenant, ret, e);
}

int store_build_give_up(struct store *s, uint32_t from, uint32_t to, const char *reason,
			uint64_t now_ms, struct err *e)
{
	return stmt_run(s,
			"UPDATE build SET status = ?1, reason = ?2, updated_ms = ?3,"
			" finished_ms = ?3, log_bytes = min(log_bytes, 65536) WHERE status = ?4",
			IN(to, reason, now_ms, from), "", e);
}

int store_build_expire(struct store *s, uint32_t from, uint32_t to, const char *reason,
		       uint64_t before_ms, uint64_t now_ms, struct err *e)
{
	return stmt_run(s,
			"UPDATE build SET status = ?1, reason = ?2, updated_ms = ?3,"
			" finished_ms = ?3 WHERE status = ?4 AND created_ms < ?5",
			IN(to, reason, now_ms, from, before_ms), "", e);
}

int store_build_settle(struct store *s, uint32_t from, uint32_t to, uint64_t now_ms, struct err *e)
{
	if (stmt_run(s,
		     "UPDATE build SET status = ?1, updated_ms = ?2, finished_ms = ?2,"
		     " log_bytes = min(log_bytes, 65536) WHERE status = ?3"
		     " AND version IN (SELECT id FROM template)",
		     IN(to, now_ms, from), "", e) < 0)
		return -1;
	/* The sweep at the start makes layers without a use dying. */
	return stmt_run(s, "DELETE FROM layer_use WHERE owner_kind = ?", IN(STORE_LAYER_OF_BUILD),
			"", e);
}

int store_build_delete_template(struct store *s, const char *template_id, struct err *e)
{
	const struct value *in = IN(template_id);
	bool own;

	if (store_join(s, &own, e) < 0 ||
	    stmt_run(s, BUILD_GONE "SELECT 0, tenant, id FROM build WHERE template_id = ?", in,
		     template_id, e) < 0 ||
	    stmt_run(s,
		     BUILD_GONE
		     "SELECT 1, tenant, template_id FROM build WHERE template_id = ? LIMIT 1",
		     in, template_id, e) < 0 ||
	    stmt_run(s, "DELETE FROM build WHERE template_id = ?", in, template_id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_build_prune(struct store *s, const char *template_id, unsigned keep, struct err *e)
{
	const struct value *in = IN(template_id, keep);
	bool own;

	if (store_join(s, &own, e) < 0 ||
	    stmt_run(s, BUILD_GONE "SELECT 0, tenant, id FROM build WHERE id IN (" BUILD_OLD ")",
		     in, template_id, e) < 0 ||
	    stmt_run(s, "DELETE FROM build WHERE id IN (" BUILD_OLD ")", in, template_id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

/* ---- logs */

int store_build_log_add(struct store *s, const char *build, const struct store_build_entry *row,
			struct err *e)
{
	return row_add(s, entry_table, "INSERT INTO build_log (build, @) VALUES (?, @{?})",
		       IN(build), row, build, e);
}

int store_build_log_list(struct store *s, const char *build, const struct store_build_part *part,
			 store_build_entry_fn *fn, void *cookie, struct err *e)
{
	return build_each_entry(
		s,
		READ(entry_table, "FROM build_log WHERE build = ?1 AND level >= ?2"
				  " AND (?3 = '' OR step = ?3) ORDER BY seq LIMIT ?4 OFFSET ?5"),
		IN(build, part->level, part->step, value_limit(part->limit), part->skip), fn,
		cookie, e);
}

int store_build_log_sum(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	return stmt_number(
		s,
		"SELECT coalesce(sum(log_bytes), 0) FROM build WHERE tenant = ? AND log_bytes > 0",
		IN(tenant), tenant, ret, e);
}

int store_build_log_drop(struct store *s, const char *tenant, struct err *e)
{
	char id[STORE_ID_MAX];
	bool own;

	if (stmt_id(s,
		    "SELECT id FROM build WHERE tenant = ? AND log_bytes > 0"
		    " AND finished_ms > 0 ORDER BY finished_ms LIMIT 1",
		    IN(tenant), tenant, id, e) < 0 ||
	    store_join(s, &own, e) < 0 ||
	    stmt_run(s, BUILD_GONE "SELECT 0, tenant, id FROM build WHERE id = ?", IN(id), id, e) <
		    0 ||
	    stmt_run(s, "UPDATE build SET log_bytes = 0 WHERE id = ?", IN(id), id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_build_log_remove(struct store *s, const char *build, unsigned n, bool *ret_more,
			   struct err *e)
{
	int more;

	if (stmt_run(s,
		     "DELETE FROM build_log WHERE build = ?1 AND seq IN (SELECT seq"
		     " FROM build_log WHERE build = ?1 LIMIT ?2)",
		     IN(build, n), build, e) < 0)
		return -1;
	more = stmt_exists(s, "SELECT 1 FROM build_log WHERE build = ? LIMIT 1", IN(build), build,
			   e);
	*ret_more = more > 0;
	return more < 0 ? -1 : 0;
}

/* ---- removals */

int store_build_gone_any(struct store *s, struct store_build_gone *ret, struct err *e)
{
	return row_get(s, gone_table, "FROM build_gone LIMIT 1", IN_NONE, "", ret, e);
}

int store_build_gone_delete(struct store *s, const struct store_build_gone *g, struct err *e)
{
	return stmt_change(s, "DELETE FROM build_gone WHERE kind = ? AND tenant = ? AND id = ?",
			   IN(g->kind, g->tenant, g->id), g->id, e);
}

/* ---- the cache */

int store_build_cache_put(struct store *s, const struct store_build_cached *row, struct err *e)
{
	return row_add(s, cached_table, "INSERT OR REPLACE INTO build_cache (@) VALUES (@{?})",
		       IN_NONE, row, row->key, e);
}

int store_build_cache_get(struct store *s, const char *tenant, const char *key,
			  struct store_build_cached *ret, struct err *e)
{
	return row_get(s, cached_table, "FROM build_cache WHERE tenant = ? AND key = ?",
		       IN(tenant, key), key, ret, e);
}

void store_build_cache_release(struct store_build_cached *row)
{
	row_release(&cached_table, row);
}

int store_build_cache_oldest(struct store *s, const char *tenant, bool idle,
			     struct store_build_cached *ret, struct err *e)
{
	const struct sql *sql =
		idle ? READ(cached_table, "FROM build_cache WHERE tenant = ?"
					  " AND layer <> '' AND (SELECT count(*)"
					  " FROM layer_use WHERE layer_use.layer ="
					  " build_cache.layer) < 2 ORDER BY used_ms LIMIT 1")
		     : READ(cached_table,
			    "FROM build_cache WHERE tenant = ? ORDER BY used_ms LIMIT 1");

	return row_get_sql(s, sql, IN(tenant), tenant, ret, e);
}

int store_build_cache_touch(struct store *s, const char *tenant, const char *key, uint64_t now_ms,
			    struct err *e)
{
	return stmt_run(s, "UPDATE build_cache SET used_ms = ? WHERE tenant = ? AND key = ?",
			IN(now_ms, tenant, key), key, e);
}

int store_build_cache_clear(struct store *s, const char *tenant, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 ||
	    stmt_run(s,
		     "DELETE FROM layer_use WHERE owner_kind = ?1 AND owner IN"
		     " (SELECT tenant || ':' || key FROM build_cache WHERE tenant = ?2)",
		     IN(STORE_LAYER_OF_CACHE, tenant), tenant, e) < 0 ||
	    store_layer_hand_over_all(s, tenant, e) < 0 ||
	    stmt_run(s, "DELETE FROM build_cache WHERE tenant = ?", IN(tenant), tenant, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_build_cache_delete(struct store *s, const char *tenant, const char *key, struct err *e)
{
	return stmt_change(s, "DELETE FROM build_cache WHERE tenant = ? AND key = ?",
			   IN(tenant, key), key, e);
}

int store_build_cache_share(struct store *s, const char *tenant, struct store_build_share *ret,
			    struct err *e)
{
	*ret = (struct store_build_share){ 0 };
	str_copy(ret->tenant, tenant);
	return stmt_numbers(
		s, "SELECT coalesce(sum(bytes), 0), count(*) FROM build_cache WHERE tenant = ?",
		IN(tenant), tenant, &ret->bytes, &ret->rows, e);
}

int store_build_cache_most(struct store *s, bool by_bytes, struct store_build_share *ret,
			   struct err *e)
{
	const struct sql *sql =
		by_bytes ? READ(share_table,
				"FROM build_cache GROUP BY tenant ORDER BY sum(bytes) DESC LIMIT 1")
			 : READ(share_table,
				"FROM build_cache GROUP BY tenant ORDER BY count(*) DESC LIMIT 1");

	return row_get_sql(s, sql, IN_NONE, "all tenants", ret, e);
}

int store_build_cache_sum(struct store *s, uint64_t *ret_bytes, uint64_t *ret_rows, struct err *e)
{
	return stmt_numbers(s, "SELECT coalesce(sum(bytes), 0), count(*) FROM build_cache", IN_NONE,
			    "", ret_bytes, ret_rows, e);
}

/* ---- uploads */

int store_build_upload_put(struct store *s, const struct store_build_upload *row, struct err *e)
{
	return row_add(s, upload_table, "INSERT OR REPLACE INTO build_upload (@) VALUES (@{?})",
		       IN_NONE, row, row->hash, e);
}

int store_build_upload_get(struct store *s, const char *tenant, const char *template_id,
			   const char *hash, struct store_build_upload *ret, struct err *e)
{
	return row_get(s, upload_table,
		       "FROM build_upload WHERE tenant = ? AND template_id = ? AND hash = ?",
		       IN(tenant, template_id, hash), hash, ret, e);
}

int store_build_upload_oldest(struct store *s, const char *tenant, struct store_build_upload *ret,
			      struct err *e)
{
	return row_get(s, upload_table,
		       "FROM build_upload WHERE tenant = ? ORDER BY used_ms LIMIT 1", IN(tenant),
		       tenant, ret, e);
}

int store_build_upload_delete(struct store *s, const char *file, struct err *e)
{
	return stmt_run(s, "DELETE FROM build_upload WHERE file = ?", IN(file), file, e);
}

int store_build_upload_each(struct store *s, store_build_upload_fn *fn, void *cookie, struct err *e)
{
	return build_each_upload(s, READ(upload_table, "FROM build_upload ORDER BY used_ms"),
				 IN_NONE, fn, cookie, e);
}

int store_build_upload_of(struct store *s, const char *tenant, const char *template_id,
			  store_build_upload_fn *fn, void *cookie, struct err *e)
{
	return build_each_upload(
		s, READ(upload_table, "FROM build_upload WHERE tenant = ? AND template_id = ?"),
		IN(tenant, template_id), fn, cookie, e);
}

int store_build_upload_sum(struct store *s, const char *tenant, uint64_t *ret_bytes,
			   uint64_t *ret_rows, struct err *e)
{
	return stmt_numbers(
		s, "SELECT coalesce(sum(bytes), 0), count(*) FROM build_upload WHERE tenant = ?",
		IN(tenant), tenant, ret_bytes, ret_rows, e);
}

int store_build_upload_has(struct store *s, const char *file, struct err *e)
{
	return stmt_exists(s, "SELECT 1 FROM build_upload WHERE file = ?", IN(file), file, e);
}
