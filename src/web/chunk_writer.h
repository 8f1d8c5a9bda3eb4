/* chunk_writer.h - sends bytes to a built-in of the cell in chunks (file_msg.h), so that the cell
 * can distinguish complete content from content that was cut off. */
#pragma once

#include "file_call.h"

struct chunk_writer {
	struct file_call *call;
	uint64_t known;	     /* bytes that certainly follow; 0: unknown */
	uint64_t chunk_left; /* of the chunk that was announced */
	uint8_t head[FILE_MSG_CHUNK_HEAD];
	size_t head_left; /* bytes of a head not yet taken */
	bool ending;	  /* the last, empty chunk is on its way */
};

/* For a call that has just been started. known: the length of the content; chunks are then as long
 * as possible. 0: the length is unknown. */
void chunk_writer_init(struct chunk_writer *k, struct file_call *c, uint64_t known);
/* Takes up to len bytes and returns how many. Fewer than len: there is no room now, and the call's
 * room event follows. If the call is over or has failed, the bytes are dropped and len is returned.
 */
size_t chunk_writer_put(struct chunk_writer *k, const uint8_t *data, size_t len);
/* The content is complete. */
void chunk_writer_end(struct chunk_writer *k);
/* In the call's room event: true, if chunk_writer_put() may be called. */
bool chunk_writer_room(struct chunk_writer *k);
