#include "front/rest/list_page.h"

#include <string.h>

#include "front/rest/cursor.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

/* ---- pages from many rows
 *
 * list_job.c calls on_piece() until it returns 0, and on_finish() at the end. */

/* The cursor moves with each piece, also past rows that no filter let through. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct page_walk *p = (struct page_walk *)w;
	struct store_looked looked;

	if (p->read_rows(p, &looked, e) < 0)
		return -1;
	page_advance(&p->page, &looked);
	p->end = looked.end;
	return list_job_count(w, &looked) && !p->more;
}

/* The list's end, or the place at which the next page begins. */
static void on_finish(struct list_job *w)
{
	struct page_walk *p = (struct page_walk *)w;

	json_close(&w->j, ']');
	page_next(&w->j, &p->page, p->end);
	json_close(&w->j, '}');
}

/* The request owns the state in any case. */
void *page_walk_new(struct request *r, size_t size,
		    int (*read_rows)(struct page_walk *p, struct store_looked *ret, struct err *e))
{
	struct page_walk *p = list_job_new(r, size, on_piece, on_finish);
	struct err e = { 0 };

	if (p == NULL)
		return NULL;
	p->read_rows = read_rows;
	if (page_read(r, &p->page, &e) < 0) {
		reply_error(r, &e);
		return NULL;
	}
	return p;
}

void page_walk_start(struct page_walk *p, const char *name)
{
	json_open(&p->job.j, NULL, '{');
	json_open(&p->job.j, name, '[');
	list_job_start(&p->job);
}

/* A full piece is not a full page: the walk continues with the next piece. */
bool page_walk_admits(struct page_walk *p)
{
	p->more = p->shown == p->page.limit || list_job_page_is_full(&p->job);
	if (p->more || list_job_piece_is_full(&p->job))
		return false;
	p->shown++;
	return true;
}

/* ---- pages of short lists
 *
 * The caller's callback asks list_part_admits() for each row. The row that is refused is the one
 * that list_part_rows() asked for in addition. */

/* By name the parameter is the name itself. By time it is a cursor. */
static int read_after(struct list_part *p, struct request *r, struct err *e)
{
	char after[CURSOR_MAX], id[STORE_ID_MAX];

	if (!p->by_time)
		return request_text(r, "after", p->last, sizeof(p->last), e);
	if (request_text(r, "after", after, sizeof(after), e) < 0)
		return -1;
	if (after[0] == '\0')
		return 0;
	if (cursor_parse(after, &p->ms, id, e) < 0)
		return -1;
	str_copy(p->last, id);
	return 0;
}

int list_part_begin(struct list_part *p, struct request *r, const char *name, bool by_time,
		    struct err *e)
{
	*p = (struct list_part){ .limit = PAGE_LIMIT_MAX, .by_time = by_time };
	if (request_number(r, "limit", 1, PAGE_LIMIT_MAX, &p->limit, e) < 0 ||
	    read_after(p, r, e) < 0)
		return -1;
	json_init_heap(&p->j, REPLY_JSON_MAX);
	json_open(&p->j, NULL, '{');
	json_open(&p->j, name, '[');
	return 0;
}

/* The row after a full page is not shown. It only tells that there is a next page. */
bool list_part_admits(struct list_part *p, uint64_t ms, const char *id)
{
	p->more = p->n == p->limit || p->j.len >= LIST_PART_BYTES;
	if (p->more)
		return false;
	p->n++;
	p->ms = ms;
	str_copy(p->last, id);
	return true;
}

unsigned list_part_rows(const struct list_part *p)
{
	return (unsigned)p->limit + 1;
}

void list_part_reply(struct list_part *p, struct request *r)
{
	json_close(&p->j, ']');
	if (!p->more)
		json_none(&p->j, "next");
	else if (p->by_time)
		cursor_write(&p->j, "next", p->ms, p->last);
	else
		json_text(&p->j, "next", p->last);
	json_close(&p->j, '}');
	reply_json(r, 200, &p->j);
}

/* ---- pages
 *
 * The parameters and the cursor that walks share. */

/* `order` is an unknown parameter for routes that do not name it. */
int page_read(struct request *r, struct page *ret, struct err *e)
{
	static const char *const orders[] = { "desc", "asc" };
	uint64_t limit = PAGE_LIMIT;
	char after[CURSOR_MAX];
	unsigned order = 0;

	memset(ret, 0, sizeof(*ret));
	if (request_number(r, "limit", 1, PAGE_LIMIT_MAX, &limit, e) < 0 ||
	    request_text(r, "after", after, sizeof(after), e) < 0 ||
	    request_choice(r, "order", orders, COUNT(orders), &order, e) < 0)
		return -1;
	ret->limit = (unsigned)limit;
	ret->ascending = order == 1;
	if (after[0] == '\0')
		return 0;
	return cursor_parse(after, &ret->after_ms, ret->after_id, e);
}

void page_advance(struct page *p, const struct store_looked *looked)
{
	if (looked->rows == 0)
		return;
	p->after_ms = looked->ms;
	memcpy(p->after_id, looked->id, sizeof(p->after_id));
}

/* Null: the list's end. */
void page_next(struct json *j, const struct page *p, bool end)
{
	if (end)
		json_none(j, "next");
	else
		cursor_write(j, "next", p->after_ms, p->after_id);
}
