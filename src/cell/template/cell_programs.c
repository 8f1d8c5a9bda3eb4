#include "cell/template/cell_programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/template/host_files.h"
#include "lib/base/fnv.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define FILE_MAX (16U << 20)
#define DEPTH_MAX 4U
#define ENTRIES_MAX 512U

static const char *const programs[] = { "cordon-interpreter", "mcp-gateway" };

/* The folder of the running program. Of one that an upgrade has replaced, too. */
static int cell_programs_open_folder(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n < 0)
		return -1;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL)
		return -1;
	*slash = '\0';
	return open(path, DIR_FLAGS | O_CLOEXEC);
}

/* ---- whose files are taken */

/* Of root, of the user who runs this program, or of the owner of this program, and no other may
 * write to it. The folder may be one where every user can make files. */
static bool cell_programs_is_trusted(const struct stat *st)
{
	struct stat self;

	if (!S_ISLNK(st->st_mode) && (st->st_mode & S_IWOTH) != 0)
		return false;
	return st->st_uid == 0 || st->st_uid == geteuid() ||
	       (stat("/proc/self/exe", &self) == 0 && st->st_uid == self.st_uid);
}

static void cell_programs_warn_left_out(const char *name)
{
	log_warn("a file beside the program is left out of cells: it is a link, or other users can "
		 "change it",
		 "name=%s", name);
}

/* A link at the top is followed if its owner is trusted, too: build/kernels is one. Return -1 with
 * errno 0 if the file is not to be taken. */
static int cell_programs_open_top(int folder, const char *name, int flags, struct stat *ret)
{
	OWN_FD fd = -1;

	if (fstatat(folder, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (cell_programs_is_trusted(ret))
		fd = openat(folder, name,
			    flags | O_NONBLOCK | (S_ISLNK(ret->st_mode) ? 0 : O_NOFOLLOW));
	else
		errno = 0;
	if (fd < 0 || fstat(fd, ret) < 0)
		return -1;
	if (cell_programs_is_trusted(ret))
		return TAKE_FD(fd);
	errno = 0;
	return -1;
}

/* ---- one walk over the kernels, for the stamp and for the copy */

/* The stamp and the copy are one walk, so both see the same files. */
struct cell_programs_visit {
	uint64_t hash; /* stamp */
	bool copy;
	unsigned entries; /* so far */
};

static void cell_programs_mix(uint64_t *h, const void *bytes, size_t n)
{
	*h = fnv_add(*h, bytes, n);
}

/* A changed file has another inode, size or time. */
static void cell_programs_mix_file(uint64_t *h, const char *name, const struct stat *st)
{
	cell_programs_mix(h, name, strlen(name) + 1);
	cell_programs_mix(h, &st->st_ino, sizeof(st->st_ino));
	cell_programs_mix(h, &st->st_size, sizeof(st->st_size));
	cell_programs_mix(h, &st->st_mtim, sizeof(st->st_mtim));
}

static int cell_programs_copy_bytes(int from, int to, struct err *e)
{
	char piece[65536];
	ssize_t n;

	while ((n = read(from, piece, sizeof(piece))) > 0)
		if (io_write_all(to, piece, (size_t)n, e) < 0)
			return -1;
	return n < 0 ? err_sys(e, "read") : 0;
}

/* `in` is open and checked, so the copy is of the file that was trusted. */
static int cell_programs_copy_file(int in, int to, const char *name, mode_t mode, struct err *e)
{
	OWN_FD out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (out < 0)
		return err_sys(e, "copy %s", name);
	if (cell_programs_copy_bytes(in, out, e) < 0 || fchmod(out, mode) < 0)
		return err_sys(e, "copy %s", name);
	return 0;
}

static int cell_programs_visit_dir(struct cell_programs_visit *v, int from, int to, unsigned depth,
				   struct err *e);

/* The directory is made before its files. */
static int cell_programs_visit_below(struct cell_programs_visit *v, int source, int to,
				     const char *name, unsigned depth, struct err *e)
{
	if (!v->copy)
		return cell_programs_visit_dir(v, source, -1, depth, e);
	if (mkdirat(to, name, 0755) < 0 || fchmodat(to, name, 0755, 0) < 0)
		return err_sys(e, "mkdir %s", name);
	OWN_FD dest = openat(to, name, DIR_FLAGS | O_CLOEXEC | O_NOFOLLOW);
	return dest < 0 ? err_sys(e, "open %s", name)
			: cell_programs_visit_dir(v, source, dest, depth, e);
}

/* Hidden files, Python's caches and files of others are left out. */
static int cell_programs_visit_entry(struct cell_programs_visit *v, int from, int to,
				     const char *name, unsigned depth, struct err *e)
{
	struct stat st;

	if (name[0] == '.' || strcmp(name, "__pycache__") == 0)
		return 0;
	if (++v->entries > ENTRIES_MAX || depth == 0)
		return err_set(e, ERR_LIMIT, "too many files among the kernels");
	OWN_FD fd = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if ((fd < 0 && errno != ELOOP) || (fd >= 0 && fstat(fd, &st) < 0))
		return err_sys(e, "open %s", name);
	if (fd < 0 || !cell_programs_is_trusted(&st)) {
		if (v->copy)
			cell_programs_warn_left_out(name);
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return cell_programs_visit_below(v, fd, to, name, depth - 1, e);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return 0;
	cell_programs_mix_file(&v->hash, name, &st);
	return v->copy ? cell_programs_copy_file(fd, to, name, 0644, e) : 0;
}

static int cell_programs_visit_dir(struct cell_programs_visit *v, int from, int to, unsigned depth,
				   struct err *e)
{
	OWN_FD again = openat(from, ".", DIR_FLAGS | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	int result = 0;

	if (d == NULL)
		return err_sys(e, "list kernels");
	(void)TAKE_FD(again);
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		result = cell_programs_visit_entry(v, from, to, entry->d_name, depth, e);
	(void)closedir(d);
	return result;
}

const char *cell_programs_missing(void)
{
	OWN_FD folder = cell_programs_open_folder();

	for (size_t i = 0; folder >= 0 && i < COUNT(programs); i++)
		if (faccessat(folder, programs[i], R_OK, 0) < 0)
			return programs[i];
	return folder >= 0 && faccessat(folder, "kernels", R_OK, 0) < 0 ? "kernels" : NULL;
}

/* 0: the program's folder cannot be opened. */
uint64_t cell_programs_stamp(void)
{
	struct cell_programs_visit v = { .hash = FNV_START };
	OWN_FD folder = cell_programs_open_folder();
	struct stat st;
	struct err e;

	if (folder < 0)
		return 0;
	for (size_t i = 0; i < COUNT(programs); i++)
		if (fstatat(folder, programs[i], &st, 0) == 0)
			cell_programs_mix_file(&v.hash, programs[i], &st);
	OWN_FD kernels = cell_programs_open_top(folder, "kernels", DIR_FLAGS | O_CLOEXEC, &st);
	if (kernels >= 0)
		IGNORED(cell_programs_visit_dir(&v, kernels, -1, DEPTH_MAX, &e),
			"copying reports it");
	return v.hash;
}

static int cell_programs_copy_program(int folder, int to, const char *name, struct err *e)
{
	struct stat st;
	OWN_FD in = cell_programs_open_top(folder, name, O_RDONLY | O_CLOEXEC, &st);

	if (in < 0 && errno == 0)
		cell_programs_warn_left_out(name);
	return in < 0 || !S_ISREG(st.st_mode) ? 0 : cell_programs_copy_file(in, to, name, 0755, e);
}

/* The interpreter and the gateway are optional, and so are the kernels. */
int cell_programs_copy(int root, struct err *e)
{
	struct cell_programs_visit v = { .copy = true };
	struct stat st;
	OWN_FD folder = cell_programs_open_folder();
	OWN_FD bin = openat(root, HOST_PROGRAMS, DIR_FLAGS | O_CLOEXEC | O_NOFOLLOW);

	if (folder < 0)
		return 0;
	if (bin < 0)
		return err_sys(e, "open " HOST_PROGRAMS);
	for (size_t i = 0; i < COUNT(programs); i++)
		if (cell_programs_copy_program(folder, bin, programs[i], e) < 0)
			return -1;
	OWN_FD kernels = cell_programs_open_top(folder, "kernels", DIR_FLAGS | O_CLOEXEC, &st);
	if (kernels < 0 && errno == 0)
		cell_programs_warn_left_out("kernels");
	if (kernels < 0)
		return 0;
	if (mkdirat(root, CELL_KERNELS, 0755) < 0 || fchmodat(root, CELL_KERNELS, 0755, 0) < 0)
		return err_sys(e, "mkdir " CELL_KERNELS);
	OWN_FD to = openat(root, CELL_KERNELS, DIR_FLAGS | O_CLOEXEC | O_NOFOLLOW);
	return to < 0 ? err_sys(e, "open " CELL_KERNELS)
		      : cell_programs_visit_dir(&v, kernels, to, DEPTH_MAX, e);
}
