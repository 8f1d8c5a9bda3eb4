/* storage_room.c - see storage_room.h. */
#include "storage/storage_room.h"

#include <sys/statvfs.h>

static uint32_t percent;
static uint64_t since = STORAGE_ROOM_STEP; /* bytes since the last look. At first it is due */

void storage_room_keep(uint32_t p)
{
	percent = p;
}

/* Free bytes are counted as a process without privileges sees them. */
static int room_look(int fd, uint64_t bytes, struct err *e)
{
	struct statvfs fs;
	uint64_t size, left;

	if (fstatvfs(fd, &fs) < 0)
		return err_sys(e, "room on the disk");
	size = (uint64_t)fs.f_blocks * fs.f_frsize;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left < bytes || left - bytes < size / 100 * percent)
		return err_set_reason(e, REASON_STORAGE_FULL,
				      "the disk of the storage folder is full up to its reserve "
				      "(storage_reserve)");
	return 0;
}

int storage_room_take(int fd, uint64_t bytes, struct err *e)
{
	since += bytes;
	if (percent == 0 || since < STORAGE_ROOM_STEP)
		return 0;
	since = 0;
	return room_look(fd, bytes > STORAGE_ROOM_MARGIN ? bytes : STORAGE_ROOM_MARGIN, e);
}
