#include "lib/tlog/tlog_tile.h"

#include <stdio.h>
#include <string.h>

/* ---- paths: the index in groups of three digits, all but the last with an "x" */

size_t tlog_tile_path(const struct tlog_tile *t, char ret[TLOG_TILE_PATH_MAX])
{
	char groups[40] = "", level[16] = "entries";
	uint64_t rest = t->index;
	char *at = groups + sizeof(groups) - 1;
	int n;

	*at = '\0';
	for (bool is_last = true; is_last || rest > 0; is_last = false, rest /= 1000) {
		char group[8];

		n = snprintf(group, sizeof(group), "/%s%03u", is_last ? "" : "x",
			     (unsigned)(rest % 1000));
		at -= n;
		memcpy(at, group, (size_t)n);
	}
	if (!t->is_entries)
		(void)snprintf(level, sizeof(level), "%u", t->level);
	n = t->width < TLOG_TILE
		    ? snprintf(ret, TLOG_TILE_PATH_MAX, "tile/%s%s.p/%u", level, at, t->width)
		    : snprintf(ret, TLOG_TILE_PATH_MAX, "tile/%s%s", level, at);
	return (size_t)n;
}

/* Digits, at most three. False: none. */
static bool read_digits(const char **p, const char *end, unsigned *ret)
{
	const char *from = *p;

	*ret = 0;
	while (*p < end && *p - from < 3 && **p >= '0' && **p <= '9')
		*ret = *ret * 10 + (unsigned)(*(*p)++ - '0');
	return *p > from;
}

static bool read_text(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

static bool read_index(const char **p, const char *end, uint64_t *ret)
{
	bool more = true;
	unsigned group;

	*ret = 0;
	while (more) {
		more = read_text(p, end, "x");
		if (!read_digits(p, end, &group) || *ret > TLOG_TILE_INDEX_MAX / 1000)
			return false;
		*ret = *ret * 1000 + group;
		if (more && !read_text(p, end, "/"))
			return false;
	}
	return *ret <= TLOG_TILE_INDEX_MAX;
}

static bool read_tile(const char *p, const char *end, struct tlog_tile *ret)
{
	*ret = (struct tlog_tile){ .width = TLOG_TILE };
	if (!read_text(&p, end, "tile/"))
		return false;
	ret->is_entries = read_text(&p, end, "entries");
	if (!ret->is_entries && !read_digits(&p, end, &ret->level))
		return false;
	if (!read_text(&p, end, "/") || !read_index(&p, end, &ret->index))
		return false;
	if (read_text(&p, end, ".p/") && !read_digits(&p, end, &ret->width))
		return false;
	return p == end;
}

int tlog_tile_parse(const char *path, size_t len, struct tlog_tile *ret, struct err *e)
{
	char again[TLOG_TILE_PATH_MAX];

	/* Refuse a path not written as its tile's is: leading zeros, short groups, a width of
	 * 256. */
	if (!read_tile(path, path + len, ret) || ret->level >= TLOG_TILE_LEVELS ||
	    ret->width == 0 || ret->width > TLOG_TILE || tlog_tile_path(ret, again) != len ||
	    memcmp(path, again, len) != 0)
		return err_set(e, ERR_INVALID, "not the path of a tile");
	return 0;
}

/* ---- hashes */

unsigned tlog_tile_width(uint64_t size, unsigned level, uint64_t index)
{
	uint64_t n, from;

	if (level >= TLOG_TILE_LEVELS || index > TLOG_TILE_INDEX_MAX)
		return 0;
	n = size >> (TLOG_TILE_BITS * level);
	from = index * TLOG_TILE;
	if (n <= from)
		return 0;
	return n - from < TLOG_TILE ? (unsigned)(n - from) : TLOG_TILE;
}

void tlog_tile_sum(const struct tlog_hash *hashes, unsigned n, struct tlog_hash *ret)
{
	struct tlog_hash row[TLOG_TILE / 2];

	if (n <= 1) {
		*ret = hashes[0];
		return;
	}
	for (size_t i = 0; i < n / 2; i++)
		tlog_node(&hashes[2 * i], &hashes[2 * i + 1], &row[i]);
	for (n /= 2; n > 1; n /= 2)
		for (size_t i = 0; i < n / 2; i++)
			tlog_node(&row[2 * i], &row[2 * i + 1], &row[i]);
	*ret = row[0];
}

int tlog_tiles_node(void *arg, unsigned level, uint64_t index, struct tlog_hash *ret, struct err *e)
{
	struct tlog_tiles *t = arg;
	unsigned row = level / TLOG_TILE_BITS, above = level % TLOG_TILE_BITS, width;
	uint64_t first;
	const struct tlog_hash *hashes;

	/* The subtree's hashes in the row of its tile. */
	if (level >= TLOG_LEVELS || index >= t->size >> level)
		return err_set(e, ERR_INVALID, "the log has no such subtree");
	first = index << above;
	width = tlog_tile_width(t->size, row, first / TLOG_TILE);
	if (t->read(t->arg, row, first / TLOG_TILE, width, &hashes, e) < 0)
		return -1;
	tlog_tile_sum(hashes + first % TLOG_TILE, 1U << above, ret);
	return 0;
}
