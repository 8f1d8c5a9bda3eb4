/* attach.h - a running command as if it ran here: its output on ours, our input, signals and
 * terminal on its. A server that restarts meanwhile is waited for, and no byte of output is missed
 * or shown twice. */
#pragma once

#include <jansson.h>

#include "api_call.h"

struct attach_options {
	const char *session, *execution; /* full ids */
	bool input;			 /* our stdin is the command's */
	bool tty;	 /* it has a terminal: ours becomes raw, its size is followed */
	bool may_detach; /* Ctrl-] in our terminal leaves it running */
};

enum { TALK_ENDED, TALK_DETACHED };

/* Until the command has ended (*ret is the execution, owned by the caller) or was left. */
int attach_run(const struct attach_options *o, struct api_call *a, json_t **ret,
	       struct err *e) MUST_USE;
