/* byte_account.h - counts of the bytes that src/lib/net holds in memory for one account: a tenant,
 * an address, or all together. src/lib/net changes the counts. The owner of the account keeps the
 * structure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct job_queue;

struct byte_account {
	size_t bodies; /* of request bodies being collected */
	size_t unread; /* of answers that wait to be read */
	/* The queue of jobs that handle its long bodies (lib/loop/jobs.h). Borrowed. NULL: the
	 * server's own queue, which all accounts without a queue share. */
	struct job_queue *work;
};

/* The bounds of the bodies of an account, and of all bodies, together. 0: no bound. */
struct byte_account_bounds {
	size_t one, all;
};

enum byte_account_room { BYTE_ACCOUNT_ROOM, BYTE_ACCOUNT_ONE_FULL, BYTE_ACCOUNT_ALL_FULL };

/* Count n more, if there is room. The last quarter of all is reserved for accounts with few
 * bytes. */
static inline enum byte_account_room byte_account_add(struct byte_account *a,
						      struct byte_account *sum,
						      struct byte_account_bounds max, size_t n)
{
	size_t one = a->bodies + n, all = sum->bodies + n;

	if (max.one > 0 && one > max.one)
		return BYTE_ACCOUNT_ONE_FULL;
	if (max.all > 0 && (all > max.all || (all > max.all / 4 * 3 && one > max.all / 8)))
		return BYTE_ACCOUNT_ALL_FULL;
	a->bodies = one;
	sum->bodies = all;
	return BYTE_ACCOUNT_ROOM;
}

static inline void byte_account_take(struct byte_account *a, struct byte_account *sum, size_t n)
{
	a->bodies -= n;
	sum->bodies -= n;
}
