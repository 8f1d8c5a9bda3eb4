/* Lists whose links are in their elements: elements come and go at every place. */
#include "lib/base/list.h"
#include "test.h"

struct one {
	struct one *next, **link;
	int number;
};

/* The numbers of a list, as digits; every link must point to what points to the element. */
static long numbers(struct one *const *head)
{
	struct one *const *at = head;
	long sum = 0;

	for (const struct one *e = *head; e != NULL; e = e->next) {
		CHECK(e->link == at);
		at = &e->next;
		sum = sum * 10 + e->number;
	}
	return sum;
}

static void removal_at_every_place(void)
{
	for (int gone = 1; gone <= 3; gone++) {
		struct one e[4] = {
			{ .number = 0 }, { .number = 1 }, { .number = 2 }, { .number = 3 }
		};
		struct one *head = NULL;
		const long left[] = { 0, 32, 31, 21 };

		for (int i = 1; i <= 3; i++)
			LIST_PUSH(&head, &e[i]);
		CHECK(numbers(&head) == 321);
		LIST_REMOVE(&e[gone]);
		CHECK(numbers(&head) == left[gone] && e[gone].link == NULL);
		LIST_REMOVE(&e[gone]); /* repeatable */
		CHECK(numbers(&head) == left[gone]);
		LIST_PUSH(&head, &e[gone]);
		CHECK(numbers(&head) == gone * 100 + left[gone]);
	}
}

static void a_queue_keeps_its_end(void)
{
	for (int gone = 1; gone <= 3; gone++) {
		struct one e[4] = {
			{ .number = 0 }, { .number = 1 }, { .number = 2 }, { .number = 3 }
		};
		struct one *head = NULL, **end = &head;
		const long left[] = { 0, 23, 13, 12 };

		for (int i = 1; i <= 3; i++)
			LIST_APPEND(&end, &e[i]);
		CHECK(numbers(&head) == 123);
		LIST_REMOVE_FROM(&end, &e[gone]);
		CHECK(numbers(&head) == left[gone]);
		LIST_APPEND(&end, &e[gone]);
		CHECK(numbers(&head) == left[gone] * 10 + gone);
	}
}

static void an_empty_queue(void)
{
	struct one e = { .number = 7 }, *head = NULL, **end = &head;

	LIST_REMOVE_FROM(&end, &e);
	CHECK(head == NULL && end == &head);
	LIST_APPEND(&end, &e);
	LIST_REMOVE_FROM(&end, &e);
	CHECK(head == NULL && end == &head);
	LIST_APPEND(&end, &e);
	CHECK(numbers(&head) == 7);
}

TEST_MAIN({ "removal at every place", removal_at_every_place },
	  { "a queue keeps its end", a_queue_keeps_its_end }, { "an empty queue", an_empty_queue })
