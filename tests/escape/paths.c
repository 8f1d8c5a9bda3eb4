/* paths.c - is anything of the host's file tree in sight? Canaries are real files the driver put
 * into well-known folders of the host, world-readable, so that only the cell's walls hide them. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *read_arg(const struct attack *a)
{
	return answer_read(a->arg);
}

static const char *read_world(const struct attack *a)
{
	return answer_read(world(a->arg));
}

/* arg is a folder; the canary has the same name in each. */
static const char *read_canary(const struct attack *a)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", (const char *)a->arg, world("name"));
	return answer_read(path);
}

/* arg is a prefix such as /proc/self/root or ../../../..; what follows is the secret's full path.
 */
static const char *read_secret_below(const struct attack *a)
{
	char path[1024];

	(void)snprintf(path, sizeof(path), "%s%s", (const char *)a->arg, world("secret"));
	return answer_read(path);
}

/* arg is a file every system has; the driver told us the hash of the host's own. */
static const char *compare_file(const struct attack *a)
{
	char key[64];
	const char *name = strrchr(a->arg, '/');
	const char *got = answer_read(a->arg);

	(void)snprintf(key, sizeof(key), "hash-%s", name ? name + 1 : "");
	if (strcmp(got, "done") != 0)
		return got;
	return strtoull(world(key), NULL, 16) == hash_file(a->arg) ? "same" : "ours";
}

static int in_list(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = list; *p; p += *p == ' ') {
		size_t n = strcspn(p, " ");

		if (n == len && strncmp(p, name, n) == 0)
			return 1;
		p += n;
	}
	return 0;
}

struct listing {
	const char *path;
	const char *allowed;
};

static const struct listing root_listing = { "/", "bin boot dev etc home lib lib32 lib64 libx32 "
						  "media mnt opt proc probe root run sbin srv sys "
						  "tmp usr var vol" };

static const struct listing dev_listing = {
	"/dev",
	"null zero full random urandom tty pts ptmx shm fd stdin stdout stderr mqueue machine-id"
};

static const char *check_listing(const struct attack *a)
{
	const struct listing *l = a->arg;
	DIR *dir = opendir(l->path);
	const struct dirent *e;

	if (!dir)
		return answer_errno(errno);
	while ((e = readdir(dir)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    !in_list(l->allowed, e->d_name))
			return answer_text("foreign:%s", e->d_name);
	return "clean";
}

/* arg is a path that must be the cell's own root, such as "/.." or "/vol/..". */
static const char *same_as_root(const struct attack *a)
{
	struct stat root, st;

	if (stat("/", &root) < 0 || stat(a->arg, &st) < 0)
		return answer_errno(errno);
	return root.st_dev == st.st_dev && root.st_ino == st.st_ino ? "contained" : "elsewhere";
}

static const char *climb_out(const struct attack *a)
{
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return answer_errno(errno);
	return answer_read(world("secret") + 1);
}

/* The driver starts cordon inside the host's secret folder. */
static const char *inherited_cwd(const struct attack *a)
{
	if (birth.cwd[0] != '/')
		return "unreachable";
	return answer_read("secret");
}

static const char *stale_chroot(const char *dir)
{
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return answer_errno(errno);
	if (chroot(dir) < 0)
		return answer_errno(errno);
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return answer_errno(errno);
	if (chroot(".") < 0)
		return answer_errno(errno);
	return answer_read(world("secret"));
}

/* The classic: the working directory stays outside of the new root, so ".." walks up for ever. */
static const char *chroot_by_cwd(const struct attack *a)
{
	return stale_chroot("/tmp/escape-chroot");
}

static const char *chroot_by_fd(const struct attack *a)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return answer_errno(errno);
	if (mkdir("/tmp/escape-chroot2", 0755) < 0 && errno != EEXIST)
		return answer_errno(errno);
	if (chroot("/tmp/escape-chroot2") < 0)
		return answer_errno(errno);
	if (fchdir(fd) < 0)
		return answer_errno(errno);
	return stale_chroot("tmp/escape-chroot3");
}

static const char *fd_inventory(const struct attack *a)
{
	return birth.extra_fds == 0 ? "clean" : answer_text("leaked:%d", birth.extra_fds);
}

/* The driver's own descriptors: 7 is the host's secret folder, 8 the secret file. Only those the
 * probe was born with count; by now other numbers are in use. */
static const char *fd_fchdir(const struct attack *a)
{
	if (fchdir(7) < 0)
		return answer_errno(errno);
	return answer_read("secret");
}

static const char *fd_read(const struct attack *a)
{
	char c;

	return answer(pread(8, &c, 1, 0));
}

/* Standard input, output and error must not be a door: no folder, nothing to climb from. */
static const char *stdio_kind(const struct attack *a)
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++) {
		if (fstat(fd, &st) < 0)
			return answer_errno(errno);
		if (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode))
			return answer_text("door:%d", fd);
	}
	return "clean";
}

static const char *search_environment(const struct attack *a)
{
	const char *secret = world("env-secret");

	for (char **e = birth.env; *e; e++)
		if (strstr(*e, secret))
			return "leaked";
	return "clean";
}

static const char *search_file(const char *path, const char *needle)
{
	static char buf[262144];

	if (slurp(path, buf, sizeof(buf)) < 0)
		return answer_path(-1);
	if (buf[0] == '\0')
		return "empty";
	return strstr(buf, needle) ? "leaked" : "clean";
}

static const char *mountinfo_secrets(const struct attack *a)
{
	const char *got = search_file("/proc/self/mountinfo", world("private-name"));

	if (strcmp(got, "clean") != 0)
		return got;
	return search_file("/proc/self/mountinfo", world("name"));
}

/* The old root is gone: no mount shows the top of a disk file system. */
static const char *mountinfo_old_root(const struct attack *a)
{
	static char buf[262144];
	char *save = NULL;

	if (slurp("/proc/self/mountinfo", buf, sizeof(buf)) < 0)
		return answer_errno(errno);
	for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char root[256], type[64];
		const char *dash = strstr(line, " - ");

		if (!dash || sscanf(line, "%*d %*d %*s %255s", root) != 1 ||
		    sscanf(dash, " - %63s", type) != 1)
			return "unreadable";
		if (strcmp(root, "/") == 0 &&
		    !in_list("overlay tmpfs ramfs proc devpts mqueue sysfs cgroup cgroup2", type))
			return answer_text("foreign:%s", type);
	}
	return "clean";
}

static const char *host_name(const struct attack *a)
{
	struct utsname u;

	if (uname(&u) < 0)
		return answer_errno(errno);
	return strcmp(u.nodename, world("hostname")) == 0 ? "same" : "ours";
}

/* clang-format off */
static const struct attack rows[] = {
ROW("secret-file", "A", "read a secret of the host by its path",
	read_world, "hidden", "done", "secret", 0),
ROW("public-file", "A", "read a world-readable file of the host",
	read_world, "hidden", "done", "public", 0),
ROW("vault-dir", "A", "list a secret folder of the host",
	read_world, "hidden", "done", "private", 0),
ROW("canary-root", "A", "read a file of the host's /root",
	read_canary, "r:hidden u1:hidden u:EACCES", "done", "/root", 0),
ROW("canary-home", "A", "read a file of the host's /home",
	read_canary, "hidden", "done", "/home", 0),
ROW("canary-opt", "A", "read a file of the host's /opt", read_canary, "hidden", "done", "/opt", 0),
ROW("canary-srv", "A", "read a file of the host's /srv", read_canary, "hidden", "done", "/srv", 0),
ROW("canary-run", "A", "read a file of the host's /run", read_canary, "hidden", "done", "/run", 0),
ROW("canary-mnt", "A", "read a file of the host's /mnt", read_canary, "hidden", "done", "/mnt", 0),
ROW("canary-boot", "A", "read a file of the host's /boot",
	read_canary, "hidden", "done", "/boot", 0),
ROW("canary-etc", "A", "read a file of the host's /etc", read_canary, "hidden", "done", "/etc", 0),
ROW("canary-tmp", "C", "read a file of the host's /tmp", read_canary, "hidden", "done", "/tmp", 0),
ROW("canary-var-tmp", "C", "read a file of the host's /var/tmp",
	read_canary, "hidden", "done", "/var/tmp", 0),
ROW("canary-var-lib", "A", "read a file of the host's /var/lib",
	read_canary, "hidden", "done", "/var/lib", 0),
ROW("canary-var-log", "A", "read a file of the host's /var/log",
	read_canary, "hidden", "done", "/var/log", 0),
ROW("canary-shm", "C", "read a POSIX shared memory file of the host",
	read_canary, "hidden", "done", "/dev/shm", 0),
ROW("root-listing", "A", "anything in / that a cell does not have",
	check_listing, "clean", NULL, &root_listing, 0),
ROW("dev-listing", "A", "anything in /dev that a cell does not have",
	check_listing, "clean", NULL, &dev_listing, 0),
ROW("etc-shadow", "A", "/etc/shadow is not the host's",
	compare_file, "r:ours uF:EACCES u:ours", "same", "/etc/shadow", 0),
ROW("etc-passwd", "A", "/etc/passwd is not the host's",
	compare_file, "ours", "same", "/etc/passwd", 0),
ROW("etc-group", "A", "/etc/group is not the host's",
	compare_file, "ours", "same", "/etc/group", 0),
ROW("etc-machine-id", "A", "/etc/machine-id is not the host's",
	compare_file, "ours|hidden", "same", "/etc/machine-id", 0),
ROW("etc-fstab", "A", "/etc/fstab is not the host's",
	compare_file, "ours|hidden", "same", "/etc/fstab", 0),
ROW("host-name", "A", "the host name is not the host's", host_name, "ours", "same", NULL, 0),
ROW("ssh-keys", "A", "list the host's /etc/ssh", read_arg, "hidden", NULL, "/etc/ssh", 0),
ROW("docker-socket", "C", "a container engine's socket in /run",
	read_arg, "hidden", NULL, "/run/docker.sock", 0),
ROW("systemd-socket", "C", "the service manager's socket in /run",
	read_arg, "hidden", NULL, "/run/systemd", 0),
ROW("dbus-socket", "C", "the system bus in /run", read_arg, "hidden", NULL, "/run/dbus", 0),
ROW("dotdot-root", "A", "/.. is the cell's root", same_as_root, "contained", "contained", "/..", 0),
ROW("dotdot-volume", "A", ".. of a mounted folder is the cell's root",
	same_as_root, "contained", NULL, "/vol/..", 0),
ROW("dotdot-probe", "A", ".. of a read-only mount is the cell's root",
	same_as_root, "contained", NULL, "/probe/..", 0),
ROW("dotdot-usr", "A", ".. of /usr is the cell's root",
	same_as_root, "contained", NULL, "/usr/..", 0),
ROW("dotdot-path", "A", "a path full of .. to the host's secret",
	read_secret_below, "hidden", "done", "/../../../../../../../../../..", 0),
ROW("dotdot-walk", "A", "64 times chdir(..), then the secret",
	climb_out, "hidden", "done", NULL, 0),
ROW("self-root", "A", "the secret through /proc/self/root",
	read_secret_below, "hidden", "done", "/proc/self/root", 0),
ROW("self-cwd", "A", "the secret through /proc/self/cwd",
	read_secret_below, "hidden", NULL, "/proc/self/cwd/../../..", 0),
ROW("thread-root", "A", "the secret through /proc/thread-self/root",
	read_secret_below, "hidden", "done", "/proc/thread-self/root", 0),
ROW("fd-path", "A", "the secret through /proc/self/fd/7/../..",
	read_secret_below, "hidden", NULL, "/proc/self/fd/7/../../../../..", 0),
ROW("cwd-inherited", "A", "the working directory of cordon itself",
	inherited_cwd, "hidden", NULL, NULL, 0),
ROW("fd-inventory", "A", "any descriptor besides 0, 1 and 2", fd_inventory, "clean", NULL, NULL, 0),
ROW("fd-fchdir", "A", "fchdir to a leaked folder of the host", fd_fchdir, "EBADF", NULL, NULL, 0),
ROW("fd-read", "A", "read a leaked file of the host", fd_read, "EBADF", NULL, NULL, 0),
ROW("fd-stdio", "A", "standard input, output, error lead nowhere",
	stdio_kind, "clean", NULL, NULL, 0),
ROW("env-secret", "A", "a secret of cordon's environment",
	search_environment, "clean", NULL, NULL, 0),
ROW("chroot-cwd", "A", "leave by double chroot, by working directory",
	chroot_by_cwd, "Sr:hidden *:" REFUSED, NULL, NULL, 0),
ROW("chroot-fd", "A", "leave by double chroot, by descriptor",
	chroot_by_fd, "Sr:hidden *:" REFUSED, NULL, NULL, 0),
ROW("mountinfo-names", "A", "mountinfo names secrets of the host",
	mountinfo_secrets, "clean", NULL, NULL, 0),
ROW("mountinfo-root", "A", "the old root is still mounted somewhere",
	mountinfo_old_root, "clean", NULL, NULL, 0),
};
/* clang-format on */

const struct table paths_table = TABLE(rows);
