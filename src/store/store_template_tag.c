#include "store_template_tag.h"

#include "stmt_rows.h"

int store_template_tag_set(struct store *s, const struct store_template_tag *row, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_TAG_SET);
	stmt_text(&q, row->template_id);
	stmt_text(&q, row->tag);
	stmt_text(&q, row->version);
	stmt_u64(&q, row->created_ms);
	return stmt_run(&q, true, "tag", row->tag, e);
}

int store_template_tag_delete(struct store *s, const char *template_id, const char *tag,
			      struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_TAG_DELETE);
	stmt_text(&q, template_id);
	stmt_text(&q, tag);
	return stmt_run(&q, true, "tag", tag, e);
}

int store_template_tag_clear(struct store *s, const char *template_id, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_TAG_CLEAR);
	stmt_text(&q, template_id);
	return stmt_run(&q, false, "tags of template", template_id, e);
}

static void read_row(struct stmt *q, struct store_template_tag *ret)
{
	stmt_copy_text(q, ret->template_id, sizeof(ret->template_id));
	stmt_copy_text(q, ret->tag, sizeof(ret->tag));
	stmt_copy_text(q, ret->version, sizeof(ret->version));
	ret->created_ms = stmt_get_u64(q);
}

STMT_ROWS_EACH(store_template_tag, "tags")

int store_template_tag_each(struct store *s, store_template_tag_fn *fn, void *cookie, struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, SQL_TEMPLATE_TAG_EACH);
	return each_row(&q, fn, cookie, e);
}
