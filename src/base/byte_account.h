/* byte_account.h - counts of the bytes that src/net holds in memory for one account: a tenant, an
 * address, or all together. src/net changes the counts; the owner of the account keeps the
 * structure. */
#pragma once

#include <stddef.h>

struct job_queue;

struct byte_account {
	size_t bodies; /* of request bodies that are being collected */
	size_t unread; /* of answers that wait to be read */
	/* The queue of jobs that handle its long bodies (loop/jobs.h); borrowed. NULL: the server's
	 * own queue, which all accounts without a queue share. */
	struct job_queue *work;
};
