/* layer_make.h - makes a layer: in a new directory, by a worker that can change nothing else, then
 * synced and renamed to its id. So a layer with an id is whole and on disk. After an error nothing
 * of it is left. Called by the operations that make layers, in a runner. */
#pragma once

#include "storage/storage_ops.h"

struct layer_make {
	const char *id;
	const char (*lower)[STORAGE_ID_MAX]; /* layers that the worker may read, the lowest first */
	unsigned nlower;
	bool links;	 /* files of these layers are linked into the new one */
	bool synced;	 /* what the worker has made is on disk when it is done */
	const int *read; /* borrowed: further directories that the worker may read. -1: none */
	unsigned nread;
	/* In the worker: fills the directory `top`. lower: directories of the layers. Set bytes,
	 * entries and sha256 of the answer. */
	int (*work)(void *arg, int top, const int *lower, struct storage_reply *reply,
		    struct err *e);
	void *arg;
};

/* ERR_CONFLICT: there is a layer with that id. ERR_NOT_FOUND: one of the lower ones is missing. */
int layer_make(struct storage_run *run, const struct layer_make *m, struct err *e) MUST_USE;

/* As above, in the same jail, but nothing is kept of the directory: for operations whose result is
 * in descriptors. m->id is not used. */
int layer_make_nothing(struct storage_run *run, const struct layer_make *m, struct err *e) MUST_USE;

/* For workers: makes the directory of place 0, the root directory of cells, and opens it, and opens
 * those of the lower layers, which the worker keeps open until it ends. */
int layer_make_root(int top, const int *lower, unsigned nlower, int *ret_lower,
		    struct err *e) MUST_USE;
