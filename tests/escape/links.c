/* links.c - hard and symbolic links, device nodes, set-user-id files, and writes to what a cell
 * shares with the host. What root in a cell may do to its own copy (overlay) says "done"; the
 * driver then looks at the host's files and at everything left behind in the shared volume. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *volume_path(const char *name)
{
	static char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", world("vol"), name);
	return path;
}

/* Links the driver planted in the volume: they point at the host's secret. */
static const char *read_volume(const struct attack *a)
{
	const char *foreign = strcmp(a->arg, "link-proc") == 0 ? foreign_pid1() : NULL;

	return foreign ? foreign : answer_read(volume_path(a->arg));
}

static const char *open_volume(const struct attack *a)
{
	return answer_path(open(volume_path(a->arg), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

static const char *hard_link(const struct attack *a)
{
	return answer(link(a->arg, "/tmp/escape-hardlink"));
}

/* The way around "permission denied on the path": link the running program by its magic link. */
static const char *hard_link_exe(const struct attack *a)
{
	int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);

	if (fd < 0)
		return answer_errno(errno);
	return answer(linkat(fd, "", AT_FDCWD, "/tmp/escape-exe", AT_EMPTY_PATH));
}

static const char *open_write(const struct attack *a)
{
	return answer_path(open(a->arg, O_WRONLY | O_CLOEXEC | O_NOCTTY));
}

static const char *create_file(const struct attack *a)
{
	return answer_path(open(a->arg, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

/* Appends to a program of /usr. Where that works it is a copy: the driver hashes the original. */
static const char *append_program(const struct attack *a)
{
	int fd = open(a->arg, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return answer_errno(errno);
	return answer(write(fd, "x", 1));
}

static const char *unlink_file(const struct attack *a)
{
	return answer(unlink(a->arg));
}

static const char *make_node(const struct attack *a)
{
	const unsigned *n = a->arg;
	char path[64];
	const char *got;

	(void)snprintf(path, sizeof(path), "/tmp/escape-node-%u-%u", n[1], n[2]);
	got = answer(mknod(path, n[0] | 0666, makedev(n[1], n[2])));
	(void)unlink(path);
	return got;
}

/* The host's root disk, by the numbers the driver read. */
static const char *make_root_disk(const struct attack *a)
{
	dev_t dev = makedev((unsigned)world_num("root-major"), (unsigned)world_num("root-minor"));
	const char *got = answer(mknod("/tmp/escape-root-disk", S_IFBLK | 0600, dev));

	(void)unlink("/tmp/escape-root-disk");
	return got;
}

static const char *run_copy(const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl(path, path, "--whoami", (char *)NULL);
		_exit(errno == ENOENT ? 20 : 21);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return answer_errno(errno);
	if (!WIFEXITED(status))
		return answer_signal(WTERMSIG(status));
	switch (WEXITSTATUS(status)) {
	case 10:
		return geteuid() == 0 ? "same" : "gained";
	case 11:
		return geteuid() == 0 ? "lost" : "same";
	case 20:
		return "hidden";
	default:
		return "refused";
	}
}

/* A set-user-id copy of the probe that belongs to the host's root lies in the volume. */
static const char *run_suid_volume(const struct attack *a)
{
	return run_copy(volume_path(a->arg));
}

/* Leaves a set-user-id file in the volume; the driver checks who owns it on the host. */
static const char *leave_suid(const struct attack *a)
{
	const char *path = volume_path("left-suid");
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	if (fd < 0)
		return answer_errno(errno);
	return answer(fchmod(fd, 06755));
}

static const char *leave_setgid(const struct attack *a)
{
	const char *path = volume_path("left-setgid");

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return answer_errno(errno);
	return answer(chmod(path, 02777));
}

/* The same by file capabilities. The kernel binds them to the root that sets them; on a volume
 * whose owners are translated that root may be the host's own, which the driver looks for. */
static const char *leave_caps(const struct attack *a)
{
	const struct vfs_cap_data caps = {
		.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
		.data = { { .permitted = 1U << CAP_SETUID } },
	};
	const char *path = volume_path("left-caps");
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	if (fd < 0)
		return answer_errno(errno);
	return answer(fsetxattr(fd, "security.capability", &caps, sizeof(caps), 0));
}

static const char *chown_outside(const struct attack *a)
{
	const char *path = "/tmp/escape-chown";
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return answer_errno(errno);
	return answer(fchown(fd, (uid_t)a->num, (gid_t)-1));
}

static const char *set_xattr(const struct attack *a)
{
	int fd = open("/tmp/escape-xattr", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return answer_errno(errno);
	return answer(fsetxattr(fd, a->arg, "y", 1, 0));
}

/* Dirty Pipe: a pipe buffer that still claims to be appendable page cache of a read-only file. */
static const char *dirty_pipe(const struct attack *a)
{
	int fds[2], fd = open(a->arg, O_RDONLY | O_CLOEXEC);
	char before[8], after[8], buf[4096] = { 0 };
	loff_t off = 3;

	if (fd < 0 || pread(fd, before, sizeof(before), 0) != sizeof(before) || pipe(fds) < 0)
		return answer_errno(errno);
	for (int i = 0; i < 16; i++)
		if (write(fds[1], buf, sizeof(buf)) != sizeof(buf))
			return "unexpected";
	for (int i = 0; i < 16; i++)
		if (read(fds[0], buf, sizeof(buf)) != sizeof(buf))
			return "unexpected";
	if (splice(fd, &off, fds[1], NULL, 1, 0) < 0)
		return answer_errno(errno);
	if (write(fds[1], "!", 1) < 0 || pread(fd, after, sizeof(after), 0) != sizeof(after))
		return answer_errno(errno);
	return memcmp(before, after, sizeof(before)) == 0 ? "intact" : "changed";
}

/* Dirty COW's entrance: /proc/self/mem writes through a private read-only mapping. */
static const char *write_through_mem(const struct attack *a)
{
	int fd = open(a->arg, O_RDONLY | O_CLOEXEC),
	    mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char before, after;
	char *map;

	if (fd < 0 || pread(fd, &before, 1, 1) != 1)
		return answer_errno(errno);
	if (mem < 0)
		return answer_errno(errno);
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return answer_errno(errno);
	if (pwrite(mem, "!", 1, (off_t)(uintptr_t)map + 1) < 0)
		return answer_errno(errno);
	if (pread(fd, &after, 1, 1) != 1)
		return answer_errno(errno);
	return before == after ? "intact" : "changed";
}

#define NODE(type, major, minor)   \
	(const unsigned[])         \
	{                          \
		type, major, minor \
	}
/* Root may change its copy of /usr, whose files are its own where owners are translated. Without
 * root outside the files stay a stranger's, and only the folder itself is the cell's. */
#define OWN_COPY "rF:done *:EACCES"
#define OWN_FOLDER "rF:done uF:EACCES 1:done r:done *:EACCES"

/* clang-format off */
static const struct attack rows[] = {
ROW("volume-link-abs", "A", "absolute symbolic link in a volume",
	read_volume, "hidden", "done", "link-abs", 0),
ROW("volume-link-rel", "A", "relative symbolic link out of a volume",
	read_volume, "hidden", "done", "link-rel", 0),
ROW("volume-link-dir", "A", "symbolic link to a folder of the host",
	read_volume, "hidden", "done", "link-dir", 0),
ROW("volume-link-proc", "A", "symbolic link to /proc/1/root in a volume",
	read_volume, PID1_CLOSED, NULL, "link-proc", 0),
ROW("volume-node", "A", "a device node that lies in a volume",
	open_volume, "EACCES", "done", "node-null", 0),
ROW("volume-suid", "A", "a set-user-id program of host root in a volume",
	run_suid_volume, "same", NULL, "suid-probe", 0),
ROW("volume-leave-suid", "A", "leave a set-user-id file for the host",
	leave_suid, REFUSED, NULL, NULL, 0),
ROW("volume-leave-caps", "A", "leave a program with capabilities for the host",
	leave_caps, "F:EPERM *:EPERM|done", NULL, NULL, 0),
ROW("volume-leave-setgid", "A", "leave a set-group-id folder for the host",
	leave_setgid, REFUSED, NULL, NULL, 0),
ROW("hardlink-volume", "A", "hard link from a volume into the cell",
	hard_link, "EXDEV", NULL, "/vol/plain", 0),
ROW("hardlink-probe", "A", "hard link from a read-only mount",
	hard_link, "EXDEV", NULL, "/probe/probe", 0),
ROW("hardlink-usr", "A", "hard link from /usr", hard_link, "EXDEV", NULL, "/usr/bin/env", 0),
ROW("hardlink-exe", "A", "hard link to /proc/self/exe by descriptor",
	hard_link_exe, "EXDEV", NULL, NULL, 0),
ROW("self-exe-write", "A", "open /proc/self/exe for writing",
	open_write, "F:ETXTBSY *:EACCES|ETXTBSY", NULL, "/proc/self/exe", 0),
ROW("probe-write", "A", "write below a read-only mount",
	create_file, "EROFS", NULL, "/probe/escape-canary", 0),
ROW("probe-overwrite", "A", "overwrite a program of a read-only mount",
	open_write, "F:ETXTBSY *:EACCES|ETXTBSY", NULL, "/probe/probe", 0),
ROW("usr-create", "A", "create a file in /usr",
	create_file, OWN_FOLDER, NULL, "/usr/escape-canary", 0),
ROW("usr-append", "A", "append to a program of /usr",
	append_program, OWN_COPY, NULL, "/usr/bin/yes", 0),
ROW("usr-unlink", "A", "remove a program of /usr", unlink_file, OWN_COPY, NULL, "/usr/bin/yes", 0),
ROW("dev-create", "A", "create a file in /dev",
	create_file, "EROFS", NULL, "/dev/escape-canary", 0),
ROW("dev-null-unlink", "A", "remove /dev/null, to plant a link",
	unlink_file, "EROFS", NULL, "/dev/null", 0),
ROW("proc-create", "A", "create a file in /proc",
	create_file, "hidden", NULL, "/proc/escape-canary", 0),
ROW("node-null", "A", "mknod of the harmless null device",
	make_node, REFUSED, "done", NODE(S_IFCHR, 1, 3), 0),
ROW("node-mem", "A", "mknod of /dev/mem", make_node, REFUSED, NULL, NODE(S_IFCHR, 1, 1), 0),
ROW("node-port", "A", "mknod of /dev/port", make_node, REFUSED, NULL, NODE(S_IFCHR, 1, 4), 0),
ROW("node-kmsg", "A", "mknod of /dev/kmsg", make_node, REFUSED, NULL, NODE(S_IFCHR, 1, 11), 0),
ROW("node-console", "A", "mknod of /dev/console", make_node, REFUSED, NULL, NODE(S_IFCHR, 5, 1), 0),
ROW("node-fuse", "A", "mknod of /dev/fuse", make_node, REFUSED, NULL, NODE(S_IFCHR, 10, 229), 0),
ROW("node-kvm", "A", "mknod of /dev/kvm", make_node, REFUSED, NULL, NODE(S_IFCHR, 10, 232), 0),
ROW("node-tun", "A", "mknod of /dev/net/tun", make_node, REFUSED, NULL, NODE(S_IFCHR, 10, 200), 0),
ROW("node-loop", "A", "mknod of a loop device", make_node, REFUSED, NULL, NODE(S_IFBLK, 7, 0), 0),
ROW("node-root-disk", "A", "mknod of the host's root disk", make_root_disk, REFUSED, NULL, NULL, 0),
ROW("node-fifo", "A", "mknod of a FIFO, which is legal",
	make_node, "done", NULL, NODE(S_IFIFO, 0, 0), 0),
ROW("chown-range", "A", "give a file to an id outside of the cell's range",
	chown_outside, "EINVAL", NULL, NULL, 70000),
ROW("chown-nobody", "A", "give a file to an id the cell's user is not",
	chown_outside, "Sr1:EINVAL Sr:done 1:EINVAL *:EPERM", NULL, NULL, 1234),
ROW("xattr-trusted", "A", "set trusted.overlay.opaque",
	set_xattr, REFUSED, NULL, "trusted.overlay.opaque", 0),
ROW("xattr-security", "A", "set an attribute that only the system may",
	set_xattr, REFUSED, NULL, "security.escape", 0),
ROW("dirty-pipe", "B", "splice a read-only file and write into its pages",
	dirty_pipe, "intact", "intact", "/usr/bin/env", 0),
ROW("dirty-mem", "B", "write to a read-only mapping by /proc/self/mem",
	write_through_mem, "intact", "intact", "/usr/bin/env", 0),
};
/* clang-format on */

const struct table links_table = TABLE(rows);
