/* root_proc.c - /proc of the cell's pid namespace. Entries that show data of the machine are
 * covered.
 *
 * Most machine-wide entries can be opened by the machine's root only, and not by root of a cell:
 * these need no cover. Which entries do is found once, at the keeper's start. A cover is a
 * read-only mount of an empty file or directory of the disk; the cell cannot unmount it, because
 * its mount namespace is owned by the keeper's user namespace. */
#include "root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell_layout.h"

static bool covered[COUNT(proc_hidden)], covered_dir[COUNT(proc_hidden)];

void root_find_covers(void)
{
	struct stat st;

	OWN_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < COUNT(proc_hidden); i++) {
		if (fstatat(proc, proc_hidden[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		covered[i] = (st.st_mode & 0006) != 0;
		covered_dir[i] = S_ISDIR(st.st_mode);
	}
}

/* Puts a read-only mount over an entry of /proc. */
static int cover(struct root_trees *p, const char *name, int dir, const char *with, struct err *e)
{
	int copy = -1;

	if (mounts_copy(dir, with, MOUNT_ATTR_RDONLY | MOUNTS_DATA_ONLY, &copy, e) < 0)
		return -1;
	OWN_FD fd = copy;
	if (kernel_move_mount(fd, p->proc, name, 0) < 0)
		return err_sys(e, "cover /proc/%s", name);
	return 0;
}

/* A file of the base that stands for the kernel's boot id: each cell is a boot of its own, so one
 * that is made again from what a session has written has another, and a frozen one keeps its own.
 */
static int make_boot_id(int base, struct err *e)
{
	char id[64];
	OWN_FD from = open("/proc/sys/kernel/random/uuid", O_RDONLY | O_CLOEXEC);
	OWN_FD to = openat(base, "boot_id", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	ssize_t n = read(from, id, sizeof(id));

	return n > 0 && write(to, id, (size_t)n) == n ? 0 : err_sys(e, "make a boot id");
}

int root_place_proc(struct root_trees *p, struct err *e)
{
	if (mounts_place(p->proc, p->root, "/proc", e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(proc_hidden); i++)
		if (covered[i] &&
		    cover(p, proc_hidden[i], p->base, covered_dir[i] ? "empty" : "none", e) < 0)
			return -1;
	/* The kernel lets root of a namespace write the namespace's settings; a cell may not. */
	if (cover(p, "sys", p->proc, "sys", e) < 0 || make_boot_id(p->base, e) < 0)
		return -1;
	return cover(p, "sys/kernel/random/boot_id", p->base, "boot_id", e);
}
