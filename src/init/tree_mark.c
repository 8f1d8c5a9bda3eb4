#include "tree_mark.h"

#include <sys/resource.h>

#define FIRST (1ULL << 62)

static uint64_t first, last; /* 0: none assigned yet */
static bool any_left = true;

/* In a cell inside of a cell, PID 1's own limit is a mark of the outer one. */
static uint64_t before_first(void)
{
	struct rlimit own;

	if (getrlimit(RLIMIT_LOCKS, &own) < 0)
		return 0;
	return own.rlim_max < FIRST ? own.rlim_max : FIRST;
}

uint64_t tree_mark_next(void)
{
	uint64_t before = last != 0 ? last : before_first();

	if (!any_left || before <= 1) {
		any_left = false;
		return 0;
	}
	last = before - 1;
	if (first == 0)
		first = last;
	return last;
}

bool tree_mark_was_assigned(uint64_t mark)
{
	return last != 0 && last <= mark && mark <= first;
}

bool tree_mark_is_hiding(uint64_t limit)
{
	return any_left && last != 0 && limit < last;
}
