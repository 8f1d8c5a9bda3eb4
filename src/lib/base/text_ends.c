#include "lib/base/text_ends.h"

#include "lib/base/shown_text.h"

void text_ends_init(struct text_ends *t)
{
	*t = (struct text_ends){ .head = BUF_INIT(TEXT_ENDS_MAX),
				 .tail = BUF_INIT(TEXT_ENDS_MAX + TEXT_ENDS_PIECE) };
}

void text_ends_release(struct text_ends *t)
{
	buf_release(&t->head);
	buf_release(&t->tail);
}

void text_ends_add(struct text_ends *t, const uint8_t *bytes, size_t n)
{
	size_t room = TEXT_ENDS_MAX - t->head.len;

	room = n < room ? n : room;
	buf_put(&t->head, bytes, room);
	buf_put(&t->tail, bytes + room, n - room);
	if (t->tail.len > TEXT_ENDS_HALF)
		buf_consume(&t->tail, t->tail.len - TEXT_ENDS_HALF);
}

/* The first and the last bytes of a stream too long from the start or by its escapes. Return how
 * many bytes are shown. */
static uint64_t ends_both_ends(const struct text_ends *t, struct buf *begin, struct buf *end)
{
	size_t shown = shown_text_head(begin, t->head.data, t->head.len, TEXT_ENDS_HALF);
	struct buf rest = BUF_INIT((size_t)2 * TEXT_ENDS_MAX);

	buf_put(&rest, t->head.data + shown, t->head.len - shown);
	if (t->tail.len == TEXT_ENDS_HALF)
		buf_clear(&rest); /* there may be a gap before it */
	buf_put(&rest, t->tail.data, t->tail.len);
	shown += shown_text_tail(end, rest.data, rest.len, TEXT_ENDS_HALF);
	buf_release(&rest);
	return shown;
}

bool text_ends_show(const struct text_ends *t, const char *how, struct buf *to)
{
	struct buf begin = BUF_INIT(TEXT_ENDS_MAX), end = BUF_INIT(TEXT_ENDS_MAX);
	uint64_t shown = shown_text_head(&begin, t->head.data, t->head.len, TEXT_ENDS_MAX);
	bool cut = shown < t->total;

	if (cut) {
		buf_clear(&begin);
		shown = ends_both_ends(t, &begin, &end);
	}
	buf_put(to, begin.data, begin.len);
	if (cut)
		buf_printf(to, "\n[... %llu bytes left out%s%s ...]\n",
			   (unsigned long long)(t->total - shown), how[0] == '\0' ? "" : ": ", how);
	buf_put(to, end.data, end.len);
	buf_release(&begin);
	buf_release(&end);
	return cut;
}
