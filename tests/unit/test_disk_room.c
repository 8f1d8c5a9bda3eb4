/* Goal: from the numbers of a file system follow when its reserve is near and touched, what a
 * tenant may grow by, and when to look again: early enough for any program, and a tenth of a
 * reserve is left by however many tenants. */
#include "daemon/disk/disk_room.h"

#include "test.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

static struct disk_room at(uint64_t size, uint64_t left, uint64_t percent)
{
	struct disk_room r = { 0 };

	disk_room_take(&r, size, left, percent);
	return r;
}

static void near_and_touched(void)
{
	struct disk_room r = at(100 * GIB, 11 * GIB, 5);

	CHECK(r.is_known && !r.is_near && !r.is_touched);
	disk_room_take(&r, 100 * GIB, 9 * GIB, 5);
	CHECK(r.is_near && !r.is_touched);
	disk_room_take(&r, 100 * GIB, 5 * GIB, 5);
	CHECK(r.is_near && r.is_touched);
	disk_room_take(&r, 100 * GIB, 5 * GIB + 100 * MIB, 5);
	CHECK(r.is_touched); /* a little more is free: it is not whole yet */
	disk_room_take(&r, 100 * GIB, 5 * GIB + 400 * MIB, 5);
	CHECK(r.is_near && !r.is_touched);
}

static void without_a_reserve(void)
{
	struct disk_room r = at(100 * GIB, 0, 0);

	CHECK(r.is_known && !r.is_near && !r.is_touched);
	disk_room_take(&r, 100 * GIB, 0, 5);
	CHECK(r.is_touched);
	disk_room_take(&r, 100 * GIB, 0, 0); /* the setting was changed */
	CHECK(!r.is_touched);
}

static void shares(void)
{
	CHECK(at(100 * GIB, 50 * GIB, 5).limit == 5 * GIB / 16);
	CHECK(at(100 * GIB, 3 * GIB, 5).limit == 3 * GIB / 16); /* of what is left */
	CHECK(at(100 * GIB, GIB, 5).limit == DISK_ROOM_SMALL);
	CHECK(at(400 * MIB, 90 * MIB, 25).limit == DISK_ROOM_LEAST);
	CHECK(at(400 * MIB, 20 * MIB, 25).limit == DISK_ROOM_SMALL);
}

/* Each of many tenants takes its share, one after the other. */
static void many_tenants(void)
{
	uint64_t left = 5 * GIB;

	for (unsigned i = 0; i < 200; i++)
		left -= at(100 * GIB, left, 5).limit;
	CHECK(left > 5 * GIB / 10);
}

/* At 4 GiB a second, half of what is left at most is written until the next look. */
static void looks(void)
{
	struct disk_room unknown = { 0 };

	CHECK(disk_room_look_ms(&unknown) == 1000);
	for (uint64_t left = 500 * MIB; left < 200 * GIB; left *= 2) {
		struct disk_room r = at(1000 * GIB, left, 5);

		CHECK(disk_room_look_ms(&r) * 4 * GIB / 1000 <= left / 2 + 16 * MIB);
		CHECK(disk_room_look_ms(&r) <= 1000);
	}
	CHECK(disk_room_look_ms(&(struct disk_room){ .is_known = true }) == 50);
}

TEST_MAIN({ "near and touched", near_and_touched }, { "without a reserve", without_a_reserve },
	  { "shares", shares }, { "many tenants leave a tenth", many_tenants },
	  { "the next look comes in time", looks })
