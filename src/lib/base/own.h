/* own.h - ownership by scope, and the attributes that make contracts visible to the compiler.
 *
 * OWN_FD closes at the end of the scope, OWN_MEM frees. TAKE_* moves the value out. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "lib/base/fd.h"

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

static inline void own_close_(int *fd)
{
	fd_close(*fd);
}

static inline void own_free_(void *p)
{
	free(*(void **)p);
}

static inline int own_take_fd_(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define OWN_FD __attribute__((cleanup(own_close_), unused)) int
#define OWN_MEM __attribute__((cleanup(own_free_), unused))
#define TAKE_FD(fd) own_take_fd_(&(fd))

/* Ignores the result of a call. The second argument is the reason, for the reader. */
#define IGNORED(call, why)                      \
	do {                                    \
		static const char why_[] = why; \
		(void)why_;                     \
		if ((call) < 0) { /* ignored */ \
		}                               \
	} while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
