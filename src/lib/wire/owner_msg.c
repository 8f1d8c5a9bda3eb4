#include "lib/wire/owner_msg.h"

#include <assert.h>
#include <string.h>

static const char *const words[] = {
	[OWNER_FOUND] = NULL,
	[OWNER_GONE] = "gone",
	[OWNER_TOO_MANY] = "too_many",
	[OWNER_UNREADABLE] = "unreadable",
	[OWNER_UNSUPPORTED] = "unsupported",
	[OWNER_LATE] = "late",
};
static_assert(COUNT(words) == OWNER_RESULTS, "every result has a word");

int owner_question_read(const void *bytes, size_t len, struct owner_question *ret, struct err *e)
{
	struct owner_question q;

	if (len != sizeof(q))
		return err_set(e, ERR_INVALID, "question of %zu bytes", len);
	memcpy(&q, bytes, sizeof(q));
	if (q.from_port == 0 || q.to_port == 0 || q.zero != 0)
		return err_set(e, ERR_INVALID, "question with values out of range");
	*ret = q;
	return 0;
}

int owner_answer_read(const void *bytes, size_t len, struct owner_answer *ret, struct err *e)
{
	struct owner_answer a;

	if (len != sizeof(a))
		return err_set(e, ERR_INVALID, "answer of %zu bytes", len);
	memcpy(&a, bytes, sizeof(a));
	if (a.result >= OWNER_ON_WIRE || a.zero != 0 || a.mark > OWNER_MARK_MAX ||
	    (a.result == OWNER_FOUND) != (a.mark != 0))
		return err_set(e, ERR_INVALID, "answer with values out of range");
	*ret = a;
	return 0;
}

const char *owner_result_word(enum owner_result result)
{
	return result < OWNER_RESULTS ? words[result] : words[OWNER_UNSUPPORTED];
}
