/* attach_input.h - the state of an attached command, and how the server's messages change
 * it. Only for attach.c. */
#pragma once

#include "attach.h"
#include "terminal.h"

#define ATTACH_PIECE 16384

enum { ATTACH_OUT = 1, ATTACH_ERR = 2, ATTACH_RESULTS = 4, ATTACH_CHANNELS };
enum { ATTACH_DONE, ATTACH_LOST };

struct attach {
	const struct attach_options *o;
	struct api_call *a;
	int signals;
	struct terminal terminal;
	uint64_t seen[ATTACH_CHANNELS];	 /* bytes passed on */
	uint64_t skip[ATTACH_CHANNELS];	 /* bytes that are about to be repeated */
	bool closed[ATTACH_CHANNELS];	 /* stdout or stderr has no reader any more */
	char cursor[128];		 /* the last position that the server sent, or "" */
	uint64_t known[ATTACH_CHANNELS]; /* bytes before it */
	uint8_t piece[ATTACH_PIECE];	 /* input not sent yet */
	size_t have;
	bool input_ended, end_sent, detached, cut;
	bool pipe_broke; /* a failure must be reported */
	bool finished;	 /* ended, and no output is missing */
	unsigned interrupts;
	uint64_t terminate_ns; /* when the client ends without waiting on; 0: not told to */
	json_t *ended;
};

/* Takes every message that is here: 0 (ATTACH_DONE if t->finished), ATTACH_LOST with the
 * connection, -1 with e set. */
int attach_input(struct attach *t, struct err *e) MUST_USE;
