#include "store_template.h"

#include <stdio.h>
#include <string.h>

#include "rand.h"
#include "stmt.h"
#include "store_template_tag.h"

/* Values and columns come in the order of TEMPLATE_COLUMNS in sql.c. */

/* 20 characters, as E2B's clients know the ids of templates. */
static void make_template_id(char ret[STORE_TEMPLATE_ID_MAX])
{
	char first[RAND_ID_CHARS + 1];

	rand_id("", first, sizeof(first));
	first[STORE_TEMPLATE_ID_MAX - 1 - RAND_ID_CHARS] = '\0';
	rand_id(first, ret, STORE_TEMPLATE_ID_MAX);
}

/* Also gives the row the id of its template, unless it has one. */
static int next_version(struct store *s, struct store_template *row, struct err *e)
{
	char known[STORE_TEMPLATE_ID_MAX] = "";
	struct stmt q;
	int got;

	stmt_open(&q, s, SQL_TEMPLATE_NEXT);
	stmt_text(&q, row->tenant);
	stmt_text(&q, row->name);
	got = stmt_step(&q, "template", row->name, e);
	if (got > 0) {
		row->version = stmt_get_u64(&q);
		stmt_copy_text(&q, known, sizeof(known));
	}
	stmt_close(&q);
	if (row->template_id[0] == '\0')
		memcpy(row->template_id, known, sizeof(known));
	if (row->template_id[0] == '\0')
		make_template_id(row->template_id);
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
	stmt_text(&q, row->template_id);
	stmt_u64(&q, row->public);
	stmt_u64(&q, row->bytes);
	stmt_text(&q, row->provenance);
	stmt_text(&q, row->offered_command);
	stmt_u64(&q, row->cpu_millis);
	stmt_u64(&q, row->memory_bytes);
	stmt_u64(&q, row->expires_ms);
	stmt_u64(&q, row->start_restart);
	stmt_u64(&q, row->interpreter);
	stmt_u64(&q, row->memory_profile);
	stmt_u64(&q, row->memory_read_only);
	return stmt_run(&q, true, "template", row->name, e);
}

static int set_tags(struct store *s, const struct store_template *row, const char *const *tags,
		    size_t ntags, struct err *e)
{
	for (size_t i = 0; i < ntags; i++) {
		struct store_template_tag tag = { .created_ms = row->created_ms };

		if (strcmp(tags[i], STORE_TAG_DEFAULT) == 0)
			continue;
		(void)snprintf(tag.template_id, sizeof(tag.template_id), "%s", row->template_id);
		(void)snprintf(tag.tag, sizeof(tag.tag), "%s", tags[i]);
		(void)snprintf(tag.version, sizeof(tag.version), "%s", row->id);
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
	if (store_join(s, &own, e) < 0 || next_version(s, row, e) < 0 ||
	    (row->current && retire_name(s, row, e) < 0) || insert(s, row, e) < 0 ||
	    set_tags(s, row, tags, ntags, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_template_insert(struct store *s, struct store_template *row, struct err *e)
{
	return store_template_insert_tagged(s, row, NULL, 0, e);
}

static int change(struct store *s, enum sql sql, const char *id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql);
	stmt_text(&q, id);
	return stmt_run(&q, true, "template", id, e);
}

int store_template_make_current(struct store *s, const struct store_template *row, struct err *e)
{
	bool own;

	if (store_join(s, &own, e) < 0 || retire_name(s, row, e) < 0 ||
	    change(s, SQL_TEMPLATE_CURRENT, row->id, e) < 0)
		return -1;
	return store_leave(s, own, e);
}

int store_template_set_public(struct store *s, const char *template_id, bool public, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_PUBLIC);
	stmt_u64(&q, public);
	stmt_text(&q, template_id);
	return stmt_run(&q, true, "template", template_id, e);
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
	stmt_copy_text(q, ret->template_id, sizeof(ret->template_id));
	ret->public = stmt_get_bool(q);
	ret->bytes = stmt_get_u64(q);
	ret->provenance = stmt_get_text(q);
	ret->offered_command = stmt_get_text(q);
	ret->cpu_millis = stmt_get_u64(q);
	ret->memory_bytes = stmt_get_u64(q);
	ret->expires_ms = stmt_get_u64(q);
	ret->start_restart = stmt_get_bool(q);
	ret->interpreter = stmt_get_bool(q);
	ret->memory_profile = stmt_get_u32(q);
	ret->memory_read_only = stmt_get_bool(q);
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

size_t store_template_bytes(const struct store_template *row)
{
	const char *const texts[] = { row->layers,     row->mounts,	    row->user,
				      row->workdir,    row->start_command,  row->ready_command,
				      row->provenance, row->offered_command };
	size_t n = row->env_len;

	for (size_t i = 0; i < COUNT(texts); i++)
		n += texts[i] == NULL ? 0 : strlen(texts[i]);
	return n;
}

int store_template_own(struct store_template *row, struct err *e)
{
	const char **const texts[] = { &row->layers,	 &row->mounts,	       &row->user,
				       &row->workdir,	 &row->start_command,  &row->ready_command,
				       &row->provenance, &row->offered_command };

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
