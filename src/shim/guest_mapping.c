/* guest_mapping.c - see guest_mapping.h. */
#include "guest_mapping.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

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

/* Is this line of /proc/PID/maps the guest's memory? */
static bool is_guest(const char *line, const struct wanted *w, uint64_t *ret_start)
{
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	char rights[8];
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n", &start,
		   &end, rights, &offset, &major, &minor, &inode, &name) < 7)
		return false;
	if (end < start || end - start != w->size || offset != 0 || strcmp(rights, "rw-p") != 0)
		return false;
	*ret_start = start;
	if (w->base_fd >= 0)
		return inode == w->base.st_ino && makedev(major, minor) == w->base.st_dev;
	return strcmp(line + name, "/dev/zero") == 0;
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
