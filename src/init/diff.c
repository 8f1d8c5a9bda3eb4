/* diff.c - theory of operation
 *
 * Three trees are walked together, by descriptor and without following any link: `upper`, what the
 * cell wrote; `lower`, the layer below it; `merged`, what the cell saw. Only directories that exist
 * in upper are visited. An entry of upper is new if lower has none, changed if lower's differs, and
 * a deletion if it is a whiteout (a device 0:0). A directory that was removed and made again hides
 * lower's entries without a whiteout for each; the attribute for that can be read by the machine's
 * root only. So merged is compared: an entry that is in lower and not in merged is deleted. */
#include "diff.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "io.h"
#include "secret_table.h"

#define DEPTH_MAX 1000
#define NOBODY 65534
#define PATH_CAP (DEPTH_MAX * 256 + 1024)

/* One directory in the three trees; -1 in a tree that does not have it. Descriptors are the
 * caller's. */
struct place {
	int upper, lower, merged;
};

static char path[PATH_CAP];
static char out[65536];
static size_t out_len;
static bool failed;

static void flush(void)
{
	struct err e;

	if (!failed && io_write_all(1, out, out_len, &e) < 0)
		failed = true;
	out_len = 0;
}

static void put(const char *bytes, size_t n)
{
	while (n > 0) {
		size_t room = sizeof(out) - out_len, part = n < room ? n : room;

		memcpy(out + out_len, bytes, part);
		out_len += part;
		bytes += part;
		n -= part;
		if (out_len == sizeof(out))
			flush();
	}
}

static void record(char kind, const struct stat *st)
{
	char head[64];
	int n = snprintf(head, sizeof(head), "%c\t%o\t%llu\t", kind, (unsigned)st->st_mode,
			 S_ISDIR(st->st_mode) ? 0ULL : (unsigned long long)st->st_size);

	put(head, (size_t)n);
	put(path, strlen(path) + 1);
}

static int enter(int dir, const char *name)
{
	return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool in(int dir, const char *name, struct stat *ret)
{
	return dir >= 0 && fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static ssize_t read_at(int fd, char *ret, size_t cap, off_t at)
{
	size_t got = 0;
	ssize_t n;

	while (got < cap && (n = pread(fd, ret + got, cap - got, at + (off_t)got)) > 0)
		got += (size_t)n;
	return (ssize_t)got;
}

static bool same_bytes(struct place p, const char *name)
{
	static char a[65536], b[65536];
	OWN_FD upper = openat(p.upper, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	OWN_FD lower = openat(p.lower, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (upper < 0 || lower < 0)
		return false;
	/* The one attribute that gives a program rights. */
	n = fgetxattr(upper, "security.capability", a, sizeof(a));
	if (n != fgetxattr(lower, "security.capability", b, sizeof(b)) ||
	    (n > 0 && memcmp(a, b, (size_t)n) != 0))
		return false;
	for (off_t at = 0; (n = read_at(upper, a, sizeof(a), at)) > 0; at += n)
		if (read_at(lower, b, sizeof(b), at) != n || memcmp(a, b, (size_t)n) != 0)
			return false;
	return true;
}

static bool same_target(struct place p, const char *name)
{
	char a[4096], b[4096];
	ssize_t n = readlinkat(p.upper, name, a, sizeof(a));

	return n >= 0 && readlinkat(p.lower, name, b, sizeof(b)) == n &&
	       memcmp(a, b, (size_t)n) == 0;
}

/* Is the entry unchanged? overlayfs also copies the directories above a change, and files
 * that were opened for writing and not written. A cell can set times, so content is compared even
 * if they are equal. Owners that do not exist in the cell show as NOBODY and cannot be compared. */
static bool same(struct place p, const char *name, const struct stat *now,
		 const struct stat *before)
{
	if (now->st_mode != before->st_mode)
		return false;
	if (before->st_uid != NOBODY &&
	    (now->st_uid != before->st_uid || now->st_gid != before->st_gid))
		return false;
	if (S_ISREG(now->st_mode))
		return now->st_size == before->st_size &&
		       memcmp(&now->st_mtim, &before->st_mtim, sizeof(now->st_mtim)) == 0 &&
		       same_bytes(p, name);
	return !S_ISLNK(now->st_mode) || same_target(p, name);
}

static bool walk(struct place p, size_t at, unsigned depth);

/* One entry of an upper directory, and all below it. */
static void one_entry(struct place p, const char *name, size_t at, unsigned depth)
{
	struct stat now, before;
	bool had = in(p.lower, name, &before);

	if (!in(p.upper, name, &now))
		return;
	if (S_ISCHR(now.st_mode) && now.st_rdev == makedev(0, 0)) {
		/* Without a layer below, it is no whiteout but a device. */
		if (had || p.lower < 0)
			record(had ? 'D' : 'A', had ? &before : &now);
		return;
	}
	if (!had)
		record('A', &now);
	else if (!same(p, name, &now, &before))
		record('C', &now);
	if (!S_ISDIR(now.st_mode))
		return;
	/* Secrets are not changes that the cell made: only their directory is listed. */
	if (strcmp(path, SECRET_TABLE_DIR) == 0)
		return;
	OWN_FD upper = enter(p.upper, name);
	OWN_FD lower = had && S_ISDIR(before.st_mode) ? enter(p.lower, name) : -1;
	OWN_FD merged = enter(p.merged, name);
	/* Too deep, out of descriptors, or not readable by root of the cell: reported. */
	if (upper < 0 || depth == DEPTH_MAX ||
	    !walk((struct place){ upper, lower, merged }, at, depth + 1))
		record('T', &now);
}

static DIR *list(int dir)
{
	int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (d == NULL && again >= 0)
		fd_close(again);
	return d;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Appends "/name" to the first `at` bytes of the path; returns its new length. */
static size_t extend(size_t at, const char *name)
{
	int n = snprintf(path + at, sizeof(path) - at, "/%s", name);

	return at + (size_t)n;
}

/* Entries of a layer's directory that are hidden without a whiteout. */
static void hidden_entries(struct place p, size_t at)
{
	DIR *d = p.lower < 0 || p.merged < 0 ? NULL : list(p.lower);
	struct stat before, st;

	if (d == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		if (is_dots(entry->d_name) || in(p.upper, entry->d_name, &st) ||
		    in(p.merged, entry->d_name, &st) || !in(p.lower, entry->d_name, &before))
			continue;
		(void)extend(at, entry->d_name);
		record('D', &before);
	}
	(void)closedir(d);
}

/* False if the directory cannot be listed; nothing was recorded then. */
static bool walk(struct place p, size_t at, unsigned depth)
{
	DIR *d = list(p.upper);

	if (d == NULL)
		return false;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		if (!is_dots(entry->d_name))
			one_entry(p, entry->d_name, extend(at, entry->d_name), depth);
	(void)closedir(d);
	hidden_entries(p, at);
	return true;
}

/* One writable directory of the disk, mounted at `mount` in the cell. */
static void walk_top(const char *disk_dir, const char *mount, int lower)
{
	OWN_FD upper = open(disk_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t at = mount[1] == '\0' ? 0 : strlen(mount);

	if (upper < 0) {
		failed = failed || errno != ENOENT; /* not every cell has all of them */
		return;
	}
	OWN_FD merged = mount[1] == '\0' ? openat(3, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					 : enter(3, mount + 1);
	(void)snprintf(path, sizeof(path), "%s", mount);
	if (!walk((struct place){ upper, lower, merged }, at, 0))
		failed = true;
}

int diff_main(int nplaces, char **places)
{
	struct rlimit files;
	static const char *const plain[][2] = { { "tmp", "/tmp" },
						{ "run", "/run" },
						{ "home", "/home/user" },
						{ "shm", "/dev/shm" } };

	/* Each level of a tree needs several descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	for (int i = 0; i < nplaces && i < 10; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "u%d", i);
		walk_top(name, places[i], 4 + i);
	}
	for (size_t i = 0; i < COUNT(plain); i++)
		walk_top(plain[i][0], plain[i][1], -1);
	/* Marks the list as complete: its reader does not know the exit status. */
	if (!failed) {
		(void)snprintf(path, sizeof(path), "/");
		record('E', &(struct stat){ 0 });
	}
	flush();
	return failed ? 1 : 0;
}
