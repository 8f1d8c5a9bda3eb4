/* session_fork.h - makes sessions that begin with the files of another session: one capture, N new
 * sessions.
 *
 * Each child has fresh processes and an id of its own. From the source it has template, limits,
 * environment, metadata, rules, mounts, network policy, secrets (by name: their values are
 * delivered again) and the action at its timeout. The source continues. A refused or failed child
 * does not affect the others.
 */
#pragma once

#include "daemon/template/snapshot.h"

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
	struct completion done; /* on_done and arg are the caller's. It always ends without error
				   unless the capture failed */
	unsigned n;
	struct session_fork_one *list;	/* owned. n of them when done ends */
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
	struct session_memory
		*memory; /* owned: replaces the capture at a level that keeps memory */
	struct guest_image *image;
	bool early;		     /* its only child starts while the memory is saved */
	struct template_stack stack; /* of the new sessions */
	struct layer_fold fold;
	char id[STORE_ID_MAX]; /* of the source */
	struct snapshot made;
	struct store_actor actor;
};

/* Fork the session. keep_snapshot: keep the files as a snapshot, too. */
void session_fork(struct session *s, unsigned n, bool timeout_given, uint64_t timeout_ms,
		  bool keep_snapshot, const struct store_actor *who, struct session_fork *f);
/* Free the fork. Allowed at any time, also after done. Before done ends: cancel it and delete the
 * new sessions. */
void session_fork_release(struct session_fork *f);
