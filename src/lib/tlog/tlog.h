/* tlog.h - Merkle trees of logs as RFC 6962 has them: the hashes, a tree that grows, and proofs.
 *
 * cordond makes trees and proofs, cordon-notary verifies proofs, and the client verifies whole
 * logs. A tree is known by its size (leaves) and its root. A function asks a reader for the inner
 * nodes it needs: the hash of a complete subtree. So a proof needs the nodes on two paths, not the
 * log. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#define TLOG_HASH SHA256_SIZE
#define TLOG_LEVELS 63		       /* of complete subtrees: 2^0 to 2^62 leaves */
#define TLOG_SIZE_MAX (UINT64_MAX / 2) /* leaves of a log */
#define TLOG_PROOF_MAX 64	       /* hashes of a proof of any log */

struct tlog_hash {
	uint8_t bytes[TLOG_HASH];
};

static inline bool tlog_hash_equal(const struct tlog_hash *a, const struct tlog_hash *b)
{
	return __builtin_memcmp(a->bytes, b->bytes, TLOG_HASH) == 0;
}

/* The hash of a leaf, a node above two, and the tree without leaves. */
void tlog_leaf(const void *data, size_t len, struct tlog_hash *ret);
void tlog_node(const struct tlog_hash *left, const struct tlog_hash *right, struct tlog_hash *ret);
void tlog_empty(struct tlog_hash *ret);

/* ---- a tree that grows: the roots of its largest complete subtrees
 *
 * nodes[level] is valid where that bit of size is set. All zeros: the tree without leaves. */

struct tlog_range {
	uint64_t size;
	struct tlog_hash nodes[TLOG_LEVELS];
};

/* Append a complete subtree of 2^level leaves. size must be a multiple of that: false otherwise,
 * and beyond TLOG_SIZE_MAX, and nothing changes. Level 0: a leaf's hash. */
bool tlog_range_add(struct tlog_range *r, unsigned level, const struct tlog_hash *hash) MUST_USE;
void tlog_range_root(const struct tlog_range *r, struct tlog_hash *ret);

/* As bytes: a hash for each bit of the size, of the largest subtree first. ret has room for
 * TLOG_LEVELS hashes. Return how many. */
unsigned tlog_range_write(const struct tlog_range *r, struct tlog_hash *ret);
/* False: n hashes are not those of that size. */
bool tlog_range_read(uint64_t size, const struct tlog_hash *hashes, size_t n,
		     struct tlog_range *ret) MUST_USE;

/* ---- proofs */

/* The hash of the complete subtree of 2^level leaves that begins at leaf index << level. -1: it
 * cannot be read. */
typedef int tlog_node_fn(void *arg, unsigned level, uint64_t index, struct tlog_hash *ret,
			 struct err *e);

struct tlog_proof {
	unsigned n;
	struct tlog_hash hashes[TLOG_PROOF_MAX];
};

/* The root of the first `size` leaves. */
int tlog_root(uint64_t size, tlog_node_fn *node, void *arg, struct tlog_hash *ret,
	      struct err *e) MUST_USE;
/* That a leaf is in the tree of that size. */
int tlog_prove_inclusion(uint64_t index, uint64_t size, tlog_node_fn *node, void *arg,
			 struct tlog_proof *ret, struct err *e) MUST_USE;
/* That the tree with old_size leaves is the beginning of the one with that size. */
int tlog_prove_consistency(uint64_t old_size, uint64_t size, tlog_node_fn *node, void *arg,
			   struct tlog_proof *ret, struct err *e) MUST_USE;

bool tlog_inclusion_holds(uint64_t index, uint64_t size, const struct tlog_hash *leaf,
			  const struct tlog_hash *root, const struct tlog_proof *proof) MUST_USE;
/* The tree without leaves is the beginning of every tree: its proof is empty, old_root is not
 * looked at. */
bool tlog_consistency_holds(uint64_t old_size, uint64_t size, const struct tlog_hash *old_root,
			    const struct tlog_hash *root, const struct tlog_proof *proof) MUST_USE;
