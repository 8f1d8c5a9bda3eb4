/* store_room.c - see store_room.h. SQLite has no locks on the journal's own file, so it may be
 * opened and closed here. */
#include "store_room.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "own.h"

/* Of a small file system a thirty-second part at most; 0: there is little room. */
static off_t part_of(int fd, off_t bytes)
{
	struct statvfs fs;
	uint64_t part, left;

	if (fstatvfs(fd, &fs) < 0)
		return 0;
	part = (uint64_t)fs.f_blocks * fs.f_frsize / 32;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (part > (uint64_t)bytes)
		part = (uint64_t)bytes;
	return left / 2 < part ? 0 : (off_t)part;
}

static void take(const char *path, const char *end, int flags, off_t bytes)
{
	char name[PATH_MAX];
	off_t part;

	if ((size_t)snprintf(name, sizeof(name), "%s%s", path, end) >= sizeof(name))
		return;
	OWN_FD fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	part = fd < 0 ? 0 : part_of(fd, bytes);
	if (part > 0) /* a file system may not have the call: then there is no room */
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, part);
}

void store_room_keep(const char *path)
{
	take(path, "-wal", 0, STORE_ROOM_JOURNAL);
	take(path, "-reserve", O_CREAT, STORE_ROOM_START);
}

bool store_room_give_up(const char *path)
{
	char name[PATH_MAX];

	return (size_t)snprintf(name, sizeof(name), "%s-reserve", path) < sizeof(name) &&
	       unlink(name) == 0;
}
