/* spool.h - an upload on its way to a file that cordon-storage writes (STORAGE_SPOOL): cordond
 * passes the bytes on and never waits for a disk. Used by imports and by archives of builds.
 *
 * A spool ends exactly once by on_end, from the loop, or is cancelled. Then nothing is left of it.
 * It may end before all content was passed on: the disk is full, cordon-storage was killed. */
#pragma once

#include "daemon/disk/storage_feed.h"
#include "daemon/disk/storage_link.h"

struct spool {
	void *arg; /* the owner's */
	/* There is room for content. */
	void (*on_room)(struct spool *s);
	/* It has ended. e is NULL if all is in the file. */
	void (*on_end)(struct spool *s, const struct err *e);
	/* In on_end without an error, until spool_cancel(): */
	int fd; /* owned: the file without a name. -1: it was given */
	uint64_t bytes;
	uint8_t sha256[STORAGE_SHA256]; /* if a file was given */
	/* The rest is for spool.c only. */
	struct storage_link *storage; /* NULL: never started */
	struct storage_feed feed;
	struct storage_job job;
	bool given;
};

struct spool_spec {
	const char *tenant; /* whose it is: storage_link.h */
	uint64_t bytes_max;
	uint32_t reserve_percent; /* of the file system that stay free */
	int file;		  /* borrowed: an empty file to write to. -1: one without a name */
};

/* s: arg and the events are set. */
int spool_start(struct spool *s, struct storage_link *storage, const struct spool_spec *spec,
		struct err *e) MUST_USE;
/* As storage_feed_put() and storage_feed_end(). */
size_t spool_put(struct spool *s, const uint8_t *data, size_t len);
bool spool_end(struct spool *s);
/* Close the file. on_end is not called any more. Allowed at any time, if the structure began as
 * zeros. */
void spool_cancel(struct spool *s);
