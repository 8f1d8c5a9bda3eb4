/* python_parent.h - the process that Python kernels are forked from: it has imported their modules,
 * and runs no user code, so a new kernel is there in milliseconds. Called by context.c.
 *
 * It is started with the server and again when it ends. Kernels that wait for one get it when it is
 * ready. It shares no state with kernels but memory, copied when written. */
#pragma once

#include "incell/interpreter/kernel_process.h"

/* A kernel to be forked. */
struct python_spawn {
	struct python_spawn *next, **link;
	struct kernel *kernel;	 /* NULL: given up in the meantime */
	struct kernel_ends ends; /* owned until they are sent. Then -1 */
	char cwd[];		 /* NUL-terminated */
};

struct python_parent {
	struct loop *loop;
	const struct language *language;
	const char *kernels;		    /* borrowed: the folder of kernels */
	struct kernel process;		    /* its own process and channel */
	struct python_spawn *first, **last; /* in the order of the answers */
	bool ready;
	uint64_t started_ns;
	bool failed; /* it ended before it was ready. The next kernel starts it again */
	void (*on_change)(void *arg); /* ready, or failed */
	void *arg;
};

void python_parent_init(struct python_parent *p, struct loop *loop, const char *kernels,
			unsigned slow_ms, void (*on_change)(void *arg), void *arg);
/* Start it, unless it runs. */
int python_parent_start(struct python_parent *p, struct err *e) MUST_USE;
/* Let it fork a kernel. Failures are reported by kernel_fail(). */
int python_parent_spawn(struct python_parent *p, struct kernel *k, const char *cwd,
			struct err *e) MUST_USE;
