/* session_memory.h - takes the memory of a session's guest, at a level with CELL_CAN_KEEP_MEMORY:
 * for a pause to disk, a snapshot or a fork. Used by session_suspend.c, snapshot.c and
 * session_fork.c.
 *
 * The guest is stopped while its memory is copied by cordon-shim. For a pause it stays stopped.
 * Then cordon-storage saves the image as a layer, or copies it if wanted in memory only: the memory
 * file of cordon-shim is charged to the session's cell, and is closed in any case. If a step fails
 * the guest continues. One at a time for a session.
 *
 * Children of a fork map the image that their source maps, if known, and get copies of the source's
 * changed pages, as long as these take less memory than a new image would. The memory file with the
 * changes is needed until they have started, so it is not copied: it is charged to the cell of the
 * source, and counts as memory of the tenant. The cell has room for one such file (session.lends):
 * the writer of another waits until it is given back. */
#pragma once

#include "daemon/cells/live_guest.h"
#include "daemon/disk/layers.h"
#include "daemon/session/session.h"
#include "daemon/session/session_op.h"

struct guest_image;

enum session_memory_how {
	SESSION_MEMORY_STAY = 1 << 0, /* the guest stays stopped if all works */
	SESSION_MEMORY_SAVE = 1 << 1, /* a layer. Else only in memory, and the guest continues */
};

struct session_memory {
	struct session_op op;	/* first. session_memory.c's */
	struct completion done; /* on_done and arg are the caller's */
	/* When done ends without error: the root image that belongs to it, with SAVE the layer,
	 * with a use of kind STORE_LAYER_HELD until session_memory_release(), and the image.
	 */
	char root[STORE_ID_MAX], layer[STORE_ID_MAX];
	char held[STORE_ID_MAX]; /* without SAVE: the image counts by this name (image_charge.h) */
	uint64_t bytes;
	int image[LIVE_GUEST_IMAGE]; /* owned. Or -1 */
	/* For a fork: the image below the changes in image[0], and its charge. */
	int base; /* owned. -1: image[0] is the whole memory */
	char base_held[STORE_ID_MAX];
	uint64_t base_bytes;
	char lender[STORE_ID_MAX]; /* the lending session. Or "" */
	/* The rest is session_memory.c's. */
	struct core *core; /* NULL: never begun */
	unsigned how;
	char kind[STORE_LAYER_KIND_MAX];
	unsigned children; /* of the image, with the session's settings */
	bool waits;	   /* the session lends its changes */
	bool stopped;	   /* the guest is, by us */
	struct live_guest_call call;
	struct storage_job job;
	struct layer_writing writing;
};

/* kind: for store_layer. children: sessions that a fork makes of it, or 0. ERR_CONFLICT: another
 * one is in progress, or the session does not run. */
void session_memory(struct session *s, const char *kind, unsigned how, unsigned children,
		    struct session_memory *m);
/* done does not end. A guest stopped for it continues. The caller has its own uses of the layer by
 * now, or does not need it. Repeatable. */
void session_memory_release(struct session_memory *m);

/* An allocated one, with its callback, and its release. *m may be NULL. */
struct session_memory *session_memory_new(completion_fn *on_done, void *arg);
void session_memory_free(struct session_memory **m);

/* It was begun, and will end with changes or an error. */
bool session_memory_gives_changes(const struct session_memory *m);

/* A session does not lend its changes any more. "": nothing. */
void session_memory_give_back(struct core *c, char lender[STORE_ID_MAX]);

/* Let a guest run that an earlier daemon, or a pause that failed, may have left stopped. */
void session_memory_go_on(struct session *s);
