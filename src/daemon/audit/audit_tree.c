/* audit_tree.c - see audit_tree.h. */
#include "daemon/audit/audit_tree.h"

#include <string.h>

#include "lib/tlog/tlog_tile.h"

/* ---- growth */

struct tree_step {
	struct tlog_hash hashes[TLOG_TILE]; /* of the tile that grows */
	unsigned n;
	uint64_t next; /* the number of the next record */
	uint64_t bytes;
	bool gap;
};

static int on_record(const struct store_audit *row, void *cookie)
{
	struct tree_step *t = cookie;

	if (store_audit_seq(row) != t->next) {
		t->gap = true;
		return 1;
	}
	tlog_leaf(row->leaf, row->leaf_len, &t->hashes[t->n++]);
	t->next++;
	t->bytes += row->leaf_len + strlen(row->side);
	return 0;
}

int audit_tree_tile(struct store *s, uint64_t log, unsigned level, uint64_t index, unsigned n,
		    struct tlog_hash ret[TLOG_TILE], struct err *e)
{
	int len = store_audit_tile_get(s, log, level, index, (uint8_t *)ret, e);

	return len < 0 ? -1 : (size_t)len >= n * sizeof(*ret);
}

static int tree_read_tile(struct store *s, uint64_t log, unsigned level, uint64_t index, unsigned n,
			  struct tlog_hash ret[TLOG_TILE], struct err *e)
{
	int found = audit_tree_tile(s, log, level, index, n, ret, e);

	if (found < 0)
		return -1;
	if (found == 0)
		return err_set(e, ERR_INVALID, "audit: tile %u/%llu of log %llu is missing", level,
			       (unsigned long long)index, (unsigned long long)log);
	return 0;
}

/* A tile is whole: its root is the next hash of the level above. */
static int tree_rise(struct store *s, uint64_t log, uint64_t index,
		     struct tlog_hash hashes[TLOG_TILE], struct err *e)
{
	struct tlog_hash sum;

	for (unsigned level = 1; level < TLOG_TILE_LEVELS; level++) {
		unsigned n = (unsigned)(index % TLOG_TILE);

		tlog_tile_sum(hashes, TLOG_TILE, &sum);
		index /= TLOG_TILE;
		if (n > 0 && tree_read_tile(s, log, level, index, n, hashes, e) < 0)
			return -1;
		hashes[n++] = sum;
		if (store_audit_tile_put(s, log, level, index, hashes, n * sizeof(*hashes), e) < 0)
			return -1;
		if (n < TLOG_TILE)
			return 0;
	}
	return 0;
}

static int tree_grow(struct store *s, const struct store_audit_log *log, uint64_t size,
		     struct tree_step *t, struct err *e)
{
	uint64_t index = log->hashed / TLOG_TILE, left = size - log->hashed;
	unsigned room = TLOG_TILE - (unsigned)(log->hashed % TLOG_TILE);
	const struct store_audit_filter rows = { .log = log->id,
						 .from = log->hashed,
						 .limit = left < room ? (unsigned)left : room };

	*t = (struct tree_step){ .n = (unsigned)(log->hashed % TLOG_TILE), .next = log->hashed };
	if (t->n > 0 && tree_read_tile(s, log->id, 0, index, t->n, t->hashes, e) < 0)
		return -1;
	if (store_audit_list(s, &rows, on_record, t, NULL, e) < 0)
		return -1;
	if (t->gap || t->next != log->hashed + rows.limit)
		return err_set(e, ERR_INVALID, "audit: record %llu of log %llu is missing",
			       (unsigned long long)t->next, (unsigned long long)log->id);
	if (store_audit_tile_put(s, log->id, 0, index, t->hashes, t->n * sizeof(t->hashes[0]), e) <
	    0)
		return -1;
	if (t->n == TLOG_TILE && tree_rise(s, log->id, index, t->hashes, e) < 0)
		return -1;
	if (store_audit_index(s, log->id, log->hashed, t->next, e) < 0)
		return -1;
	return store_audit_log_hashed(s, log->id, t->next, t->bytes, e);
}

int audit_tree_step(struct store *s, struct store_audit_log *log, uint64_t size, struct err *e)
{
	struct tree_step t;

	if (log->hashed >= size)
		return 0;
	if (store_begin(s, e) < 0)
		return -1;
	if (tree_grow(s, log, size, &t, e) < 0 || store_commit(s, e) < 0) {
		store_rollback(s);
		return -1;
	}
	log->hashed = t.next;
	log->bytes += t.bytes;
	return log->hashed < size;
}

/* ---- proofs */

struct tree_reader {
	struct store *store;
	uint64_t log;
	struct tlog_hash hashes[TLOG_TILE];
};

static int tree_read(void *arg, unsigned level, uint64_t index, unsigned width,
		     const struct tlog_hash **ret, struct err *e)
{
	struct tree_reader *t = arg;

	*ret = t->hashes;
	return tree_read_tile(t->store, t->log, level, index, width, t->hashes, e);
}

int audit_tree_root(struct store *s, uint64_t log, uint64_t size, struct tlog_hash *ret,
		    struct err *e)
{
	struct tree_reader reader = { .store = s, .log = log };
	struct tlog_tiles tiles = { .size = size, .read = tree_read, .arg = &reader };

	return tlog_root(size, tlog_tiles_node, &tiles, ret, e);
}

int audit_tree_prove(struct store *s, uint64_t log, uint64_t old_size, uint64_t size,
		     struct tlog_proof *ret, struct err *e)
{
	struct tree_reader reader = { .store = s, .log = log };
	struct tlog_tiles tiles = { .size = size, .read = tree_read, .arg = &reader };

	return tlog_prove_consistency(old_size, size, tlog_tiles_node, &tiles, ret, e);
}
