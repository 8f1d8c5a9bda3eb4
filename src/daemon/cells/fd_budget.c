/* fd_budget.c - theory of operation
 *
 * The kernel allocates the lowest free descriptor. If the descriptor at the bound is closed, fewer
 * than that many are open, so one fcntl(2) usually answers the question. If it is open, the
 * descriptors are counted by poll(2), which marks closed ones, at most every COUNT_MS.
 */
#include "daemon/cells/fd_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/resource.h>

#include "lib/base/clock.h"

#define SPARE 128 /* for logs, cells being ended, the store */
#define CLIENTS_MAX                                                                              \
	1024 /* and an eighth of all, up to this, for connections of clients, which end sessions \
	      */
#define COUNT_MS 10
#define CHUNK 256

void fd_budget_init(struct fd_budget *f)
{
	struct rlimit files;

	*f = (struct fd_budget){ .max = INT_MAX, .reserve = FD_RESERVE_INIT };
	fd_reserve_fill(&f->reserve);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < INT_MAX)
		f->max = (int)files.rlim_cur;
}

static int fd_budget_count(int max)
{
	struct pollfd fds[CHUNK];
	int used = 0;

	for (int at = 0; at < max; at += CHUNK) {
		int n = max - at < CHUNK ? max - at : CHUNK;

		for (int i = 0; i < n; i++)
			fds[i] = (struct pollfd){ .fd = at + i };
		if (poll(fds, (nfds_t)n, 0) < 0)
			return max;
		for (int i = 0; i < n; i++)
			used += (fds[i].revents & POLLNVAL) == 0;
	}
	return used;
}

int fd_budget_check(struct fd_budget *f, struct err *e)
{
	int bound = f->max - SPARE - (f->max / 8 < CLIENTS_MAX ? f->max / 8 : CLIENTS_MAX);
	uint64_t now = clock_now_ns();

	if (bound > 0 && fcntl(bound, F_GETFD) < 0)
		return 0;
	if (now - f->counted_ns > COUNT_MS * CLOCK_MS) {
		f->used = fd_budget_count(f->max);
		f->counted_ns = now;
	}
	if (f->used + (int)f->owed < bound)
		return 0;
	return err_set_reason(e, REASON_UNAVAILABLE,
			      "cordond is out of descriptors (its limit is %d)", f->max);
}
