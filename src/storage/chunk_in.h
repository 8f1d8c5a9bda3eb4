/* chunk_in.h - content that cordond passes on from a client, in chunks (file_msg.h): the last one
 * is empty, so that truncated content is told from complete content. Called by workers and runners,
 * each of which reads one such stream. */
#pragma once

#include <sys/types.h>

#include "lib/base/err.h"

/* The next bytes: 0 after the last chunk, -1 (ERR_CONFLICT) if the content was cut off before. */
ssize_t chunk_in_read(int fd, void *ret, size_t cap, struct err *e) MUST_USE;
