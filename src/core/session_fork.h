/* session_fork.h - sessions that begin with the files of another: one capture, N new sessions.
 *
 * Each has fresh processes, an id of its own, and from the source its template, limits,
 * environment, metadata, rules, mounts, network policy and secrets (by name: their values are
 * delivered anew) and what happens at its timeout. The source goes on. A new session that is
 * refused or fails does not affect the others. */
#pragma once

#include "snapshot.h"

#define SESSION_FORK_MAX 100

struct guest_image;
struct session_memory;

struct session_fork_one {
	struct session_fork *fork;
	struct completion wait;
	struct session *session; /* while it is being made */
	char id[STORE_ID_MAX];	 /* "": there is none */
	bool failed;
	struct err err; /* if so */
};

struct session_fork {
	struct completion done; /* on_done and arg are the caller's; it always ends without error
				   unless the capture failed */
	unsigned n;
	struct session_fork_one *list;	/* owned; n of them when done ends */
	char snapshot[SNAPSHOT_ID_MAX]; /* if one was asked for */
	/* The rest is session_fork.c's. */
	struct core *core;
	struct session *source; /* until the capture is done, and while sessions are made */
	struct tenant *tenant;
	uint64_t timeout_ms;
	bool timeout_given;
	bool by_snapshot;
	unsigned waiting;
	struct session_capture capture;
	struct session_memory *memory; /* owned: at a level that keeps it: instead of a capture */
	struct guest_image *image;
	bool early;		     /* its only child is started while the memory is taken */
	struct template_stack stack; /* of the new sessions */
	struct layer_fold fold;
	char id[STORE_ID_MAX]; /* of the source */
	struct snapshot made;
	struct store_actor actor;
};

/* keep_snapshot: the files are kept as a snapshot, too. */
void session_fork(struct session *s, unsigned n, bool timeout_given, uint64_t timeout_ms,
		  bool keep_snapshot, const struct store_actor *who, struct session_fork *f);
/* Allowed at any time, also after done: frees it. If done has not ended, it does not, and the
 * sessions that were made are deleted. */
void session_fork_release(struct session_fork *f);
