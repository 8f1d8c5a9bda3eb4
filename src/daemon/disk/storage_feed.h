/* storage_feed.h - the input of a stream for cordon-storage: a pipe that cordond writes the content
 * to in chunks (file_msg.h), as fast as the reader takes it and never waiting for it. Used by
 * spool.h and by writes to volumes.
 *
 * A feed closed before its end lets the reader see that the content is incomplete. */
#pragma once

#include "lib/loop/loop.h"

struct err;

struct storage_feed {
	struct loop *loop; /* borrowed */
	int fd;		   /* owned. -1: closed */
	struct loop_fd watch;
	void (*on_room)(void *arg); /* after a call that took less than it was given */
	void *arg;
	uint8_t head[8]; /* of a chunk, not yet written */
	size_t head_left;
	uint64_t chunk_left;
};

/* Make the pipe. *ret_its: the end for cordon-storage, owned by the caller. After an error the
 * feed is closed. */
int storage_feed_open(struct storage_feed *f, struct loop *l, void (*on_room)(void *arg), void *arg,
		      int *ret_its, struct err *e) MUST_USE;
/* Take up to len bytes, and return how many: on_room follows if fewer. A lost reader and a closed
 * feed take all: the answer to the request says why. */
size_t storage_feed_put(struct storage_feed *f, const uint8_t *data, size_t len);
/* The content is complete. Called again from on_room until it returns true. */
bool storage_feed_end(struct storage_feed *f);
/* Repeatable. */
void storage_feed_close(struct storage_feed *f);
