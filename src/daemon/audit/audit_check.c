/* audit_check.c - see audit_check.h. */
#include "daemon/audit/audit_check.h"

#include <string.h>

#include "daemon/audit/audit_private.h"
#include "daemon/audit/audit_tree.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/tlog/tlog_tile.h"

const char *audit_check_name(enum audit_check_result result)
{
	static const char *const names[] = { "not finished", "good", "changed", "missing",
					     "nothing signed" };

	return names[result];
}

int audit_check_begin(struct audit *a, const char *tenant, struct audit_check *ret, struct err *e)
{
	struct store_audit_log row;

	*ret = (struct audit_check){ .audit = a };
	str_copy(ret->tenant, tenant);
	if (store_audit_log_get(a->store, tenant, 0, &row, e) < 0)
		return -1;
	ret->log = row.id;
	ret->epoch = row.epoch;
	ret->first = row.first;
	ret->size = row.note_size;
	memcpy(ret->root, row.note_root, sizeof(ret->root));
	ret->result = row.note_size == 0 ? AUDIT_CHECK_UNSIGNED : AUDIT_CHECK_RUNS;
	store_audit_log_release(&row);
	return 0;
}

static int audit_check_wrong(struct audit_check *c, enum audit_check_result result, uint64_t at)
{
	c->result = result;
	c->at = at;
	log_error("an audit log is not as it was signed", "tenant=%s found=%s record=%llu",
		  c->tenant, audit_check_name(result), (unsigned long long)at);
	if (result == AUDIT_CHECK_MISSING)
		audit_record_missing(c->audit, c->tenant, c->epoch);
	return 0;
}

/* Records are deleted in whole tiles, also between two steps. */
static int renew_first(struct audit_check *c, struct err *e)
{
	struct store_audit_log row;

	if (store_audit_log_get(c->audit->store, c->tenant, c->epoch, &row, e) < 0)
		return -1;
	c->first = row.first;
	store_audit_log_release(&row);
	return 0;
}

struct compared {
	const struct tlog_hash *hashes;
	uint64_t from, next;
	bool changed, gap;
};

static int on_record(const struct store_audit *row, void *cookie)
{
	struct compared *m = cookie;
	struct tlog_hash hash;

	m->gap = store_audit_seq(row) != m->next;
	if (m->gap)
		return 1;
	tlog_leaf(row->leaf, row->leaf_len, &hash);
	m->changed = memcmp(&hash, &m->hashes[m->next - m->from], sizeof(hash)) != 0;
	m->next += m->changed ? 0 : 1;
	return m->changed ? 1 : 0;
}

/* The records of a tile of n hashes. Return 1 if they are those that were signed. */
static int compare_records(struct audit_check *c, const struct tlog_hash *hashes, unsigned n,
			   struct err *e)
{
	const uint64_t from = c->tile * TLOG_TILE;
	struct compared m = { .hashes = hashes, .from = from, .next = from };
	const struct store_audit_filter rows = { .log = c->log, .from = from, .limit = n };

	if (from < c->first)
		return 1; /* deleted by retention: their hashes stay */
	if (store_audit_list(c->audit->store, &rows, on_record, &m, NULL, e) < 0)
		return -1;
	if (m.changed)
		return audit_check_wrong(c, AUDIT_CHECK_CHANGED, m.next);
	if (m.next != from + n) {
		if (renew_first(c, e) < 0)
			return -1;
		return from < c->first ? 1 : audit_check_wrong(c, AUDIT_CHECK_MISSING, m.next);
	}
	c->records += n;
	return 1;
}

/* A whole tile of a level is a hash of the tile above it, and so on. */
static int compare_above(struct audit_check *c, struct tlog_hash hashes[TLOG_TILE], struct err *e)
{
	uint64_t index = c->tile;

	for (unsigned level = 1; level < TLOG_TILE_LEVELS; level++) {
		const unsigned place = (unsigned)(index % TLOG_TILE);
		struct tlog_hash sum;
		int n;

		tlog_tile_sum(hashes, TLOG_TILE, &sum);
		index /= TLOG_TILE;
		n = audit_tree_tile(c->audit->store, c->log, level, index, place + 1, hashes, e);
		if (n <= 0)
			return n < 0 ? -1
				     : audit_check_wrong(c, AUDIT_CHECK_MISSING,
							 c->tile * TLOG_TILE);
		if (memcmp(&sum, &hashes[place], sizeof(sum)) != 0)
			return audit_check_wrong(c, AUDIT_CHECK_CHANGED, c->tile * TLOG_TILE);
		if (place + 1 < TLOG_TILE)
			return 1;
	}
	return 1;
}

static int compare_root(struct audit_check *c, struct err *e)
{
	struct tlog_hash root;

	if (audit_tree_root(c->audit->store, c->log, c->size, &root, e) < 0) {
		if (e->code != ERR_INVALID)
			return -1;
		return audit_check_wrong(c, AUDIT_CHECK_MISSING, c->size);
	}
	if (memcmp(root.bytes, c->root, sizeof(c->root)) != 0)
		return audit_check_wrong(c, AUDIT_CHECK_CHANGED, c->size);
	c->result = AUDIT_CHECK_GOOD;
	return 0;
}

int audit_check_step(struct audit_check *c, struct err *e)
{
	struct tlog_hash hashes[TLOG_TILE];
	const uint64_t from = c->tile * TLOG_TILE;
	unsigned n = c->size - from < TLOG_TILE ? (unsigned)(c->size - from) : TLOG_TILE;
	int done;

	if (c->result != AUDIT_CHECK_RUNS)
		return 0;
	if (from >= c->size)
		return compare_root(c, e);
	done = audit_tree_tile(c->audit->store, c->log, 0, c->tile, n, hashes, e);
	if (done <= 0)
		return done < 0 ? -1 : audit_check_wrong(c, AUDIT_CHECK_MISSING, from);
	done = compare_records(c, hashes, n, e);
	if (done > 0 && n == TLOG_TILE)
		done = compare_above(c, hashes, e);
	c->tile++;
	return done;
}
