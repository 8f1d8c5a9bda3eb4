/* attach.h - a running command as if it ran here: its output goes to stdout and stderr, and stdin,
 * signals and the terminal's size go to it. If the server restarts in the meantime, the client
 * waits and reconnects, and no byte of output is missed or shown twice. */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"
#include "lib/base/buf.h"

/* A command's output printed in the JSON of its execution, as in the API's answer to wait=true: up
 * to 1 MiB of each stream, text as text, other bytes as base64. */
#define KEPT_OUTPUT_MAX ((size_t)1 << 20)

/* Owned by the caller, who passes it in attach_options. cut: some output is missing. */
struct kept_output {
	struct buf out, err;
	bool cut;
};

void kept_output_init(struct kept_output *k);
void kept_output_release(struct kept_output *k);
void kept_output_take(struct kept_output *k, bool is_err, const uint8_t *bytes, size_t n);
/* Add the members stdout, stderr (or stdout_base64, stderr_base64) and inline_truncated. */
int kept_output_add(struct kept_output *k, json_t *execution, struct err *e) MUST_USE;

struct attach_options {
	const char *session, *execution; /* full ids */
	bool input;			 /* stdin goes to the command */
	bool tty;	 /* it has a terminal: the local one becomes raw, its size is followed */
	bool may_detach; /* Ctrl-] in the terminal leaves it running */
	/* Take the results of code. NULL: they are not shown. A callback for results of code, in
	 * the order in which they come. -1 ends the attachment with e. */
	int (*on_results)(void *arg, const uint8_t *bytes, size_t n, struct err *e);
	void *results_arg;
	struct kept_output *kept; /* takes the output instead of stdout and stderr. NULL: nothing */
};

enum { ATTACH_ENDED, ATTACH_DETACHED };

/* Until the command has ended (*ret is the execution, owned by the caller) or was left. */
int attach_run(const struct attach_options *o, struct api_call *a, json_t **ret,
	       struct err *e) MUST_USE;
