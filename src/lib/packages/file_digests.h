/* file_digests.h - digests and sizes of many files, found by path. cordon-egress keeps the content
 * of apt's Packages in this form: 60,000 files in 50 MB of text. Called by package_meta.c. Pure.
 *
 * Only a 64-bit hash of a path is kept, so that a file takes 56 bytes. Two paths with one hash, and
 * a path listed with two digests, are not found, because either digest could be meant. Archives
 * choose the paths, so the hash has a secret seed (text_hash.h). */
#pragma once

#include "lib/base/err.h"
#include "lib/packages/digest.h"

/* A table. All zeros is an empty one. */
struct file_digests {
	struct file_digest *files; /* owned */
	size_t n, room;
	uint32_t *slots; /* owned: a file + 1. Open addressing, at most half full */
	size_t nslots;
};

/* Add a file. d: SHA-256. ERR_LIMIT beyond PACKAGE_META_FACTS. */
int file_digests_add(struct file_digests *t, const char *path, const struct digest *d,
		     uint64_t size, struct err *e) MUST_USE;
/* Find a file. False: unknown or ambiguous. */
bool file_digests_find(const struct file_digests *t, const char *path, struct digest *ret,
		       uint64_t *ret_size);
size_t file_digests_memory(const struct file_digests *t);
void file_digests_release(struct file_digests *t);
