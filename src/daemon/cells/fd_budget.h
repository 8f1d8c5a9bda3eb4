/* fd_budget.h - whether this process has descriptors left for one more operation. If a message of a
 * cell brings descriptors and there is no room for them, the message is lost, and the cell with it.
 * So operations that will need descriptors are refused before they begin. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/fd_reserve.h"

#define FD_BUDGET_EACH 5 /* for an execution or a file operation, at most */

struct fd_budget {
	int max;       /* that this process may have */
	unsigned owed; /* that PID 1s will send, of programs being started and connections */
	int used;      /* counted lately, when it was close */
	uint64_t counted_ns;
	struct fd_reserve reserve; /* for descriptors from the supervisor and the keeper */
};

void fd_budget_init(struct fd_budget *f);

/* REASON_UNAVAILABLE if there is no room for one session, execution, file operation or connection
 * more. */
int fd_budget_check(struct fd_budget *f, struct err *e) MUST_USE;
