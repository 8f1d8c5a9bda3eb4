/* stream_in.h - reads an archive from a descriptor: plain, gzip or zstd, told apart by its first
 * bytes. Counts and hashes the uncompressed bytes. For untrusted input. Blocks. Called by the
 * unpackers of archives, in a worker.
 *
 * gzip members and zstd frames may follow each other. The data behind the end of the archive inside
 * of them is part of the stream, and of its hash. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/base/sha256.h"

struct stream_in;

/* Where bytes come from: as read(2), but -1 with an error. */
typedef ssize_t stream_in_fn(void *arg, void *ret, size_t cap, struct err *e);

/* Begins. bytes_max: of the uncompressed stream. More is ERR_LIMIT, as is a stream of more than
 * STREAM_IN_RATIO times its compressed size, once it has STREAM_IN_RATIO_FREE bytes. hash: whether
 * the SHA-256 is wanted. The caller frees it. */
#define STREAM_IN_RATIO 100
#define STREAM_IN_RATIO_FREE (100U << 20)
struct stream_in *stream_in_new(stream_in_fn *read, void *arg, uint64_t bytes_max, bool hash,
				struct err *e) MUST_USE;
/* As above, from a borrowed descriptor. */
struct stream_in *stream_in_fd(int fd, uint64_t bytes_max, bool hash, struct err *e) MUST_USE;
/* As above, from a part of a file. */
struct stream_in *stream_in_part(int fd, uint64_t from, uint64_t len, uint64_t bytes_max, bool hash,
				 struct err *e) MUST_USE;
void stream_in_free(struct stream_in *s);

/* Return the number of uncompressed bytes read, 0 at the end, or -1. */
ssize_t stream_in_read(struct stream_in *s, void *ret, size_t cap, struct err *e) MUST_USE;

/* Move up to n bytes to a file without a copy here, where possible: from a pipe neither compressed
 * nor hashed, once the bytes read before are used up. Return how many. 0: none can be moved, and
 * they are to be read. */
ssize_t stream_in_splice(struct stream_in *s, int to, uint64_t n, struct err *e) MUST_USE;

/* For a descriptor whose other end is a guest's: an error if nothing comes for so long. */
void stream_in_set_silence(struct stream_in *s, uint32_t ms);

/* All bytes that come from now on are shown to this function, in their order. */
typedef void stream_in_watch_fn(void *arg, const void *bytes, size_t n);
void stream_in_set_watch(struct stream_in *s, stream_in_watch_fn *watch, void *arg);

/* Known after the first read. */
bool stream_in_is_compressed(const struct stream_in *s);

/* Uncompressed bytes so far. */
uint64_t stream_in_total(const struct stream_in *s);

/* Read the rest, and return the SHA-256 of the whole stream. */
int stream_in_finish(struct stream_in *s, uint8_t ret[SHA256_SIZE], struct err *e) MUST_USE;
