/* attach.h - a running command as if it ran here: its output goes to stdout and stderr, and stdin,
 * signals and the terminal's size go to it. If the server restarts in the meantime, the client
 * waits and reconnects, and no byte of output is missed or shown twice. */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"
#include "cmd/client/kept_output.h"

struct attach_options {
	const char *session, *execution; /* full ids */
	bool input;			 /* stdin goes to the command */
	bool tty;	 /* it has a terminal: the local one becomes raw, its size is followed */
	bool may_detach; /* Ctrl-] in the terminal leaves it running */
	/* Take the results of code. NULL: they are not shown. */
	int (*on_results)(void *arg, const uint8_t *bytes, size_t n, struct err *e);
	void *results_arg;
	struct kept_output *kept; /* takes the output instead of stdout and stderr. NULL: nothing */
};

enum { ATTACH_ENDED, ATTACH_DETACHED };

/* Until the command has ended (*ret is the execution, owned by the caller) or was left. */
int attach_run(const struct attach_options *o, struct api_call *a, json_t **ret,
	       struct err *e) MUST_USE;
