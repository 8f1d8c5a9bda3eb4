/* audit_tree.h - the Merkle tree of a log: hashes of its records, kept as tiles (C2SP tlog-tiles).
 *
 * The tree follows the records: a step hashes the next ones and writes their tile. A level-0 tile
 * holds 256 hashes of leaves, a tile above holds 256 roots of whole tiles. The last tile of a level
 * is partial, and is written again as it grows. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/store_audit.h"
#include "lib/tlog/tlog.h"
#include "lib/tlog/tlog_tile.h"

#define AUDIT_TREE_STEP 256 /* records hashed in one step, at most */

/* Hash the records from log->hashed to `size`, at most a tile of them, and note it in the store and
 * in *log. Return 1 if there are more, 0 if there are none. -1: of the store, or ERR_INVALID: a
 * record is missing. */
int audit_tree_step(struct store *s, struct store_audit_log *log, uint64_t size,
		    struct err *e) MUST_USE;

/* Read a tile of at least n hashes. Return 1, or 0 if it is not there. */
int audit_tree_tile(struct store *s, uint64_t log, unsigned level, uint64_t index, unsigned n,
		    struct tlog_hash ret[TLOG_TILE], struct err *e) MUST_USE;

/* The root of the first `size` records, all hashed. */
int audit_tree_root(struct store *s, uint64_t log, uint64_t size, struct tlog_hash *ret,
		    struct err *e) MUST_USE;
int audit_tree_prove(struct store *s, uint64_t log, uint64_t old_size, uint64_t size,
		     struct tlog_proof *ret, struct err *e) MUST_USE;
