/* host.c - the template "host": the machine's /usr, with a root directory made here.
 *
 * The root directory, with an /etc for cells, is made once and cached (cache_dir.h). Its name has a
 * fingerprint of everything that it is made from, so that a new ld.so.cache, for example, makes a
 * new one. It is made under a temporary name and renamed, so it is complete or does not exist.
 * Programs that use it hold a shared lock on it, and cells keep using it after their server has
 * ended or was replaced. So a new one removes unlocked ones last used before the machine was
 * booted. All of them are in one folder with nothing else, for cordon-storage.
 *
 * Invariant: of the machine's /etc only the entries of `copied` are taken, and of these only
 * regular files that every user may read and links into /usr or /etc: data of packages, no settings
 * or secrets. The certificate of the node's CA is added to the copied ones (ca_trust.h), and
 * Cordon's own programs for cells to /opt/cordon (cell_programs.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "cell/template/ca_trust.h"
#include "cell/template/cache_dir.h"
#include "cell/template/cell_programs.h"
#include "cell/template/host_files.h"
#include "cell/template/template.h"
#include "lib/base/fnv.h"
#include "lib/base/io.h"
#include "lib/base/rmtree.h"
#include "lib/base/str.h"

#define FORMAT 9 /* raise it with every change of the files made here */
#define FILE_MAX (8U << 20)
#define DEPTH_MAX 8

static const char *const copied[] = {
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"alternatives",
	"ssl/certs",
	"ssl/openssl.cnf",
	"ca-certificates.conf",
	"pki/tls/certs",
	"pki/ca-trust/extracted",
	"pki/java",
	"services",
	"protocols",
	"mime.types",
	"magic",
	"debian_version",
	"os-release",
	"fonts",
	"R/Makeconf", /* parts of R's packages, which does not start without them, no *.site */
	"R/Renviron",
	"R/ldpaths",
	"R/repositories",
	"matplotlibrc", /* a part of the package: matplotlib cannot be imported without it */
	"java-8-openjdk",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"java-25-openjdk",
};

/* Links into /usr on most machines, directories on a few. */
static const char *const top_dirs[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

/* FNV-1a: a fingerprint, not a cryptographic hash. All its inputs are files of the machine. */
static void host_mix(uint64_t *h, const void *bytes, size_t n)
{
	*h = fnv_add(*h, bytes, n);
}

/* A path that does not exist still counts by its name. */
static void host_mix_stat(uint64_t *h, const char *path)
{
	struct stat st;

	host_mix(h, path, strlen(path));
	if (stat(path, &st) < 0)
		return;
	host_mix(h, &st.st_ino, sizeof(st.st_ino));
	host_mix(h, &st.st_size, sizeof(st.st_size));
	host_mix(h, &st.st_mtim, sizeof(st.st_mtim));
}

/* A tree below /etc, by the times and sizes of its entries: a write to a file changes no directory.
 */
static void host_mix_tree(uint64_t *h, int dir, const char *name, unsigned depth)
{
	struct stat st;
	DIR *d;

	host_mix(h, name, strlen(name));
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	host_mix(h, &st.st_ino, sizeof(st.st_ino));
	host_mix(h, &st.st_size, sizeof(st.st_size));
	host_mix(h, &st.st_mtim, sizeof(st.st_mtim));
	if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
		return;
	OWN_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (d == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			host_mix_tree(h, fd, entry->d_name, depth + 1);
	(void)TAKE_FD(fd);
	(void)closedir(d);
}

/* Most machines have python3 only. E2B's base image, and many programs, need the name python. */
static bool host_lacks_python(void)
{
	return access("/usr/bin/python", F_OK) < 0 && access("/usr/local/bin/python", F_OK) < 0 &&
	       access("/usr/bin/python3", F_OK) == 0;
}

/* npm's configuration for all users, beside the node found first. */
static const char *host_npmrc(void)
{
	return access("/usr/local/bin/npm", F_OK) == 0 ? "/usr/local/etc/npmrc" : "/usr/etc/npmrc";
}

/* Everything that host_fill() reads must be in here, or a change of it would not make a new
 * directory. */
static uint64_t host_fingerprint(const struct node_ca *authority)
{
	uint64_t h = FNV_START + FORMAT;
	char path[PATH_MAX];

	for (size_t i = 0; i < host_nfiles; i++)
		host_mix(&h, host_files[i].text, strlen(host_files[i].text));
	OWN_FD etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < COUNT(copied) && etc >= 0; i++)
		host_mix_tree(&h, etc, copied[i], 0);
	for (size_t i = 0; i < COUNT(top_dirs); i++) {
		(void)snprintf(path, sizeof(path), "/%s", top_dirs[i]);
		host_mix_stat(&h, path);
	}
	host_mix(&h, host_lacks_python() ? "p" : "", 1);
	host_mix_stat(&h, host_npmrc());
	host_mix(&h, &(uint64_t){ cell_programs_stamp() }, sizeof(uint64_t));
	if (authority != NULL)
		host_mix(&h, authority->cert, strlen(authority->cert));
	return h;
}

/* The databases of package managers change with every installed package. /usr itself is not in the
 * fingerprint, as cells see the machine's own. */
uint64_t host_stamp(const struct node_ca *authority)
{
	static const char *const databases[] = { "/var/lib/dpkg/status",
						 "/var/lib/rpm/rpmdb.sqlite",
						 "/usr/lib/sysimage/rpm/rpmdb.sqlite",
						 "/var/lib/pacman/local", "/lib/apk/db/installed" };
	uint64_t h = host_fingerprint(authority);

	for (size_t i = 0; i < COUNT(databases); i++)
		host_mix_stat(&h, databases[i]);
	return h;
}

/* The mode is set again, because the umask counts for mkdirat(). */
static int host_make_dirs(int root, struct err *e)
{
	for (size_t i = 0; i < host_ndirs; i++) {
		if (mkdirat(root, host_dirs[i].path, 0700) < 0 ||
		    fchmodat(root, host_dirs[i].path, host_dirs[i].mode, 0) < 0)
			return err_sys(e, "mkdir %s", host_dirs[i].path);
		/* For an ordinary user all of it belongs to the user. The keeper makes homes with
		 * other owners (cell/keeper/root.c). */
		if (geteuid() == 0 && fchownat(root, host_dirs[i].path, host_dirs[i].owner,
					       host_dirs[i].owner, 0) < 0)
			return err_sys(e, "chown %s", host_dirs[i].path);
	}
	return 0;
}

static int host_make_file(int root, const char *path, mode_t mode, const char *text, size_t len,
			  struct err *e)
{
	OWN_FD fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "create %s", path);
	if (io_write_all(fd, text, len, e) < 0 || fchmod(fd, mode) < 0)
		return err_sys(e, "write %s", path);
	return 0;
}

/* A machine without merged /usr has directories here. host_open() adds a layer for each. */
static int host_make_top_links(int root, struct err *e)
{
	char path[16], target[256];

	for (size_t i = 0; i < COUNT(top_dirs); i++) {
		struct stat st;
		ssize_t n;

		(void)snprintf(path, sizeof(path), "/%s", top_dirs[i]);
		if (lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && mkdirat(root, top_dirs[i], 0755) < 0)
			return err_sys(e, "mkdir %s", top_dirs[i]);
		if (!S_ISLNK(st.st_mode))
			continue;
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return err_sys(e, "readlink %s", path);
		target[n] = '\0';
		if (symlinkat(target, root, top_dirs[i]) < 0)
			return err_sys(e, "link %s", top_dirs[i]);
	}
	return 0;
}

static int host_copy_etc(int from, int to, const char *name, struct err *e);

/* Read a regular file that every user may read. *ret_text: the caller frees it. NULL: it is
 * another. */
static int host_read_file(int from, const char *name, char **ret_text, size_t *ret_len,
			  mode_t *ret_mode, struct err *e)
{
	OWN_FD fd = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	size_t got = 0;
	ssize_t n;

	*ret_text = NULL;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0004) == 0 ||
	    st.st_size > FILE_MAX)
		return 0;
	*ret_text = malloc((size_t)st.st_size + 1);
	if (*ret_text == NULL)
		return err_sys(e, "allocate");
	while (got < (size_t)st.st_size &&
	       (n = read(fd, *ret_text + got, (size_t)st.st_size - got)) > 0)
		got += (size_t)n;
	*ret_len = got;
	*ret_mode = st.st_mode & 0755;
	return 0;
}

/* Files that host_read_file() does not read are left out. */
static int host_copy_file(int from, int to, const char *name, struct err *e)
{
	OWN_MEM char *text = NULL;
	size_t len = 0;
	mode_t mode = 0;

	if (host_read_file(from, name, &text, &len, &mode, e) < 0)
		return -1;
	return text == NULL ? 0 : host_make_file(to, name, mode, text, len, e);
}

/* PID 1 names this file to npm (spawn.c). The machine's own is in it, so that its registry counts,
 * behind ours, so that its prefix counts. */
static int host_make_npmrc(int root, struct err *e)
{
	static const char ours[] = "; npm install -g needs no root: packages are below the home, "
				   "programs in ~/.local/bin.\n"
				   "prefix=${HOME}/.local\n";
	OWN_MEM char *theirs = NULL, *text = NULL;
	size_t len = 0, n = sizeof(ours) - 1;
	mode_t mode = 0;

	if (host_read_file(AT_FDCWD, host_npmrc(), &theirs, &len, &mode, e) < 0)
		return -1;
	text = malloc(n + len);
	if (text == NULL)
		return err_sys(e, "allocate");
	memcpy(text, ours, n);
	if (theirs != NULL)
		memcpy(text + n, theirs, len);
	return host_make_file(root, "opt/cordon/npmrc", 0644, text, n + len, e);
}

/* Links into /usr and /etc, and relative ones, have the same meaning in a cell. Others are left
 * out. */
static int host_copy_link(int from, int to, const char *name, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return 0;
	target[n] = '\0';
	if (target[0] == '/' && strncmp(target, "/usr/", 5) != 0 &&
	    strncmp(target, "/etc/", 5) != 0)
		return 0;
	return symlinkat(target, to, name) < 0 ? err_sys(e, "link %s", name) : 0;
}

/* A directory that cannot be opened is left out. */
static int host_copy_dir(int from, int to, const char *name, struct err *e)
{
	OWN_FD source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int result = 0;
	DIR *d;

	if (source < 0)
		return 0;
	if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "mkdir %s", name);
	OWN_FD dest = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dest < 0)
		return err_sys(e, "open %s", name);
	d = fdopendir(source);
	if (d == NULL)
		return err_sys(e, "list %s", name);
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			result = host_copy_etc(source, dest, entry->d_name, e);
	(void)TAKE_FD(source);
	(void)closedir(d);
	return result;
}

/* By kind. Other kinds are left out by host_read_file(). */
static int host_copy_etc(int from, int to, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return host_copy_dir(from, to, name, e);
	if (S_ISLNK(st.st_mode))
		return host_copy_link(from, to, name, e);
	return host_copy_file(from, to, name, e);
}

/* "ssl/certs" needs "ssl" first. The name is copied below its parent. */
static int host_copy_item(int host_etc, int etc, const char *item, struct err *e)
{
	char parent[64];
	const char *slash = strrchr(item, '/');

	if (slash == NULL)
		return host_copy_etc(host_etc, etc, item, e);
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - item), item);
	OWN_FD from = openat(host_etc, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0)
		return 0;
	for (char *p = parent; p != NULL; p = strchr(p + 1, '/')) {
		char upto[64];
		const char *end = strchr(p + 1, '/');
		size_t n = end == NULL ? strlen(parent) : (size_t)(end - parent);

		(void)snprintf(upto, sizeof(upto), "%.*s", (int)n, parent);
		if (mkdirat(etc, upto, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "mkdir %s", upto);
	}
	OWN_FD to = openat(etc, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		return err_sys(e, "open %s", parent);
	return host_copy_etc(from, to, slash + 1, e);
}

/* Fill an empty directory. An error leaves it half filled, and host_build() removes it. */
static int host_fill(int root, const struct node_ca *authority, struct err *e)
{
	if (host_make_dirs(root, e) < 0 || host_make_top_links(root, e) < 0)
		return -1;
	for (size_t i = 0; i < host_nfiles; i++)
		if (host_make_file(root, host_files[i].path, host_files[i].mode, host_files[i].text,
				   strlen(host_files[i].text), e) < 0)
			return -1;
	for (size_t i = 0; i < host_nlinks; i++)
		if (symlinkat(host_links[i].target, root, host_links[i].path) < 0)
			return err_sys(e, "link %s", host_links[i].path);
	if (host_lacks_python() && symlinkat("/usr/bin/python3", root, HOST_PROGRAMS "/python") < 0)
		return err_sys(e, "link python");
	if (host_make_npmrc(root, e) < 0 || cell_programs_copy(root, e) < 0)
		return -1;
	OWN_FD host_etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN_FD etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host_etc < 0 || etc < 0)
		return err_sys(e, "open /etc");
	for (size_t i = 0; i < COUNT(copied); i++)
		if (host_copy_item(host_etc, etc, copied[i], e) < 0)
			return -1;
	return authority == NULL ? 0 : ca_trust_add(etc, authority, e);
}

/* The directory's change time marks its use (host_mark_use()). */
static bool host_was_used_since_boot(const struct stat *st)
{
	struct timespec now, up;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	return st->st_ctim.tv_sec >= now.tv_sec - up.tv_sec - 1;
}

/* Once in each boot is enough. */
static void host_mark_use(int fd, const struct stat *st)
{
	if (!host_was_used_since_boot(st))
		(void)fchmod(fd, st->st_mode & 07777);
}

/* May a cell that lives have it as its root directory? Folders named new-* are never a cell's: they
 * have no final name yet. */
static bool host_may_be_in_use(int fd, const char *name)
{
	struct stat st;

	return strncmp(name, "host-", 5) == 0 &&
	       (fstat(fd, &st) < 0 || host_was_used_since_boot(&st));
}

/* Remove directories without a lock: of other fingerprints, and of killed processes. */
static void host_remove_unused(int roots, const char *keep)
{
	OWN_FD again = openat(roots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (d == NULL)
		return;
	(void)TAKE_FD(again);
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		if ((strncmp(entry->d_name, "host-", 5) != 0 &&
		     strncmp(entry->d_name, "new-", 4) != 0) ||
		    strcmp(entry->d_name, keep) == 0)
			continue;
		OWN_FD fd = openat(roots, entry->d_name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && !host_may_be_in_use(fd, entry->d_name) &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0)
			rmtree(roots, entry->d_name);
	}
	(void)closedir(d);
}

int host_roots_open(int *ret_fd, struct err *e)
{
	int found = -1;

	if (cache_dir_open(&found, e) < 0)
		return -1;
	OWN_FD cache = found;
	if (mkdirat(cache, "roots", 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make the folder of host templates");
	*ret_fd = openat(cache, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret_fd < 0 ? err_sys(e, "open the folder of host templates") : 0;
}

/* Until 0.2 they were in the cache itself. */
static void host_remove_former(void)
{
	struct err e;
	int found = -1;

	if (cache_dir_open(&found, &e) < 0)
		return;
	OWN_FD cache = found;
	host_remove_unused(cache, "");
}

/* Make the directory under a temporary name, locked so that no other process removes it, and rename
 * it. */
static int host_build(int roots, const char *name, const struct node_ca *authority, struct err *e)
{
	char temporary[32];
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "getrandom");
	(void)snprintf(temporary, sizeof(temporary), "new-%016llx", (unsigned long long)random);
	if (mkdirat(roots, temporary, 0755) < 0)
		return err_sys(e, "mkdir %s", temporary);
	OWN_FD root = openat(roots, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (root < 0 || flock(root, LOCK_SH) < 0) {
		(void)err_sys(e, "open %s", temporary);
		goto undo;
	}
	if (host_fill(root, authority, e) < 0)
		goto undo;
	if (renameat(roots, temporary, roots, name) < 0 && errno != ENOTEMPTY && errno != EEXIST) {
		(void)err_sys(e, "rename to %s", name);
		goto undo;
	}
	rmtree(roots, temporary); /* only there if another builder was faster */
	host_remove_unused(roots, name);
	host_remove_former();
	return 0;
undo:
	rmtree(roots, temporary);
	return err_wrap(e, "host template");
}

/* Four tries, since each may meet another process that removes or builds the directory. */
static int host_open_skeleton(int roots, const char *name, const struct node_ca *authority,
			      int *ret_fd, struct err *e)
{
	for (int tries = 0; tries < 4; tries++) {
		struct stat ours, there;
		OWN_FD fd = openat(roots, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		/* Locked, and the name still means the locked directory: no other process is about
		 * to remove it. */
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
		    fstatat(roots, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		    ours.st_ino == there.st_ino) {
			host_mark_use(fd, &ours);
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		if (host_build(roots, name, authority, e) < 0)
			return -1;
	}
	return err_set(e, ERR_CONFLICT, "host template: another process keeps removing %s", name);
}

/* The descriptor belongs to t, also after a later error. */
static int host_add_layer(struct template *t, const char *at, struct err *e)
{
	t->fds[t->nlayers] = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (t->fds[t->nlayers] < 0)
		return err_sys(e, "open %s", at);
	str_copy(t->at[t->nlayers], at);
	t->nlayers++;
	return 0;
}

/* Layer 0 is the root directory, and layer 1 the machine's /usr. */
int host_open(const struct node_ca *authority, struct template *ret, struct err *e)
{
	struct template t = { .nlayers = 0 };
	char path[16];
	int found = -1;

	(void)snprintf(t.name, sizeof(t.name), "host-%016llx",
		       (unsigned long long)host_fingerprint(authority));
	if (host_roots_open(&found, e) < 0)
		return -1;
	OWN_FD roots = found;
	if (host_open_skeleton(roots, t.name, authority, &t.fds[0], e) < 0)
		return -1;
	t.nlayers = 1;
	(void)snprintf(t.at[0], sizeof(t.at[0]), "/");
	if (host_add_layer(&t, "/usr", e) < 0)
		goto undo;
	for (size_t i = 0; i < COUNT(top_dirs); i++) {
		struct stat st;

		(void)snprintf(path, sizeof(path), "/%s", top_dirs[i]);
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && host_add_layer(&t, path, e) < 0)
			goto undo;
	}
	*ret = t;
	return 0;
undo:
	template_release(&t);
	return -1;
}
