/* log_removal.h - frees the space of removed logs in pieces. For the core's own files. */
#pragma once

#include "jobs.h"
#include "store.h"

#define LOG_NAME_MAX (STORE_ID_MAX + 8) /* "<execution>.log" */
#define LOG_REMOVAL_STEP (4L << 20)	/* bytes freed in a piece */

enum log_removal_why { LOG_MAKES_ROOM, LOG_IS_OLD, LOG_REMOVAL_WHYS };

/* A file in STATE/output/removed. */
struct removed_log {
	struct removed_log *next;
	struct tenant *tenant; /* NULL: an earlier daemon's, its tenant is not known */
	enum log_removal_why why;
	uint64_t bytes; /* that it had */
	char name[LOG_NAME_MAX];
};

struct removed_log_list {
	struct removed_log *first, **end;
};

/* Of a tenant, or of the node; zeroed at first. */
struct log_removal {
	struct core *core;
	struct job job;
	struct job_queue work; /* its own: other jobs of the tenant need not wait */
	struct removed_log_list lists[LOG_REMOVAL_WHYS];
	uint64_t backlog; /* bytes of those that make room */
};

int log_removal_setup(struct core *c, struct err *e) MUST_USE;
void log_removal_release(struct core *c);

/* Takes a log out of STATE/output; its space is freed soon. True if it is not there any more, with
 * its size, which is 0 if it was not there before. */
bool log_removal_add(struct core *c, struct tenant *t, const char *name, enum log_removal_why why,
		     uint64_t *ret_bytes) MUST_USE;

/* Should the tenant's output wait until more of its removed logs are really gone? */
bool log_removal_is_behind(const struct tenant *t);

/* Once a second: those that were being read. */
void log_removal_retry(struct core *c);
