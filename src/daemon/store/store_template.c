/* store_template.c - see store_template.h. */
#include "daemon/store/store_template.h"

#include <string.h>

#include "daemon/store/stmt.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define ROW struct store_template
static const struct column template_columns[] = {
	COLUMN(id, "id", 0),
	COLUMN(tenant, "tenant", 0),
	COLUMN(name, "name", 0),
	COLUMN(template_id, "template_id", 0),
	COLUMN(version, "version", 0),
	COLUMN(current, "current", 0),
	COLUMN(kind, "kind", 0),
	COLUMN(level, "level", 0),
	COLUMN(created_ms, "created_ms", 0),
	COLUMN(layers, "layers", 0),
	COLUMN(mounts, "mounts", 0),
	COLUMN_BLOB(env, env_len, "env", 0),
	COLUMN(user, "user", 0),
	COLUMN(workdir, "workdir", 0),
	COLUMN(start_command, "start_command", 0),
	COLUMN(ready_command, "ready_command", 0),
	COLUMN(start_restart, "start_restart", 0),
	COLUMN(interpreter, "interpreter", 0),
	COLUMN(source, "source", 0),
	COLUMN(public, "public", 0),
	COLUMN(bytes, "bytes", 0),
	COLUMN(provenance, "provenance", 0),
	COLUMN(offered_command, "offered_command", 0),
	COLUMN(cpu_millis, "cpu_millis", 0),
	COLUMN(memory_bytes, "memory_bytes", 0),
	COLUMN(expires_ms, "expires_ms", 0),
	COLUMN(memory_profile, "memory_profile", 0),
	COLUMN(memory_read_only, "memory_read_only", 0),
	COLUMN(payer, "payer", 0),
};
static const struct table template_table = TABLE_OWNED("template", template_columns);
#undef ROW

#define ROW struct store_template_tag
static const struct column tag_columns[] = {
	COLUMN(template_id, "template_id", 0),
	COLUMN(tag, "tag", 0),
	COLUMN(version, "version", 0),
	COLUMN(created_ms, "created_ms", 0),
};
static const struct table tag_table = TABLE("template_tag", tag_columns);
#undef ROW

ROWS_EACH(template_each, store_template)
ROWS_EACH(tag_each, store_template_tag)

/* Make an id of 20 characters, the form that E2B's clients know. */
static void template_make_id(char ret[STORE_TEMPLATE_ID_MAX])
{
	char first[RAND_ID_CHARS + 1];

	rand_id("", first, sizeof(first));
	first[STORE_TEMPLATE_ID_MAX - 1 - RAND_ID_CHARS] = '\0';
	rand_id(first, ret, STORE_TEMPLATE_ID_MAX);
}

/* Give the row the next version of its name, and the id of its template unless it has one. */
static int template_next_version(struct store *s, struct store_template *row, struct err *e)
{
	char known[STORE_TEMPLATE_ID_MAX] = "";
	struct stmt q;
	int got;

	stmt_open(&q, s,
		  SQL("SELECT coalesce(max(version), 0) + 1, coalesce(max(template_id), '')"
		      " FROM template WHERE tenant = ? AND name = ?"),
		  IN(row->tenant, row->name));
	got = stmt_step(&q, row->name, e);
	if (got > 0) {
		row->version = stmt_get_u64(&q);
		stmt_copy_text(&q, known, sizeof(known));
	}
	stmt_close(&q);
	if (row->template_id[0] == '\0')
		memcpy(row->template_id, known, sizeof(known));
	if (row->template_id[0] == '\0')
		template_make_id(row->template_id);
	return got > 0 ? 0 : -1;
}

static int template_retire_name(struct store *s, const struct store_template *row, struct err *e)
{
	return stmt_run(
		s, "UPDATE template SET current = 0 WHERE tenant = ? AND name = ? AND current = 1",
		IN(row->tenant, row->name), row->name, e);
}

static int template_set_tags(struct store *s, const struct store_template *row,
			     const char *const *tags, size_t ntags, struct err *e)
{
	for (size_t i = 0; i < ntags; i++) {
		struct store_template_tag tag = { .created_ms = row->created_ms };

		if (strcmp(tags[i], STORE_TAG_DEFAULT) == 0)
			continue;
		str_copy(tag.template_id, row->template_id);
		str_copy(tag.tag, tags[i]);
		str_copy(tag.version, row->id);
		if (store_template_tag_set(s, &tag, e) < 0)
			return -1;
	}
	return 0;
}

int store_template_insert_tagged(struct store *s, struct store_template *row,
				 const char *const *tags, size_t ntags, struct err *e)
{
	bool own;

	row->current = ntags == 0;
	for (size_t i = 0; i < ntags; i++)
		row->current = row->current || strcmp(tags[i], STORE_TAG_DEFAULT) == 0;
	if (store_join(s, &own, e) < 0 || template_next_version(s, row, e) < 0 ||
	    (row->current && template_retire_name(s, row, e) < 0) ||
	    row_insert(s, template_table, row, row->name, e) < 0 ||
	    template_set_tags(s, row, tags, ntags, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_template_insert(struct store *s, struct store_template *row, struct err *e)
{
	return store_template_insert_tagged(s, row, NULL, 0, e);
}

int store_template_make_current(struct store *s, const struct store_template *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || template_retire_name(s, row, e) < 0 ||
	    stmt_change(s, "UPDATE template SET current = 1 WHERE id = ?", IN(row->id), row->id,
			e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_template_set_public(struct store *s, const char *template_id, bool public, struct err *e)
{
	return stmt_change(s, "UPDATE template SET public = ? WHERE template_id = ?",
			   IN(public, template_id), template_id, e);
}

int store_template_retire(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s, "UPDATE template SET current = 0 WHERE id = ?", IN(id), id, e);
}

int store_template_set_payer(struct store *s, const char *id, const char *payer, struct err *e)
{
	return stmt_change(s, "UPDATE template SET payer = ? WHERE id = ?", IN(payer, id), id, e);
}

int store_template_delete(struct store *s, const char *id, struct err *e)
{
	return stmt_change(s,
			   "DELETE FROM template WHERE id = ? AND current = 0"
			   " AND NOT EXISTS (SELECT 1 FROM template_tag"
			   " WHERE version = template.id)",
			   IN(id), id, e);
}

int store_template_each(struct store *s, store_template_fn *fn, void *cookie, struct err *e)
{
	return template_each(s,
			     READ(template_table, "FROM template ORDER BY tenant, name, version"),
			     IN_NONE, fn, cookie, e);
}

size_t store_template_bytes(const struct store_template *row)
{
	return row_length(&template_table, row, COLUMN_READ);
}

int store_template_own(struct store_template *row, struct err *e)
{
	return row_own(&template_table, row, e);
}

void store_template_release(struct store_template *row)
{
	row_release(&template_table, row);
}

/* ---- tags */

int store_template_tag_set(struct store *s, const struct store_template_tag *row, struct err *e)
{
	return row_add(s, tag_table, "INSERT OR REPLACE INTO template_tag (@) VALUES (@{?})",
		       IN_NONE, row, row->tag, e);
}

int store_template_tag_delete(struct store *s, const char *template_id, const char *tag,
			      struct err *e)
{
	return stmt_change(s, "DELETE FROM template_tag WHERE template_id = ? AND tag = ?",
			   IN(template_id, tag), tag, e);
}

int store_template_tag_clear(struct store *s, const char *template_id, struct err *e)
{
	return stmt_run(s, "DELETE FROM template_tag WHERE template_id = ?", IN(template_id),
			template_id, e);
}

int store_template_tag_each(struct store *s, store_template_tag_fn *fn, void *cookie, struct err *e)
{
	return tag_each(s, READ(tag_table, "FROM template_tag ORDER BY template_id, tag"), IN_NONE,
			fn, cookie, e);
}
