/* storage_jail.c - theory of operation. The steps, in this order:
 *
 * 1. A mount namespace with an empty, read-only root. The storage folder is mounted in it and,
 * read-only, what programs of the machine need (mkfs, fsck). It belongs to the user namespace that
 * the program was started in, so no capability of the next step can mount or unmount anything.
 *
 * 2. User, pid, network, IPC, UTS and cgroup namespaces. The id maps of the user namespace are
 * written by a helper process from outside with the right to map more than one id.
 *
 * 3. A fork: the child is the first process of the pid namespace.
 *
 * 4. All capabilities but those that writing files of other owners needs are dropped. Landlock and
 * seccomp follow.
 *
 * A rootless server starts the program in the keepers' user namespace. The steps are the same. */
#include "storage/storage_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/confine.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/log.h"
#include "lib/wire/storage_msg.h"
#include "storage/parent_death.h"
#include "storage_program.h"

#define CELL_IDS_ON_DISK 65536U
#define CHANGES (MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

static struct storage_ids ids;

struct storage_ids storage_jail_ids(void)
{
	return ids;
}

/* The map of the namespace that the program was started in: "0 N 4294967295" on the machine. "0 N
 * 1", then "1 M 65536" for a rootless server, or the first line alone if the user has no
 * subordinate ids (cell/cellctl/rootless.h). */
static int jail_read_ids(struct err *e)
{
	char text[512], *rest = text;
	unsigned long long sum = 0, first = 0;

	if (io_read_file(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text), e) < 0)
		return -1;
	while (*rest != '\0' && *rest != '\n') {
		char *end;
		unsigned long long inside = strtoull(rest, &end, 10), count;

		(void)strtoull(end, &end, 10);
		count = strtoull(end, &end, 10);
		if (end == rest || inside != sum)
			break;
		first = sum == 0 ? count : first;
		sum += count;
		rest = end + strspn(end, "\n");
	}
	ids.single = sum == 1;
	ids.shift = first == 1 && sum > CELL_IDS_ON_DISK ? 1 : 0;
	if (!ids.single && sum < CELL_IDS_ON_DISK)
		return err_set(e, ERR_UNSUPPORTED, "the user namespace has %llu ids only", sum);
	return 0;
}

/* ---- the root directory */

/* A copy of the mount at a path, not attached yet. */
static int jail_copy_mount(const char *path, uint64_t attrs, int *ret_tree, struct err *e)
{
	struct mount_attr a = { .attr_set = attrs, .propagation = MS_PRIVATE };
	OWN_FD tree = kernel_open_tree(AT_FDCWD, path,
				       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | KERNEL_AT_RECURSIVE);

	if (tree < 0 || kernel_mount_setattr(tree, KERNEL_AT_RECURSIVE, &a) < 0)
		return err_sys(e, "copy the mount of %.100s", path);
	*ret_tree = TAKE_FD(tree);
	return 0;
}

/* A folder is found again by its path, because its descriptor belongs to the mount namespace that
 * the program was started in, and compared. */
static int jail_take_folder(int dir_fd, uint64_t attrs, char *ret_path, size_t cap, int *ret_tree,
			    struct err *e)
{
	struct stat want, got;
	char link[64];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
	n = readlink(link, ret_path, cap - 1);
	if (n < 0 || fstat(dir_fd, &want) < 0)
		return err_sys(e, "find a folder");
	ret_path[n] = '\0';
	if (jail_copy_mount(ret_path, attrs, ret_tree, e) < 0)
		return -1;
	if (fstat(*ret_tree, &got) < 0 || got.st_dev != want.st_dev || got.st_ino != want.st_ino)
		return err_set(e, ERR_CONFLICT, "%.100s was replaced", ret_path);
	return 0;
}

/* An empty file system at that path, to cover it. */
static int jail_mount_empty(const char *path, int *ret_root, struct err *e)
{
	OWN_FD at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	OWN_FD fs = kernel_fsopen("tmpfs");

	if (at < 0 || fs < 0 || kernel_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755") < 0 ||
	    kernel_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return err_sys(e, "tmpfs");
	OWN_FD root = kernel_fsmount(fs, CHANGES);
	if (root < 0 || kernel_move_mount(root, at, "", MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(e, "mount tmpfs");
	*ret_root = TAKE_FD(root);
	return 0;
}

/* Programs of the machine and their libraries, read-only: mkfs and fsck run in the jail. On most
 * machines all but /usr are links. */
static const char *const tools[] = { "usr", "lib", "lib64", "bin", "sbin" };

/* A directory that the machine does not have is left out. */
static int jail_place_tool(int root, const char *name, struct err *e)
{
	char path[16], target[64];
	ssize_t n;
	int tree = -1;

	(void)snprintf(path, sizeof(path), "/%s", name);
	n = readlink(path, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = '\0';
		return symlinkat(target, root, name) < 0 ? err_sys(e, "link %s", name) : 0;
	}
	if (access(path, X_OK) < 0)
		return 0;
	if (jail_copy_mount(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &tree,
			    e) < 0)
		return -1;
	OWN_FD mine = tree;
	if (mkdirat(root, name, 0755) < 0 || kernel_move_mount(mine, root, name, 0) < 0)
		return err_sys(e, "mount /%s", name);
	return 0;
}

/* The folders that the program was started with, in the order of their descriptors, the storage
 * folder first, and whether each was given. */
static bool given[1 + 1 + STORAGE_HOST_MAX];

/* Before anything is opened: it would get the number of one not given. */
static void jail_find_given(void)
{
	for (unsigned i = 1; i < COUNT(given); i++)
		given[i] = fcntl(STORAGE_FD_TEMPLATES + (int)i - 1, F_GETFD) >= 0;
}

struct folders {
	int trees[1 + 1 + STORAGE_HOST_MAX]; /* owned. -1 */
};

static int jail_take_folders(struct folders *f, char *ret_path, size_t cap, struct err *e)
{
	char path[PATH_MAX];

	memset(f, 0xff, sizeof(*f)); /* every descriptor -1 */
	if (jail_take_folder(STORAGE_FD_DIR, CHANGES, ret_path, cap, &f->trees[0], e) < 0)
		return -1;
	for (unsigned i = 1; i < COUNT(f->trees); i++) {
		int fd = STORAGE_FD_TEMPLATES + (int)i - 1;

		if (given[i] && jail_take_folder(fd, CHANGES | MOUNT_ATTR_RDONLY, path,
						 sizeof(path), &f->trees[i], e) < 0)
			return -1;
	}
	return 0;
}

static int jail_place_folder(int root, int tree, const char *at, struct err *e)
{
	if (tree >= 0 &&
	    (mkdirat(root, at + 1, 0700) < 0 || kernel_move_mount(tree, root, at + 1, 0) < 0))
		return err_sys(e, "mount %s", at);
	return 0;
}

/* The root becomes read-only when everything is in place. */
static int jail_fill_root(int root, const struct folders *f, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
	char at[16];

	if (jail_place_folder(root, f->trees[0], STORAGE_JAIL_TOP, e) < 0 ||
	    jail_place_folder(root, f->trees[1], STORAGE_JAIL_TEMPLATES, e) < 0)
		return -1;
	for (unsigned i = 2; i < COUNT(f->trees); i++) {
		(void)snprintf(at, sizeof(at), STORAGE_JAIL_HOST "%u", i - 2);
		if (jail_place_folder(root, f->trees[i], at, e) < 0)
			return -1;
	}
	for (size_t i = 0; i < COUNT(tools); i++)
		if (jail_place_tool(root, tools[i], e) < 0)
			return -1;
	return kernel_mount_setattr(root, 0, &a) < 0 ? err_sys(e, "read-only root") : 0;
}

static int jail_make_root(struct folders *f, int *ret_root, struct err *e)
{
	char path[PATH_MAX];

	if (jail_take_folders(f, path, sizeof(path), e) < 0 ||
	    jail_mount_empty(path, ret_root, e) < 0)
		return -1;
	return jail_fill_root(*ret_root, f, e);
}

/* The old root is unmounted, so no path leads to other files of the machine. */
static int jail_change_root(struct err *e)
{
	struct folders f;
	int made = -1, result;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "mount namespace");
	result = jail_make_root(&f, &made, e);
	io_close_all(f.trees, COUNT(f.trees));
	OWN_FD root = made;
	if (result < 0)
		return -1;
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_sys(e, "change the root directory");
	return 0;
}

/* ---- namespaces */

/* In the helper: waits until the program is in its user namespace, and writes the maps. */
static void NORETURN write_maps(pid_t program, int sync)
{
	char path[64], text[32], word;
	struct err e;

	if (read(sync, &word, 1) != 1)
		_exit(1);
	/* A line may not span two of the namespace above. */
	(void)snprintf(text, sizeof(text), ids.shift == 1 ? "0 0 1\n1 1 %u\n" : "0 0 %u\n",
		       ids.single ? 1 : CELL_IDS_ON_DISK);
	for (const char *kind = "ug"; *kind != '\0'; kind++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%cid_map", (int)program, *kind);
		if (io_write_file(AT_FDCWD, path, text, &e) < 0)
			_exit(1);
	}
	_exit(0);
}

/* One byte tells the helper that the namespace exists. It exits when the maps are written. */
static int jail_become_root_of_own(pid_t helper, int sync, struct err *e)
{
	int status = -1;

	if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		    CLONE_NEWCGROUP) < 0)
		return err_sys(e, "namespaces");
	if (write(sync, "u", 1) != 1 || waitpid(helper, &status, 0) != helper || status != 0)
		return err_set(e, ERR_SYSTEM, "the ids cannot be mapped");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "become root of the user namespace");
	return 0;
}

/* The started process only waits. If it is killed, the program dies with it. */
static void NORETURN wait_for(pid_t pid)
{
	int status = 0;

	(void)kernel_close_range(STDERR_FILENO + 1, ~0U);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int storage_jail_enter(struct err *e)
{
	pid_t self = getpid(), pid;
	int sync[2];

	jail_find_given();
	if (jail_read_ids(e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync) < 0)
		return err_sys(e, "socketpair");
	OWN_FD ours = sync[0], its = sync[1];
	pid = fork();
	if (pid == 0) {
		fd_close(ours); /* with a copy of it here, our death would not show */
		write_maps(self, its);
	}
	if (pid < 0)
		return err_sys(e, "fork");
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return err_sys(e, "groups");
	if (jail_change_root(e) < 0 || jail_become_root_of_own(pid, ours, e) < 0)
		return -1;
	pid = fork();
	if (pid < 0)
		return err_sys(e, "fork");
	if (pid > 0)
		wait_for(pid);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, "death signal");
	return 0;
}

int storage_jail_lock(int at, struct err *e)
{
	OWN_FD fd = open(STORAGE_JAIL_TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open the storage folder");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the storage folder");
	if (dup3(fd, at, O_CLOEXEC) < 0)
		return err_sys(e, "lock the storage folder");
	return 0;
}

/* ---- rights given up */

/* Owners, modes and attributes of any file. Not mounts, devices or other processes. */
static int jail_drop_caps(struct err *e)
{
	static const uint8_t keep[] = { CAP_CHOWN,     CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
					CAP_FOWNER,    CAP_FSETID,	 CAP_SETFCAP,
					CAP_SYS_CHROOT };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	for (size_t i = 0; i < COUNT(keep); i++)
		data[keep[i] / 32].effective |= 1U << keep[i] % 32;
	data[0].permitted = data[0].effective;
	data[1].permitted = data[1].effective;
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(e, "capabilities");
	return 0;
}

/* Landlock of version 1 refuses links between directories, which layers have. read: the rights to
 * d->read. */
static int jail_files(const struct storage_worker_dirs *d, uint64_t read, struct err *e)
{
	const uint64_t change = CONFINE_CHANGE & ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_SOCK |
							     LANDLOCK_ACCESS_FS_MAKE_BLOCK);

	if (landlock_abi() < 2) /* the start has warned */
		return 0;
	return confine_files(
		&(struct confine_table){
			.net = LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT,
			.places = { { &d->dir, 1, change },
				    { d->lower, d->nlower, d->links ? change : CONFINE_READ },
				    { d->read, d->nread, read } } },
		e);
}

static int jail_program_files(struct err *e)
{
	OWN_FD top = open(STORAGE_JAIL_TOP, O_PATH | O_DIRECTORY | O_CLOEXEC);
	OWN_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (top < 0 || root < 0)
		return err_sys(e, "open the storage folder");
	/* All but the storage folder is mounted read-only, too. */
	return jail_files(&(struct storage_worker_dirs){ .dir = top, .read = &root, .nread = 1 },
			  CONFINE_READ | LANDLOCK_ACCESS_FS_EXECUTE, e);
}

int storage_jail_confine_runner(struct err *e)
{
	return jail_program_files(e);
}

int storage_jail_confine(struct err *e)
{
	if (landlock_abi() < 2)
		log_warn("this kernel has no Landlock: cordon-storage has one wall less", "");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, "no new privileges");
	if (jail_drop_caps(e) < 0)
		return -1;
	return confine_calls(seccomp_storage, COUNT(seccomp_storage), e);
}

int storage_jail_confine_worker(const struct storage_worker_dirs *d, struct err *e)
{
	if (parent_death_follow(e) < 0)
		return -1;
	if (fchdir(d->dir) < 0 || chroot(".") < 0)
		return err_sys(e, "change the root directory");
	if (jail_files(d, CONFINE_READ, e) < 0)
		return -1;
	return confine_calls(seccomp_worker, COUNT(seccomp_worker), e);
}
