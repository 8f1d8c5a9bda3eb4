/* tlog_tile.h - tiles: rows of 256 hashes of a tree, as C2SP's tlog-tiles has them. Pure.
 *
 * Tile `index` of tile level L holds the hashes of 256 complete subtrees of 2^(8 * L) leaves each,
 * from subtree 256 * index on. The last tile of a level holds fewer while the log grows. Only whole
 * tiles need to be kept: hashes above a tile follow from it. */
#pragma once

#include "lib/tlog/tlog.h"

#define TLOG_TILE 256	      /* hashes of a whole tile */
#define TLOG_TILE_BITS 8      /* levels of the tree in a tile */
#define TLOG_TILE_LEVELS 8    /* of the largest log */
#define TLOG_TILE_PATH_MAX 64 /* with NUL */
#define TLOG_TILE_INDEX_MAX (UINT64_MAX >> 9)

struct tlog_tile {
	bool is_entries; /* the records themselves. level is 0 */
	unsigned level;
	uint64_t index;
	unsigned width; /* 1 to 256 */
};

/* "tile/0/x001/067" or "tile/entries/000.p/17". The length is given back. */
size_t tlog_tile_path(const struct tlog_tile *t, char ret[TLOG_TILE_PATH_MAX]);
/* -1: not the one path of a tile. */
int tlog_tile_parse(const char *path, size_t len, struct tlog_tile *ret, struct err *e) MUST_USE;

/* How many hashes that tile has in a log of that size: 0 to 256. */
unsigned tlog_tile_width(uint64_t size, unsigned level, uint64_t index);
/* The root over n hashes of a tile, n a power of two. */
void tlog_tile_sum(const struct tlog_hash *hashes, unsigned n, struct tlog_hash *ret);

/* ---- a reader of nodes (tlog_node_fn) that asks for tiles
 *
 * A log of `size` leaves. read() gives the first `width` hashes of a tile, which stay valid until
 * the next call. */

struct tlog_tiles {
	uint64_t size;
	int (*read)(void *arg, unsigned level, uint64_t index, unsigned width,
		    const struct tlog_hash **ret, struct err *e);
	void *arg;
};

/* arg: a struct tlog_tiles. */
int tlog_tiles_node(void *arg, unsigned level, uint64_t index, struct tlog_hash *ret,
		    struct err *e) MUST_USE;
