/* file_digests.h - digests and sizes of many files, found by path: what cordon-egress keeps of
 * apt's Packages, which list 60,000 files in 50 MB of text. Called by package_meta.c. Pure.
 *
 * Of a path only a hash of 64 bits is kept, so that a file takes 56 bytes. Two paths with one hash,
 * and a path that is listed with two digests, are not found: which one is meant is not known.
 * An archive can choose the digests of its list anyway, so the hash need not be a secret. */
#pragma once

#include "digest.h"
#include "err.h"

struct file_digests {
	struct file_digest *files; /* owned */
	size_t n, room;
	uint32_t *slots; /* owned: a file + 1; open addressing, at most half full */
	size_t nslots;
};

/* All zeros is an empty one. d: SHA-256. ERR_LIMIT beyond PACKAGE_META_FACTS. */
int file_digests_add(struct file_digests *t, const char *path, const struct digest *d,
		     uint64_t size, struct err *e) MUST_USE;
bool file_digests_find(const struct file_digests *t, const char *path, struct digest *ret,
		       uint64_t *ret_size);
size_t file_digests_memory(const struct file_digests *t);
void file_digests_release(struct file_digests *t);
