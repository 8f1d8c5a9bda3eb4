#include "page_walk.h"

#include "reply.h"

static int on_piece(struct walk *w, struct err *e)
{
	struct page_walk *p = (struct page_walk *)w;
	struct store_looked looked;

	if (p->read_rows(p, &looked, e) < 0)
		return -1;
	page_advance(&p->page, &looked);
	p->end = looked.end;
	return walk_count(w, &looked) && !p->more;
}

static void on_finish(struct walk *w)
{
	struct page_walk *p = (struct page_walk *)w;

	json_close(&w->j, ']');
	page_next(&w->j, &p->page, p->end);
	json_close(&w->j, '}');
}

void *page_walk_new(struct request *r, size_t size,
		    int (*read_rows)(struct page_walk *p, struct store_looked *ret, struct err *e))
{
	struct page_walk *p = walk_new(r, size, on_piece, on_finish);
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
	json_open(&p->walk.j, NULL, '{');
	json_open(&p->walk.j, name, '[');
	walk_start(&p->walk);
}

bool page_walk_admits(struct page_walk *p)
{
	p->more = p->shown == p->page.limit || walk_page_is_full(&p->walk);
	if (p->more || walk_piece_is_full(&p->walk))
		return false;
	p->shown++;
	return true;
}
