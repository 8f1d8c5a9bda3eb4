/* guest_mapping.c - see guest_mapping.h. */
#include "guest_mapping.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS_MAX (4U << 20) /* bytes of /proc/PID/maps; QEMU has 40 KiB */

int guest_mapping_open(pid_t engine, const char *file, int mode, struct err *e)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)engine, file);
	fd = open(path, mode | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* What is looked for. */
struct wanted {
	int base_fd;
	uint64_t size;
	struct stat base;
};

/* A number and the character that ends it. */
static bool take_number(const char **at, int radix, char end, uint64_t *ret)
{
	char *stop;

	*ret = strtoull(*at, &stop, radix);
	if (stop == *at || *stop != end)
		return false;
	*at = stop + 1;
	return true;
}

/* Is this line of /proc/PID/maps the guest's memory? */
static bool is_guest(const char *line, const struct wanted *w, uint64_t *ret_start)
{
	static const char rights[] = "rw-p ";
	uint64_t end, offset, major, minor, inode;

	if (!take_number(&line, 16, '-', ret_start) || !take_number(&line, 16, ' ', &end) ||
	    strncmp(line, rights, sizeof(rights) - 1) != 0)
		return false;
	line += sizeof(rights) - 1;
	if (!take_number(&line, 16, ' ', &offset) || !take_number(&line, 16, ':', &major) ||
	    !take_number(&line, 16, ' ', &minor) || !take_number(&line, 10, ' ', &inode))
		return false;
	if (end < *ret_start || end - *ret_start != w->size || offset != 0)
		return false;
	if (w->base_fd >= 0)
		return inode == w->base.st_ino &&
		       makedev((unsigned)major, (unsigned)minor) == w->base.st_dev;
	return strcmp(line + strspn(line, " "), "/dev/zero") == 0;
}

int guest_mapping_find(pid_t engine, int base, uint64_t size, uint64_t *ret_start, struct err *e)
{
	struct wanted w = { .base_fd = base, .size = size };
	char line[512];
	size_t seen = 0;
	bool found = false;

	if (base >= 0 && fstat(base, &w.base) < 0)
		return err_sys(e, "the guest's memory");
	int fd = guest_mapping_open(engine, "maps", O_RDONLY, e);
	if (fd < 0)
		return -1;
	FILE *maps = fdopen(fd, "re");
	if (maps == NULL) {
		fd_close(fd);
		return err_sys(e, "the guest's memory");
	}
	while (!found && seen < MAPS_MAX && fgets(line, sizeof(line), maps) != NULL) {
		seen += strlen(line);
		line[strcspn(line, "\n")] = '\0';
		found = is_guest(line, &w, ret_start);
	}
	(void)fclose(maps);
	return found ? 0 : err_set(e, ERR_NOT_FOUND, "the engine has no memory of a guest");
}

int guest_mapping_write(int fd, const uint8_t *bytes, size_t n, uint64_t at, struct err *e)
{
	while (n > 0) {
		ssize_t done = pwrite(fd, bytes, n, (off_t)at);

		if (done <= 0)
			return err_sys(e, "write the guest's memory");
		bytes += done;
		n -= (size_t)done;
		at += (uint64_t)done;
	}
	return 0;
}
