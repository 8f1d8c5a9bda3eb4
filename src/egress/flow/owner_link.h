/* owner_link.h - the structures of owner_query.h: a session's socket for questions, and the known
 * facts about the program that made a connection. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/loop/loop.h"
#include "lib/wire/owner_msg.h"

struct flow;

/* A session's end of the socket (owner_msg.h). */
struct owner_link {
	int sock; /* owned. -1: none */
	struct loop_fd watch;
	uint64_t last_id;
	uint64_t asked_ns;   /* the last question */
	unsigned unanswered; /* questions since then without an answer */
	bool slow;	     /* the last answer that a connection waited for did not come in time */
};

/* The known facts about the program at the other end of a connection. */
struct owner {
	enum owner_result result;
	uint64_t mark; /* of OWNER_FOUND */
	uint64_t id;   /* of the question asked. 0: none, or it is answered */
	/* The answer has come, or will not. May end the flow. */
	void (*on_answer)(struct flow *f);
};
