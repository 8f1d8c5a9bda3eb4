/* cache_worker.h - a thread for what waits for the disk: fdatasync of a new object, and hashing an
 * object again. The loop of the process never waits for either. Jobs are done one after the other,
 * in the order in which they were given. Each ends exactly once, in the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/loop/loop.h"

struct cache_worker;

struct cache_job {
	/* The owner's. Called from the loop. */
	void (*on_done)(struct cache_job *j);
	void *arg;
	int fd;	      /* borrowed until then */
	bool is_hash; /* false: fdatasync */
	/* For the result. */
	int error; /* errno. 0: it worked */
	uint8_t sha256[32];
	uint64_t size;
	struct cache_job *next; /* the worker's */
};

/* Start the thread. */
struct cache_worker *cache_worker_new(struct loop *l, struct err *e) MUST_USE;
/* There is no way to stop it: the process ends with its loop. */
void cache_worker_add(struct cache_worker *w, struct cache_job *j);
