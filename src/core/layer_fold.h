/* layer_fold.h - makes one layer of several, so that stacks stay short: sessions that are paused
 * without memory again and again, forks of forks, and snapshots of snapshots. Used by
 * session_cold.c, session_fork.c and snapshot.c.
 *
 * A session's own layers are folded above those of its template, which stay. Files are linked, not
 * copied. If that fails, the stack stays as it is. */
#pragma once

#include "layers.h"
#include "template_stack.h"

#define LAYER_FOLD_ABOVE 10 /* layers that a stack may have without being folded */

struct layer_fold {
	struct completion done; /* on_done and arg are the caller's; it ends without error */
	/* The rest is layer_fold.c's. */
	struct core *core;
	struct template_stack *stack; /* the caller's */
	size_t stay;
	struct layer_writing writing;
	struct storage_job job;
	char layer[STORE_ID_MAX]; /* the new one, which has a use of kind STORE_LAYER_HELD; "": none
				   */
};

/* Folds the stack above its lowest `stay` layers, if it is high; *s is changed when done ends. Its
 * base is what its lowest layer stands on. */
void layer_fold(struct core *c, const char *tenant, struct template_stack *s, size_t stay,
		struct layer_fold *f);
/* The caller has uses of its own now, or gives up: done does not end any more. Repeatable. */
void layer_fold_release(struct layer_fold *f);
