/* bed.h - the whole core on its loop, with a keeper and a PID 1 that the test plays on the other
 * ends of their sockets: each may answer, refuse, be silent or die, whenever the test likes.
 *
 * One bed at a time; each test is a process of its own. A process that only waits stands for PID 1
 * where the kernel is asked about it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/wire/agent_msg.h"
#include "daemon/execution/execution.h"
#include "lib/wire/keeper_msg.h"
#include "daemon/session/session.h"
#include "support.h"

/* What the keeper does when it is asked for something. */
enum bed_way { BED_ANSWER, BED_HOLD, BED_REFUSE, BED_DIE };

struct bed {
	struct loop *loop;
	struct core *core;
	struct tenant *tenant;
	struct session *session;
	const char *template; /* of the next session; NULL: the default */
	bool keep_diff;	      /* of the next session */
	bool many; /* the PID 1 of each earlier session lives on; else it dies with the next */
	bool started_pool; /* cells in which a start command runs in advance; set before bed_make()
			    */
	bool no_freezer;   /* the machine of the keeper has none; set before it comes */
	/* the keeper */
	enum bed_way way[KEEPER_OPS];
	struct err refusal; /* what BED_REFUSE answers; code ERR_NONE: ERR_LIMIT */
	unsigned asked[KEEPER_OPS];
	struct keeper_create created; /* the last one asked for */
	int list;		      /* where the last DIFF's list goes; -1: closed */
	unsigned hung;		      /* how often another one was asked for, */
	unsigned unheard;	      /* of which so many to come are in vain */
	unsigned refused;	      /* how often the core reported that no keeper can work */
	/* PID 1 */
	bool deaf; /* it reads nothing */
	unsigned ordered[AGENT_REQUESTS_END];
	uint64_t deadline_ms; /* in the last DEADLINE */
	uint64_t paused_ms;   /* in the last PAUSED */
	uint32_t handle;      /* of the last program, tree or connection asked for */
	int in, out, errs;    /* its ends of that program's stdio; -1 */
};

#define BED_EGRESS 2 /* processes of cordon-egress that the core expects */

extern struct bed bed;

/* keeper_timeout_ms: of the core's patience with its keeper. */
void bed_make(unsigned keeper_timeout_ms);
/* The same without a keeper. */
void bed_make_core(unsigned keeper_timeout_ms);
/* Frees all; fails if a descriptor is left. */
void bed_end(void);

/* Turns the loop until the condition holds; fails after some seconds. */
void bed_until(bool (*holds)(void));
/* For so many milliseconds: what must not happen has its chance. */
void bed_turn(unsigned ms);

/* A keeper comes (again), and greets. */
void bed_keeper(void);
/* A keeper comes that says it cannot work, and ends. */
void bed_keeper_refuses(void);
void bed_keeper_dies(void);
/* Answers the oldest request that was held: well, or with ERR_LIMIT. */
void bed_keeper_answers(bool well);
void bed_close_list(void);

/* A running session, bed.session. */
void bed_session(void);
/* The second waits until nothing of it is left, if the keeper lets it. */
void bed_begin_delete(void);
void bed_delete(void);

/* PID 1 reads what it was sent so far, without a turn of the core's loop. */
void bed_pid1_reads(void);
/* PID 1 says something of bed.handle. */
void bed_started(void);
/* The same with a pipe for results, which nobody has asked for. */
void bed_started_with_results(void);
void bed_says(enum agent_type type, const struct agent_event *v);
/* Something else, with descriptors, which stay the caller's. */
void bed_says_with(enum agent_type type, const struct agent_event *v, const int *fds, size_t n);
void bed_close_output(void);
void bed_pid1_dies(void);
