#include "store_template.h"

#include "stmt.h"

/* Values and columns come in the order of TEMPLATE_COLUMNS in sql.c. */

static int next_version(struct store *s, const struct store_template *row, uint64_t *ret,
			struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_TEMPLATE_NEXT);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	got = stmt_step(&q, "template", row->name, e);
	if (got > 0)
		*ret = stmt_get_u64(&q);
	stmt_close(&q);
	return got > 0 ? 0 : -1;
}

static int retire_name(struct store *s, const struct store_template *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_RETIRE_NAME);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	return stmt_run(&q, false, "template", row->name, e);
}

static int insert(struct store *s, const struct store_template *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_INSERT);
	stmt_text(&q, row->id);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	stmt_u64(&q, row->version);
	stmt_u64(&q, row->current);
	stmt_u64(&q, row->kind);
	stmt_u64(&q, row->level);
	stmt_u64(&q, row->created_ms);
	stmt_text(&q, row->layers);
	stmt_text(&q, row->mounts);
	stmt_blob(&q, row->env, row->env_len);
	stmt_text(&q, row->user);
	stmt_text(&q, row->workdir);
	stmt_text(&q, row->start_command);
	stmt_text(&q, row->ready_command);
	stmt_text(&q, row->source);
	return stmt_run(&q, true, "template", row->name, e);
}

int store_template_insert(struct store *s, struct store_template *row, struct err *e)
{
	bool own;

	row->current = true;
	if (store_join(s, &own, e) < 0 || next_version(s, row, &row->version, e) < 0 ||
	    retire_name(s, row, e) < 0 || insert(s, row, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

static int change(struct store *s, enum sql sql, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, id);
	return stmt_run(&q, true, "template", id, e);
}

int store_template_retire(struct store *s, const char *id, struct err *e)
{
	return change(s, SQL_TEMPLATE_RETIRE, id, e);
}

int store_template_delete(struct store *s, const char *id, struct err *e)
{
	return change(s, SQL_TEMPLATE_DELETE, id, e);
}

static void read_row(struct stmt *q, struct store_template *ret)
{
	stmt_copy_text(q, ret->id, sizeof(ret->id));
	stmt_copy_text(q, ret->tenant, sizeof(ret->tenant));
	stmt_copy_text(q, ret->name, sizeof(ret->name));
	ret->version = stmt_get_u64(q);
	ret->current = stmt_get_bool(q);
	ret->kind = stmt_get_u32(q);
	ret->level = stmt_get_u32(q);
	ret->created_ms = stmt_get_u64(q);
	ret->layers = stmt_get_text(q);
	ret->mounts = stmt_get_text(q);
	ret->env = stmt_get_blob(q, &ret->env_len);
	ret->user = stmt_get_text(q);
	ret->workdir = stmt_get_text(q);
	ret->start_command = stmt_get_text(q);
	ret->ready_command = stmt_get_text(q);
	stmt_copy_text(q, ret->source, sizeof(ret->source));
	ret->owned = NULL;
}

int store_template_each(struct store *s, store_template_fn *fn, void *cookie, struct err *e)
{
	struct store_template row;
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_TEMPLATE_EACH);
	while ((got = stmt_step(&q, "templates", "", e)) > 0) {
		read_row(&q, &row);
		if (fn(&row, cookie) != 0)
			break;
	}
	stmt_close(&q);
	return got < 0 ? -1 : 0;
}

int store_template_own(struct store_template *row, struct err *e)
{
	const char **const texts[] = { &row->layers,  &row->mounts,	   &row->user,
				       &row->workdir, &row->start_command, &row->ready_command };

	for (size_t i = 0; i < COUNT(texts); i++)
		if (*texts[i] == NULL)
			*texts[i] = "";
	return stmt_own(texts, COUNT(texts), &row->env, row->env_len, &row->owned, e);
}

void store_template_release(struct store_template *row)
{
	free(row->owned);
	row->owned = NULL;
}
