/* storage_room.c - see storage_room.h. */
#include "storage_room.h"

#include <sys/statvfs.h>

int storage_room_check_bytes(int fd, uint32_t percent, uint64_t bytes, struct err *e)
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

int storage_room_check(int fd, uint32_t percent, struct err *e)
{
	return storage_room_check_bytes(fd, percent, STORAGE_ROOM_STEP, e);
}
