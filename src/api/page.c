#include "page.h"

#include <string.h>

#include "cursor.h"

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

void page_next(struct json *j, const struct page *p, bool end)
{
	if (end)
		json_none(j, "next");
	else
		cursor_write(j, "next", p->after_ms, p->after_id);
}
