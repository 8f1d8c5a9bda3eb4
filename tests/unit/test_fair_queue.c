/* Goal: a session that adds many items delays only itself: sessions of a tenant take turns, and so
 * do tenants.
 */
#include "egress/control/fair_queue.h"

#include "support.h"

#define ITEMS 300

static struct fair_queue_tenant tenants[2];
static struct fair_queue_session sessions[4]; /* 0 to 2: of the first tenant; 3: of the second */
static struct fair_queue_item items[4][ITEMS];

static struct fair_queue fill(const size_t n[4])
{
	struct fair_queue f = { 0 };

	memset(tenants, 0, sizeof(tenants));
	memset(sessions, 0, sizeof(sessions));
	memset(items, 0, sizeof(items));
	for (size_t g = 0; g < 4; g++)
		for (size_t i = 0; i < n[g]; i++)
			fair_queue_add(&f, &tenants[g == 3], &sessions[g], &items[g][i]);
	return f;
}

/* Whose the next one is, and that it is the first of its session; -1: none. */
static int next(struct fair_queue *f, uint64_t turn, size_t seen[4])
{
	struct fair_queue_item *i = fair_queue_take(f, turn, 2);

	for (int g = 0; i != NULL && g < 4; g++) {
		if (i >= items[g] && i < items[g] + ITEMS) {
			CHECK(i == &items[g][seen[g]++] && i->session == NULL);
			return g;
		}
	}
	return -1;
}

static void tenants_take_turns(void)
{
	struct fair_queue f = fill((size_t[]){ 250, 250, 250, 2 });
	size_t seen[4] = { 0 };
	static const int want[] = { 0, 3, 1, 3, 2, 0, 1, 2, -1 };

	for (size_t i = 0; i < COUNT(want); i++) /* at most two of a session in a turn */
		CHECK(next(&f, 1, seen) == want[i]);
	for (size_t i = 0; i < 6; i++)
		CHECK(next(&f, 2, seen) == (int)(i % 3));
	CHECK(next(&f, 2, seen) == -1 && f.first != NULL);
}

static void ends_empty(void)
{
	struct fair_queue f = fill((size_t[]){ 3, 0, 1, 5 });
	uint64_t turn = 1;
	size_t n = 0;

	for (; f.first != NULL; turn++)
		while (fair_queue_take(&f, turn, 2) != NULL)
			n++;
	CHECK(n == 9 && f.last == NULL && tenants[0].first == NULL && sessions[3].tenant == NULL);
	fair_queue_add(&f, &tenants[1], &sessions[3], &items[3][0]);
	CHECK(fair_queue_take(&f, turn, 2) == &items[3][0]);
}

static void drops_what_waits(void)
{
	struct fair_queue f = fill((size_t[]){ 3, 1, 0, 0 });

	fair_queue_drop(&f, &items[0][1]);
	fair_queue_drop(&f, &items[0][1]); /* again: nothing */
	fair_queue_drop(&f, &items[1][0]);
	CHECK(sessions[1].tenant == NULL);
	CHECK(fair_queue_take(&f, 1, 9) == &items[0][0] &&
	      fair_queue_take(&f, 1, 9) == &items[0][2]);
	CHECK(f.first == NULL && fair_queue_take(&f, 1, 9) == NULL);
}

static bool is_even(struct fair_queue_item *i)
{
	return i->session != &sessions[1];
}

static void skips_a_session_that_may_not(void)
{
	struct fair_queue f = fill((size_t[]){ 1, 2, 0, 0 });

	f.may_take = is_even;
	CHECK(fair_queue_take(&f, 1, 2) == &items[0][0] && fair_queue_take(&f, 1, 2) == NULL);
	f.may_take = NULL;
	CHECK(fair_queue_take(&f, 1, 2) == &items[1][0]);
}

TEST_MAIN({ "tenants take turns", tenants_take_turns }, { "ends empty", ends_empty },
	  { "drops what waits", drops_what_waits },
	  { "skips a session that may not", skips_a_session_that_may_not })
