#include "cell/init/base/tree_mark.h"

#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST (1ULL << 62)

static uint64_t first, last; /* 0: none assigned yet */
static bool any_left = true;

int tree_mark_resource(void)
{
	static int resource = -1;
	struct rlimit own;

	if (resource < 0)
		resource = getrlimit(RLIMIT_LOCKS, &own) == 0 && setrlimit(RLIMIT_LOCKS, &own) == 0
				   ? (int)RLIMIT_LOCKS
				   : (int)RLIMIT_RSS;
	return resource;
}

const char *tree_mark_line(void)
{
	return tree_mark_resource() == (int)RLIMIT_LOCKS ? "\nMax file locks "
							 : "\nMax resident set ";
}

/* In a cell inside of a cell, PID 1's own limit is a mark of the outer one. */
static uint64_t tree_mark_before_first(void)
{
	struct rlimit own;

	/* glibc has a type of its own for the resource. */
	if (syscall(SYS_prlimit64, 0, tree_mark_resource(), NULL, &own) < 0)
		return 0;
	return own.rlim_max < FIRST ? own.rlim_max : FIRST;
}

uint64_t tree_mark_next(void)
{
	uint64_t before = last != 0 ? last : tree_mark_before_first();

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
