/* clone.h - git clone in a session that create_session has made: an ordinary execution of its
 * default user in its working directory, under its network policy, ended after CLONE_S seconds.
 * tool_create_session.c calls it, and ends the session if it fails. */
#pragma once

#include "execution.h"
#include "repository_arg.h"
#include "run_end.h"
#include "run_progress.h"
#include "spec_exec.h"

#define CLONE_S 120

/* The first member of the tool's own state. */
struct clone {
	struct tool_call *c;
	struct repository_arg arg;
	struct spec_exec spec;
	bool has_spec;
	struct execution_follower follower;
	struct run_end end;
	struct run_progress progress;
	struct loop_timer grace;
	char commit[65]; /* of HEAD, when the files are there; "": none, or not known */
	/* why is NULL: the files are there. Else a text for the model. */
	void (*on_cloned)(struct clone *k, const char *why);
};

/* Reads the argument; k is all zero. Nothing is started on failure. */
int clone_read(struct clone *k, struct tool_call *c, const struct json_node *arg,
	       struct err *e) MUST_USE;
/* on_cloned is set, the session runs. If the session ends meanwhile, the call is answered here, and
 * on_cloned is not called. On failure of the start nothing is called. */
int clone_start(struct clone *k, struct session *s, struct err *e) MUST_USE;
/* For the tool's progress(). */
bool clone_progress(struct clone *k, uint64_t *ret_done, struct buf *message);
void clone_release(struct clone *k); /* safe if it is all zero */
