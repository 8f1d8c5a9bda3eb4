/* Paths of tiles: what is accepted is written again as the same path. */
#include "fuzz.h"

#include "lib/tlog/tlog_tile.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *path = fuzz_copy(data, size), again[TLOG_TILE_PATH_MAX];
	struct tlog_tile t;
	struct err e;

	if (tlog_tile_parse(path, size, &t, &e) == 0) {
		fuzz_accepted++;
		assert(t.width >= 1 && t.width <= TLOG_TILE && t.level < TLOG_TILE_LEVELS);
		assert(t.index <= TLOG_TILE_INDEX_MAX && (!t.is_entries || t.level == 0));
		assert(tlog_tile_path(&t, again) == size && memcmp(again, path, size) == 0);
		assert(tlog_tile_width(TLOG_SIZE_MAX, t.level, t.index) <= TLOG_TILE);
	}
	free(path);
	return 0;
}
