#include "store_build.h"

#include "stmt_rows.h"
#include "store_layer.h"

/* Values and columns come in the order of BUILD_COLUMNS in sql.c. */

int store_build_insert(struct store *s, const struct store_build *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->template_id);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->status);
	stmt_text(&q, row->step);
	stmt_u64(&q, row->cpu_millis);
	stmt_u64(&q, row->memory_bytes);
	stmt_u64(&q, row->created_ms);
	stmt_u64(&q, row->updated_ms);
	stmt_u64(&q, row->finished_ms);
	stmt_text(&q, row->version);
	stmt_text(&q, row->tags);
	stmt_text(&q, row->reason);
	stmt_u64(&q, row->log_bytes);
	return stmt_run(&q, true, "build", row->id, e);
}

int store_build_update(struct store *s, const struct store_build *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UPDATE);
	stmt_u64(&q, row->status);
	stmt_text(&q, row->step);
	stmt_text(&q, row->reason);
	stmt_text(&q, row->version);
	stmt_u64(&q, row->updated_ms);
	stmt_u64(&q, row->finished_ms);
	stmt_u64(&q, row->log_bytes);
	stmt_text(&q, row->id);
	return stmt_run(&q, true, "build", row->id, e);
}

static void read_row(struct stmt *q, struct store_build *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->template_id, sizeof(ret->template_id));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->status = stmt_get_u32(q);
	stmt_copy_text(q, ret->step, sizeof(ret->step));
	ret->cpu_millis = stmt_get_u64(q);
	ret->memory_bytes = stmt_get_u64(q);
	ret->created_ms = stmt_get_u64(q);
	ret->updated_ms = stmt_get_u64(q);
	ret->finished_ms = stmt_get_u64(q);
	stmt_copy_text(q, ret->version, sizeof(ret->version));
	ret->tags = stmt_get_text(q);
	ret->reason = stmt_get_text(q);
	ret->log_bytes = stmt_get_u64(q);
	ret->owned = NULL;
}

static int own_row(struct store_build *row, struct err *e)
{
	const char **const texts[] = { &row->tags, &row->reason };
	const void *none = "";

	return stmt_own(texts, COUNT(texts), &none, 0, &row->owned, e);
}

STMT_ROWS_GET(store_build, "build")
STMT_ROWS_EACH(store_build, "builds")

void store_build_release(struct store_build *row)
{
	free(row->owned);
	row->owned = NULL;
}

static int get_by(struct store *s, enum sql sql, const char *value, struct store_build *ret,
		  struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, value);
	return get_row(&q, value, ret, e);
}

int store_build_get(struct store *s, const char *id, struct store_build *ret, struct err *e)
{
	return get_by(s, SQL_BUILD_GET, id, ret, e);
}

int store_build_by_template(struct store *s, const char *template_id, struct store_build *ret,
			    struct err *e)
{
	return get_by(s, SQL_BUILD_BY_TEMPLATE, template_id, ret, e);
}

int store_build_by_version(struct store *s, const char *version, struct store_build *ret,
			   struct err *e)
{
	return get_by(s, SQL_BUILD_BY_VERSION, version, ret, e);
}

int store_build_by_name(struct store *s, const char *tenant, const char *name,
			struct store_build *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_BY_NAME);
	stmt_text(&q, tenant);
	stmt_text(&q, name);
	return get_row(&q, name, ret, e);
}

int store_build_list(struct store *s, const char *template_id, unsigned limit, unsigned skip,
		     store_build_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_LIST);
	stmt_text(&q, template_id);
	stmt_limit(&q, limit);
	stmt_u64(&q, skip);
	return each_row(&q, fn, cookie, e);
}

int store_build_templates(struct store *s, const char *tenant, store_build_fn *fn, void *cookie,
			  struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_TEMPLATES);
	stmt_text(&q, tenant);
	return each_row(&q, fn, cookie, e);
}

static int read_number(struct stmt *q, const char *what, uint64_t *ret, struct err *e)
{
	int got = stmt_step(q, "builds", what, e);

	if (got > 0)
		*ret = stmt_get_u64(q);
	stmt_close(q);
	return got > 0 ? 0 : -1;
}

int store_build_count(struct store *s, const char *tenant, uint32_t status, uint64_t *ret,
		      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_COUNT);
	stmt_text(&q, tenant);
	stmt_u64(&q, status);
	return read_number(&q, tenant, ret, e);
}

int store_build_count_of(struct store *s, const char *template_id, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_COUNT_OF);
	stmt_text(&q, template_id);
	return read_number(&q, template_id, ret, e);
}

int store_build_names(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_NAMES);
	stmt_text(&q, tenant);
	return read_number(&q, tenant, ret, e);
}

int store_build_give_up(struct store *s, uint32_t from, uint32_t to, const char *reason,
			uint64_t now_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_GIVE_UP);
	stmt_u64(&q, to);
	stmt_text(&q, reason);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, from);
	return stmt_run(&q, false, "builds", "", e);
}

int store_build_expire(struct store *s, uint32_t from, uint32_t to, const char *reason,
		       uint64_t before_ms, uint64_t now_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_EXPIRE);
	stmt_u64(&q, to);
	stmt_text(&q, reason);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, from);
	stmt_u64(&q, before_ms);
	return stmt_run(&q, false, "builds", "", e);
}

int store_build_settle(struct store *s, uint32_t from, uint32_t to, uint64_t now_ms, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_SETTLE);
	stmt_u64(&q, to);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, now_ms);
	stmt_u64(&q, from);
	if (stmt_run(&q, false, "builds", "", e) < 0)
		return -1;
	stmt_open(&q, s, SQL_BUILD_UNUSE);
	stmt_u64(&q, STORE_LAYER_OF_BUILD);
	return stmt_run(&q, false, "builds", "", e);
}

int store_build_any(struct store *s, const char *tenant, struct store_build *ret, struct err *e)
{
	return get_by(s, SQL_BUILD_ANY, tenant, ret, e);
}

int store_build_unmade(struct store *s, const char *tenant, const uint32_t open[2], unsigned limit,
		       store_build_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_UNMADE);
	stmt_text(&q, tenant);
	stmt_u64(&q, open[0]);
	stmt_u64(&q, open[1]);
	stmt_u64(&q, limit);
	return each_row(&q, fn, cookie, e);
}

static int run_on(struct store *s, enum sql sql, const char *value, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, value);
	return stmt_run(&q, false, "build", value, e);
}

int store_build_delete_template(struct store *s, const char *template_id, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || run_on(s, SQL_BUILD_GONE_LOGS, template_id, e) < 0 ||
	    run_on(s, SQL_BUILD_GONE_UPLOADS, template_id, e) < 0 ||
	    run_on(s, SQL_BUILD_DELETE_TEMPLATE, template_id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

static int prune(struct store *s, enum sql sql, const char *template_id, unsigned keep,
		 struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, template_id);
	stmt_text(&q, template_id);
	stmt_u64(&q, keep);
	return stmt_run(&q, false, "build", template_id, e);
}

int store_build_prune(struct store *s, const char *template_id, unsigned keep, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || prune(s, SQL_BUILD_GONE_OLD, template_id, keep, e) < 0 ||
	    prune(s, SQL_BUILD_PRUNE, template_id, keep, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

/* ---- logs */

int store_build_log_add(struct store *s, const char *build, const struct store_build_entry *row,
			struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_LOG_ADD);
	stmt_text(&q, build);
	stmt_u64(&q, row->seq);
	stmt_u64(&q, row->time_ms);
	stmt_u64(&q, row->level);
	stmt_text(&q, row->step);
	stmt_text(&q, row->message);
	return stmt_run(&q, true, "log of build", build, e);
}

int store_build_log_list(struct store *s, const char *build, const struct store_build_part *part,
			 store_build_entry_fn *fn, void *cookie, struct err *e)
{
	struct store_build_entry row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_LOG_LIST);
	stmt_text(&q, build);
	stmt_u64(&q, part->level);
	stmt_text(&q, part->step);
	stmt_text(&q, part->step);
	stmt_limit(&q, part->limit);
	stmt_u64(&q, part->skip);
	while ((got = stmt_step(&q, "log of build", build, e)) > 0) {
		row.seq = stmt_get_u64(&q);
		row.time_ms = stmt_get_u64(&q);
		row.level = stmt_get_u32(&q);
		row.step = stmt_get_text(&q);
		row.message = stmt_get_text(&q);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_build_log_sum(struct store *s, const char *tenant, uint64_t *ret, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_LOG_SUM);
	stmt_text(&q, tenant);
	return read_number(&q, tenant, ret, e);
}

int store_build_log_drop(struct store *s, const char *tenant, struct err *e)
{
	char id[STORE_BUILD_ID_MAX];
	struct stmt q;
	bool own;
	int got;

	stmt_open(&q, s, SQL_BUILD_LOG_OLDEST);
	stmt_text(&q, tenant);
	got = stmt_step(&q, "log of a build of", tenant, e);
	if (got > 0)
		stmt_copy_text(&q, id, sizeof(id));
	else if (got == 0)
		(void)err_set(e, ERR_NOT_FOUND, "no build of %s has a log", tenant);
	stmt_close(&q);
	if (got <= 0 || store_join(s, &own, e) < 0 || run_on(s, SQL_BUILD_GONE_LOG, id, e) < 0 ||
	    run_on(s, SQL_BUILD_LOG_NONE, id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_build_log_remove(struct store *s, const char *build, unsigned n, bool *ret_more,
			   struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_LOG_REMOVE);
	stmt_text(&q, build);
	stmt_text(&q, build);
	stmt_u64(&q, n);
	if (stmt_run(&q, false, "log of build", build, e) < 0)
		return -1;
	stmt_open(&q, s, SQL_BUILD_LOG_ANY);
	stmt_text(&q, build);
	got = stmt_step(&q, "log of build", build, e);
	stmt_close(&q);
	*ret_more = got > 0;
	return got < 0 ? -1 : 0;
}

/* ---- what is gone */

int store_build_gone_any(struct store *s, struct store_build_gone *ret, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_BUILD_GONE_ANY);
	got = stmt_step(&q, "builds that are gone", "", e);
	if (got > 0) {
		ret->kind = stmt_get_u32(&q);
		stmt_copy_text(&q, ret->tenant, sizeof(ret->tenant));
		stmt_copy_text(&q, ret->id, sizeof(ret->id));
	} else if (got == 0) {
		(void)err_set(e, ERR_NOT_FOUND, "no build is gone");
	}
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

int store_build_gone_delete(struct store *s, const struct store_build_gone *g, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_BUILD_GONE_DELETE);
	stmt_u64(&q, g->kind);
	stmt_text(&q, g->tenant);
	stmt_text(&q, g->id);
	return stmt_run(&q, true, "build that is gone", g->id, e);
}
