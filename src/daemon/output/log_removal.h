/* log_removal.h - frees the space of removed logs in pieces: see log_removal.c.
 *
 * A node has one struct removed_logs, and each tenant one struct log_removal, so that the work for
 * one tenant takes its share of the loop and no more. Knows neither sessions nor tenants. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/loop/jobs.h"

#define LOG_NAME_MAX 96		    /* "<execution>.log", with its NUL */
#define LOG_REMOVAL_STEP (4L << 20) /* bytes freed in a piece */

enum log_removal_why { LOG_MAKES_ROOM, LOG_IS_OLD, LOG_REMOVAL_WHYS };

/* A file in STATE/output/removed. */
struct removed_log {
	struct removed_log *next;
	struct log_removal *owner;
	enum log_removal_why why;
	uint64_t bytes; /* that it had */
	char name[LOG_NAME_MAX];
};

struct removed_log_list {
	struct removed_log *first, **end;
};

/* The queue of a tenant, or of the node. Zeroed at first. */
struct log_removal {
	struct removed_logs *all;
	struct job job;
	struct job_queue work; /* its own, so that other jobs of the tenant do not wait for it */
	struct removed_log_list lists[LOG_REMOVAL_WHYS];
	uint64_t backlog; /* bytes of those that make room */
};

/* The queues of the node. */
struct removed_logs {
	struct jobs *jobs;		/* borrowed */
	int output_fd;			/* borrowed: STATE/output */
	int removed_fd;			/* owned: STATE/output/removed */
	struct removed_log_list held;	/* being read */
	unsigned old;			/* files of LOG_IS_OLD that still take space */
	struct log_removal rest;	/* of the logs of an earlier daemon */
	void (*on_old_gone)(void *arg); /* the last of the old ones is gone. Set after setup */
	void *arg;
};

/* Begin with the files that an earlier daemon left. */
int log_removal_setup(struct removed_logs *all, struct jobs *jobs, int output_fd,
		      struct err *e) MUST_USE;
/* After every log_removal_free(). */
void log_removal_release(struct removed_logs *all);
/* Free a tenant's queue. The files stay for the next daemon. */
void log_removal_free(struct log_removal *r);

/* Take a log out of STATE/output. Its space is freed soon, as work of that owner (NULL: of the
 * node). True if it is gone, with its size, 0 if it was missing before. */
bool log_removal_add(struct removed_logs *all, struct log_removal *owner, const char *name,
		     enum log_removal_why why, uint64_t *ret_bytes) MUST_USE;

/* Should output of this owner wait until more of its removed logs are gone? */
bool log_removal_is_behind(const struct log_removal *r);

/* Once a second: try logs with a former reader again. */
void log_removal_retry(struct removed_logs *all);
