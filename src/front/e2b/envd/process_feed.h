/* process_feed.h - the stream that follows one process: its start, its output, its end. */
#pragma once

#include "daemon/execution/execution.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/rpc.h"

struct process_feed {
	struct rpc_stream stream; /* first, see rpc.h */
	struct execution *x;	  /* while followed, see live() */
	struct execution_follower follower;
	char id[STORE_ID_MAX];
	int fd; /* owned: its log. -1: none so far */
	uint64_t cursor;
	bool started; /* was sent */
	bool own;     /* this stream started the process: it reports a failed start and a timeout */
	char user[ENVD_USER_MAX], cwd[256]; /* for words about a failure */
};

/* Begin the answer and follow: from the beginning (own), or from now on. f is all zero but for
 * user and cwd, which error messages need. */
void process_feed_begin(struct process_feed *f, struct request *r, struct session *s,
			struct execution *x, bool own);
/* In the request's release function. Safe if it was never begun. */
void process_feed_release(struct process_feed *f);
