/* disk_room.c - see disk_room.h. */
#include "daemon/disk/disk_room.h"

#define BYTES_PER_MS ((4ULL << 30) / 1000 + 1) /* 4 GiB/s: no program writes faster */
#define LOOK_MIN_MS 50U
#define LOOK_MAX_MS 1000U

static uint64_t room_more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t room_limit(uint64_t reserve, uint64_t left)
{
	if (left < reserve / 4)
		return DISK_ROOM_SMALL;
	return room_more((left < reserve ? left : reserve) / DISK_ROOM_SHARE, DISK_ROOM_LEAST);
}

void disk_room_take(struct disk_room *r, uint64_t size, uint64_t left, uint64_t percent)
{
	uint64_t reserve = size / 100 * percent;

	r->is_known = true;
	r->left = left;
	r->reserve = reserve;
	r->limit = room_limit(reserve, left);
	r->is_near = reserve > 0 && left / 2 < reserve;
	/* With room for one limit above the reserve it does not become touched again at once. */
	if (reserve == 0 || left >= reserve + room_more(reserve / DISK_ROOM_SHARE, DISK_ROOM_LEAST))
		r->is_touched = false;
	else if (left <= reserve)
		r->is_touched = true;
}

unsigned disk_room_look_ms(const struct disk_room *r)
{
	uint64_t ms = r->left / 2 / BYTES_PER_MS;

	return !r->is_known || ms > LOOK_MAX_MS ? LOOK_MAX_MS
	       : ms < LOOK_MIN_MS		? LOOK_MIN_MS
						: (unsigned)ms;
}
