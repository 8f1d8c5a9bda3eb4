/* owner_link.h - the structures of owner_query.h: a session's socket for questions, and what is
 * known of the program that made a connection. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop.h"
#include "owner_msg.h"

struct flow;

/* A session's end of the socket (owner_msg.h). */
struct owner_link {
	int sock; /* owned; -1: none */
	struct loop_fd watch;
	uint64_t last_id;
	uint64_t asked_ns;   /* the last question */
	unsigned unanswered; /* questions since then that have no answer */
	bool slow;	     /* the last answer that a connection waited for did not come in time */
};

/* What is known of the program at the other end of a connection. */
struct owner {
	enum owner_result result;
	uint64_t mark; /* of OWNER_FOUND */
	uint64_t id;   /* of the question that was asked; 0: none, or it is answered */
	/* The answer has come, or will not. May end the flow. */
	void (*on_answer)(struct flow *f);
};
