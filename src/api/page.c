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
