/* Goal: a question or an answer is read only if it is exactly one; every result has its word. */
#include "test.h"

#include <stdbool.h>
#include <string.h>

#include "lib/wire/owner_msg.h"

static struct err e;

static void questions_are_exact(void)
{
	struct owner_question q = { .id = 7, .from_port = 40000, .to_port = 443 }, got;
	uint8_t bytes[sizeof(q) + 1] = { 0 };

	memcpy(bytes, &q, sizeof(q));
	CHECK(owner_question_read(bytes, sizeof(q), &got, &e) == 0);
	CHECK(got.id == 7 && got.from_port == 40000 && got.to_port == 443);
	CHECK(owner_question_read(bytes, sizeof(q) - 1, &got, &e) < 0);
	CHECK(owner_question_read(bytes, sizeof(q) + 1, &got, &e) < 0);
	q.zero = 1;
	CHECK(owner_question_read(&q, sizeof(q), &got, &e) < 0);
	q.zero = 0;
	q.to_port = 0;
	CHECK(owner_question_read(&q, sizeof(q), &got, &e) < 0);
}

static bool is_read(uint64_t mark, uint32_t result, uint32_t zero)
{
	const struct owner_answer a = { .id = 1, .mark = mark, .result = result, .zero = zero };
	struct owner_answer got;

	return owner_answer_read(&a, sizeof(a), &got, &e) == 0 && got.mark == mark &&
	       got.result == result;
}

static void answers_have_a_mark_or_a_reason(void)
{
	CHECK(is_read(1, OWNER_FOUND, 0) && is_read(OWNER_MARK_MAX, OWNER_FOUND, 0));
	CHECK(!is_read(0, OWNER_FOUND, 0) && !is_read(OWNER_MARK_MAX + 1, OWNER_FOUND, 0));
	for (uint32_t result = OWNER_GONE; result < OWNER_ON_WIRE; result++)
		CHECK(is_read(0, result, 0) && !is_read(1, result, 0) && !is_read(0, result, 1));
	CHECK(!is_read(0, OWNER_LATE, 0) && !is_read(0, UINT32_MAX, 0));
}

static void results_have_words(void)
{
	CHECK(owner_result_word(OWNER_FOUND) == NULL);
	for (unsigned result = OWNER_GONE; result < OWNER_RESULTS; result++)
		CHECK(owner_result_word((enum owner_result)result) != NULL);
	CHECK(strcmp(owner_result_word(OWNER_LATE), "late") == 0);
}

TEST_MAIN({ "questions are exact", questions_are_exact },
	  { "answers have a mark or a reason", answers_have_a_mark_or_a_reason },
	  { "results have words", results_have_words })
