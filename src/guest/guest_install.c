/* guest_install.c - see guest_install.h. Everything is made in a folder beside the final one, which
 * is then renamed. An interrupted installation leaves that folder, and the next one removes it. */
#include "guest_install.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cpio.h"
#include "guest_package.h"
#include "guest_tool.h"
#include "kernel_image.h"
#include "kernel_modules.h"
#include "own.h"
#include "rmtree.h"

#define WORK ".guest-new" /* beside the folder; has: deb, tree, out */
#define EXCHANGE 2	  /* RENAME_EXCHANGE, which musl does not have */

/* ---- the package */

static int download(int folder, struct err *e)
{
	char package[GUEST_PACKAGE_MAX];
	/* as root, which may write to the folder; apt's own user may not */
	const char *argv[] = { "apt-get",  "-qq",   "-o", "APT::Sandbox::User=",
			       "download", package, NULL };
	const struct guest_tool t = { .argv = argv, .dir = folder, .in = -1, .out = -1 };

	if (guest_package_find(package, e) < 0)
		return -1;
	return guest_tool_run(&t, e) < 0 ? err_wrap(e, "download %s", package) : 0;
}

/* The name of the first entry that begins like this. */
static int find_entry(int dir, const char *prefix, char *ret_name, size_t cap, struct err *e)
{
	OWN_FD again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	bool found = false;

	if (d == NULL)
		return err_sys(e, "list");
	(void)TAKE_FD(again);
	for (struct dirent *entry; !found && (entry = readdir(d)) != NULL;) {
		found = entry->d_name[0] != '.' &&
			strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
		if (found)
			(void)snprintf(ret_name, cap, "%s", entry->d_name);
	}
	(void)closedir(d);
	return found ? 0 : err_set(e, ERR_INVALID, "the package has no %s*", prefix);
}

static int unpack(int work, const char *deb, int deb_dir, struct err *e)
{
	char tree[64];
	const char *argv[] = { "dpkg-deb", "-x", deb, tree, NULL };
	const struct guest_tool t = { .argv = argv, .dir = deb_dir, .in = -1, .out = -1 };

	(void)snprintf(tree, sizeof(tree), "/proc/%d/fd/%d/tree", (int)getpid(), work);
	return guest_tool_run(&t, e) < 0 ? err_wrap(e, "unpack the package") : 0;
}

/* Downloads the package unless it is given, unpacks it to `tree`, and notes its name. */
static int get_package(int work, const char *deb, struct guest_manifest *m, struct err *e)
{
	char path[PATH_MAX];
	const char *slash;

	if (mkdirat(work, "deb", 0700) < 0 || mkdirat(work, "tree", 0700) < 0)
		return err_sys(e, "make folders");
	OWN_FD folder = openat(work, "deb", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return err_sys(e, "open the folder");
	if (deb == NULL && (download(folder, e) < 0 ||
			    find_entry(folder, "linux-image-", path, sizeof(path), e) < 0))
		return -1;
	if (deb != NULL && realpath(deb, path) == NULL)
		return err_sys(e, "%s", deb);
	slash = strrchr(path, '/');
	(void)snprintf(m->package, sizeof(m->package), "%.127s", slash == NULL ? path : slash + 1);
	return unpack(work, path, folder, e);
}

/* ---- what is made of it */

static int finish(int fd, const char *name, char ret_hex[GUEST_HEX], struct err *e)
{
	if (guest_files_hash(fd, ret_hex, e) < 0)
		return err_wrap(e, "%s", name);
	return fsync(fd) < 0 ? err_sys(e, "write %s", name) : 0;
}

static int make_kernel(int tree, int out, struct guest_manifest *m, struct err *e)
{
	char name[GUEST_RELEASE_MAX + 16];

	OWN_FD boot = openat(tree, "boot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (boot < 0)
		return err_set(e, ERR_INVALID, "the package has no folder /boot: is it a kernel?");
	if (find_entry(boot, "vmlinuz-", name, sizeof(name), e) < 0)
		return -1;
	(void)snprintf(m->release, sizeof(m->release), "%.63s", name + sizeof("vmlinuz-") - 1);
	OWN_FD packed = openat(boot, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	OWN_FD plain = openat(out, "vmlinux", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (packed < 0 || plain < 0)
		return err_sys(e, "open the kernel");
	if (kernel_image_unpack(packed, plain, e) < 0)
		return -1;
	return finish(plain, "vmlinux", m->vmlinux, e);
}

static int make_modules(int tree, int out, struct guest_manifest *m, struct err *e)
{
	OWN_FD fd = openat(out, "modules", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	struct cpio c = { .fd = fd };

	if (fd < 0)
		return err_sys(e, "make modules");
	if (kernel_modules_add(tree, m->release, &c, e) < 0 || cpio_end(&c, e) < 0)
		return -1;
	return finish(fd, "modules", m->modules, e);
}

static int make_files(int work, struct guest_manifest *m, struct err *e)
{
	if (mkdirat(work, "out", 0755) < 0)
		return err_sys(e, "make folders");
	OWN_FD tree = openat(work, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN_FD out = openat(work, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree < 0 || out < 0)
		return err_sys(e, "open folders");
	if (make_kernel(tree, out, m, e) < 0 || make_modules(tree, out, m, e) < 0 ||
	    guest_manifest_write(out, m, e) < 0)
		return -1;
	return fsync(out) < 0 ? err_sys(e, "write the folder") : 0;
}

/* ---- the folder */

/* An earlier installation may have been killed: its folder is removed. One that runs has a lock. */
static int open_work(int state, int *ret_fd, struct err *e)
{
	for (unsigned round = 0; round < 2; round++) {
		if (mkdirat(state, WORK, 0700) == 0)
			round = 1;
		else if (errno != EEXIST)
			return err_sys(e, "make " WORK);
		OWN_FD fd = openat(state, WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return err_set(e, ERR_CONFLICT, "another installation is running");
		if (round == 1) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		rmtree(state, WORK);
	}
	return err_set(e, ERR_CONFLICT, "another installation is running");
}

/* The old folder, if there is one, takes the new one's place and is removed with the rest. */
static int put_in_place(int state, int work, struct err *e)
{
	if (syscall(SYS_renameat2, work, "out", state, GUEST_FOLDER, EXCHANGE) < 0 &&
	    (errno != ENOENT || renameat(work, "out", state, GUEST_FOLDER) < 0))
		return err_sys(e, "rename to " GUEST_FOLDER);
	return fsync(state) < 0 ? err_sys(e, "write the state directory") : 0;
}

int guest_install(const char *state_dir, const char *deb, struct guest_manifest *ret, struct err *e)
{
	struct guest_manifest m = { .release = "" };
	int work = -1, result;

	if (mkdir(state_dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", state_dir);
	OWN_FD state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state < 0)
		return err_sys(e, "open %s", state_dir);
	if (open_work(state, &work, e) < 0)
		return -1;
	OWN_FD held = work;
	result = get_package(held, deb, &m, e);
	if (result == 0)
		result = make_files(held, &m, e);
	if (result == 0)
		result = put_in_place(state, held, e);
	rmtree(state, WORK);
	if (result == 0)
		*ret = m;
	return result;
}
