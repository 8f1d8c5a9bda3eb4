/* image_sizes.h - the bytes that the images of disks and volumes really take, and by how much each
 * has grown since a moment. Used by session_room.c while the storage folder has little room.
 *
 * Cordon-storage measures them. No program in a cell is asked. A volume without an image (those of
 * a rootless server) is measured by a walk over its files within WALK_MS: who keeps so many files
 * that this is too short has a volume of unknown size. */
#pragma once

#include "daemon/disk/storage_link.h"

#define IMAGE_SIZES_BUCKETS 1024

struct image_size;

struct image_sizes {
	struct storage_link *link; /* borrowed */
	/* The sizes are those of now. Called from the loop. */
	void (*on_measured)(void *arg);
	void *arg;
	/* The rest is image_sizes.c's. */
	struct storage_job job;
	int fd;		       /* owned: the answer. -1: not asked */
	struct loop_task read; /* of the answer, in pieces */
	uint64_t at;	       /* of the answer: read up to here */
	uint64_t rounds;       /* answers since the table was empty */
	bool is_fixed;
	struct image_size *table[IMAGE_SIZES_BUCKETS]; /* owned */
};

void image_sizes_init(struct image_sizes *t, struct storage_link *link);
/* Repeatable, and allowed for one of all zeros. */
void image_sizes_release(struct image_sizes *t);

/* Measure, unless one is in progress. */
void image_sizes_ask(struct image_sizes *t);
/* True: growth counts from the last answer before this call. False: from each answer again. */
void image_sizes_fix(struct image_sizes *t, bool is_fixed);
/* Forget all sizes. */
void image_sizes_forget(struct image_sizes *t);

/* A session of that tenant writes to its disk, or to a volume. Without an image a volume is
 * measured from now on, too. An image keeps its tenant until all is forgotten. */
void image_sizes_claim(struct image_sizes *t, const char *id, const char *tenant, bool is_volume);

#define IMAGE_SIZES_UNKNOWN UINT64_MAX

/* The growth of an image. IMAGE_SIZES_UNKNOWN: it could not be measured in time. */
uint64_t image_sizes_grown(const struct image_sizes *t, const char *id);
/* Call add for each grown image with a tenant. */
void image_sizes_each_grown(const struct image_sizes *t,
			    void (*add)(const char *tenant, uint64_t bytes, void *arg), void *arg);
