/* row.c - rows as tables of columns, and lists of rows: see stmt.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/stmt.h"
#include "daemon/store/store_records.h"
#include "lib/base/str.h"

/* ---- writing */

/* The bytes of a column of KIND_TEXT or KIND_BLOB. */
static const void *row_bytes(const struct column *c, const char *row, size_t *ret_len)
{
	const char *text;
	const void *bytes;

	if (c->kind == KIND_BLOB) {
		memcpy(&bytes, row + c->at, sizeof(bytes));
		memcpy(ret_len, row + c->second_at, sizeof(*ret_len));
		return bytes;
	}
	memcpy(&text, row + c->at, sizeof(text));
	*ret_len = text == NULL ? 0 : strlen(text);
	return text;
}

static struct value row_value(const struct table *t, const struct column *c, const char *row)
{
	const void *at = row + c->at;
	const void *bytes;
	size_t len;

	switch ((enum column_kind)c->kind) {
	case KIND_U64:
		return value_u64(*(const uint64_t *)at);
	case KIND_U32:
		return value_i64(*(const uint32_t *)at);
	case KIND_I32:
		return value_i64(*(const int32_t *)at);
	case KIND_BOOL:
		return value_i64(*(const bool *)at);
	case KIND_CHARS:
		return value_text(at);
	case KIND_BYTES:
		return value_blob(at, c->size);
	case KIND_TEXT:
		bytes = row_bytes(c, row, &len);
		return value_text(bytes);
	case KIND_BLOB:
		bytes = row_bytes(c, row, &len);
		return value_blob(bytes, len);
	case KIND_SIZE:
		return value_u64(row_size(t, row));
	case KIND_LIMITS:
		break;
	}
	return (struct value){ .kind = VALUE_NULL };
}

/* "limit|list", or "limit" if the list is empty or the limit itself. */
static void row_put_limits(struct stmt *q, const struct column *c, const char *row)
{
	const char *limit = row + c->at, *list = row + c->second_at;
	bool one = list[0] == '\0' || strcmp(limit, list) == 0;
	char text[128];
	struct value v = { .kind = VALUE_COPY, .bytes = text };

	(void)snprintf(text, sizeof(text), "%s%s%s", limit, one ? "" : "|", one ? "" : list);
	stmt_put(q, &v);
}

void row_put_sized(struct stmt *q, const void *row, size_t size)
{
	const struct table *t = q->sql->table;

	assert(size == t->size);
	for (unsigned i = 0; i < t->n; i++) {
		const struct column *c = &t->columns[i];
		struct value v;

		if ((c->sets & q->sql->columns) == 0)
			continue;
		if (c->kind == KIND_LIMITS) {
			row_put_limits(q, c, row);
			continue;
		}
		v = row_value(t, c, row);
		stmt_put(q, &v);
	}
}

int row_write_sized(struct store *s, const struct sql *sql, const struct value *before,
		    const void *row, size_t size, const struct value *after, const char *id,
		    struct err *e)
{
	struct stmt q;

	stmt_open(&q, s, sql, before);
	row_put_sized(&q, row, size);
	for (; after != NULL && after->kind != VALUE_END; after++)
		stmt_put(&q, after);
	return stmt_write_one(&q, id, e);
}

size_t row_length(const struct table *t, const void *row, unsigned sets)
{
	size_t sum = 0, len;

	for (unsigned i = 0; i < t->n; i++) {
		const struct column *c = &t->columns[i];

		if ((c->sets & sets) == 0 || (c->kind != KIND_TEXT && c->kind != KIND_BLOB))
			continue;
		(void)row_bytes(c, row, &len);
		sum += len;
	}
	return sum;
}

uint64_t row_size(const struct table *t, const void *row)
{
	return STORE_RECORD_BASE + row_length(t, row, COLUMN_COUNTED);
}

/* ---- reading */

static void row_set_pointer(const struct column *c, char *row, const void *bytes)
{
	const char *text = bytes;

	if (c->kind == KIND_BLOB)
		memcpy(row + c->at, &bytes, sizeof(bytes));
	else
		memcpy(row + c->at, &text, sizeof(text));
}

static void row_read_blob(struct stmt *q, const struct column *c, char *row)
{
	const void *blob = sqlite3_column_blob(q->st, q->next);
	size_t len = (size_t)sqlite3_column_bytes(q->st, q->next++);

	if (c->kind == KIND_BLOB) {
		row_set_pointer(c, row, blob);
		memcpy(row + c->second_at, &len, sizeof(len));
		return;
	}
	/* Zeros if the file was tampered with. */
	memset(row + c->at, 0, c->size);
	if (len == c->size && blob != NULL)
		memcpy(row + c->at, blob, len);
}

/* Not a limit: an execution ended by "killed" hit none. */
static void row_read_limits(const char *text, const struct column *c, char *row)
{
	size_t n = strcspn(text, "|");
	const char *list = text[n] == '|' ? text + n + 1 : strcmp(text, "killed") == 0 ? "" : text;

	str_copy_to(row + c->second_at, c->second_size, list);
	str_copy_to(row + c->at, n < c->size ? n + 1 : c->size, text);
}

static void row_read_column(struct stmt *q, const struct column *c, char *row)
{
	void *at = row + c->at;
	uint64_t number;

	switch ((enum column_kind)c->kind) {
	case KIND_U64:
		*(uint64_t *)at = stmt_get_u64(q);
		return;
	case KIND_U32:
		number = stmt_get_u64(q);
		*(uint32_t *)at = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
		return;
	case KIND_I32:
		*(int32_t *)at = sqlite3_column_int(q->st, q->next++);
		return;
	case KIND_BOOL:
		*(bool *)at = stmt_get_u64(q) != 0;
		return;
	case KIND_CHARS:
		stmt_copy_text(q, at, c->size);
		return;
	case KIND_TEXT:
		row_set_pointer(c, row, stmt_get_text(q));
		return;
	case KIND_BYTES:
	case KIND_BLOB:
		row_read_blob(q, c, row);
		return;
	case KIND_LIMITS:
		row_read_limits(stmt_get_text(q), c, row);
		return;
	case KIND_SIZE:
		return;
	}
}

static void row_set_owned(const struct table *t, char *row, void *block)
{
	memcpy(row + t->owned, &block, sizeof(block));
}

static void row_read(struct stmt *q, void *row, size_t size)
{
	const struct table *t = q->sql->table;

	assert(size == t->size && (q->sql->columns & COLUMN_READ) != 0);
	for (unsigned i = 0; i < t->n; i++)
		if ((t->columns[i].sets & COLUMN_READ) != 0)
			row_read_column(q, &t->columns[i], row);
	if (t->owned != 0)
		row_set_owned(t, row, NULL);
}

int row_next_sized(struct stmt *q, const char *id, void *ret, size_t size, struct err *e)
{
	int got = stmt_step(q, id, e);

	if (got > 0)
		row_read(q, ret, size);
	return got;
}

static bool row_is_borrowed(const struct column *c)
{
	return c->kind == KIND_TEXT || c->kind == KIND_BLOB;
}

int row_own(const struct table *t, void *row, struct err *e)
{
	size_t total = 0, len;
	char *block, *to;

	for (unsigned i = 0; i < t->n; i++)
		if (row_is_borrowed(&t->columns[i])) {
			(void)row_bytes(&t->columns[i], row, &len);
			total += len + 1;
		}
	block = malloc(total + 1);
	if (block == NULL) {
		memset(row, 0, t->size); /* its texts go */
		return err_sys(e, "store: a row of %zu bytes", total);
	}
	to = block;
	for (unsigned i = 0; i < t->n; i++)
		if (row_is_borrowed(&t->columns[i])) {
			const void *bytes = row_bytes(&t->columns[i], row, &len);

			if (len > 0)
				memcpy(to, bytes, len);
			to[len] = '\0';
			row_set_pointer(&t->columns[i], row, to);
			to += len + 1;
		}
	row_set_owned(t, row, block);
	return 0;
}

void row_release(const struct table *t, void *row)
{
	void *block;

	memcpy(&block, (char *)row + t->owned, sizeof(block));
	free(block);
	row_set_owned(t, row, NULL);
}

/* The texts of a row without a block of its own go with the statement. */
static int row_keep(const struct table *t, void *row, struct err *e)
{
	if (t->owned != 0)
		return row_own(t, row, e);
	for (unsigned i = 0; i < t->n; i++)
		if (row_is_borrowed(&t->columns[i]))
			row_set_pointer(&t->columns[i], row, NULL);
	return 0;
}

int row_get_sized(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		  void *ret, size_t size, struct err *e)
{
	struct stmt q;
	int got;

	stmt_open(&q, s, sql, in);
	got = row_next_sized(&q, id, ret, size, e);
	if (got == 0)
		got = stmt_not_found(sql, id, e);
	else if (got > 0)
		got = row_keep(sql->table, ret, e);
	stmt_close(&q);
	return got;
}

int row_find_sized(struct store *s, const struct sql *sql, const struct value *in, const char *id,
		   void *ret, size_t size, struct err *e)
{
	memset(ret, 0, size);
	return row_get_sized(s, sql, in, id, ret, size, e) == 0 || e->code == ERR_NOT_FOUND ? 0
											    : -1;
}

/* ---- lists */

void row_list_open(struct row_list *l, struct store *s)
{
	l->next = l->at;
	l->shown = false;
	l->got = 1;
	l->reading = (struct stmt){ .s = s };
	stmt_open(&l->looking, s, l->look, l->in);
}

/* The row looked at counts: the next call of the list begins after it. */
static void row_list_pass(struct row_list *l)
{
	if (l->shown && l->row != NULL)
		stmt_close(&l->reading);
	l->shown = false;
	l->next.rows = l->at.rows + 1;
	l->at = l->next;
}

/* Read the index's part of a row. Return whether the filter takes the row. */
static bool row_list_look(struct row_list *l, uint64_t *ret_number)
{
	bool takes;

	*ret_number = stmt_get_u64(&l->looking);
	takes = stmt_get_u64(&l->looking) != 0;
	l->next.ms = stmt_get_u64(&l->looking);
	stmt_copy_text(&l->looking, l->next.id, sizeof(l->next.id));
	if (l->next.id[0] == '\0')
		l->next.seq = *ret_number;
	return takes;
}

static int row_list_read(struct row_list *l, uint64_t number, void *ret, size_t size, struct err *e)
{
	if (l->row == NULL) {
		row_read(&l->looking, ret, size);
		return 1;
	}
	stmt_open(&l->reading, l->looking.s, l->row, IN(number));
	return row_next_sized(&l->reading, "", ret, size, e);
}

int row_list_next(struct row_list *l, void *ret, size_t size, struct err *e)
{
	uint64_t number;

	if (l->shown)
		row_list_pass(l);
	while ((l->got = stmt_step(&l->looking, "", e)) > 0) {
		if (row_list_look(l, &number)) {
			l->got = row_list_read(l, number, ret, size, e);
			l->shown = l->got >= 0;
			if (l->got != 0)
				return l->got;
		}
		row_list_pass(l);
	}
	return l->got;
}

int row_list_close(struct row_list *l, struct store_looked *ret)
{
	if (l->reading.st != NULL)
		stmt_close(&l->reading);
	stmt_close(&l->looking);
	l->at.end = l->got == 0 && (l->limit == 0 || l->at.rows < l->limit);
	if (ret != NULL)
		*ret = l->at;
	return l->got < 0 ? -1 : 0;
}
