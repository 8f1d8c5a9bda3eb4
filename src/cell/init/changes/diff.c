/* diff.c - theory of operation
 *
 * Three trees are walked together (layer_place.h): `upper`, the cell's writes, `lower`, the layers
 * below, and `merged`, the cell's view. Only directories that exist in upper are visited. An entry
 * of upper is new if the layers show none, changed if theirs differs, and a deletion if it is a
 * whiteout (a device 0:0). A directory removed and made again hides the layers' entries without a
 * whiteout for each. The attribute for that can be read by the machine's root only. So merged is
 * compared: an entry of the layers without one in merged is deleted. */
#include "cell/init/changes/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "cell/init/base/secret_table.h"
#include "cell/init/changes/layer_place.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

#define DEPTH_MAX 1000
#define NOBODY 65534
#define PATH_CAP (DEPTH_MAX * 256 + 1024)

static char path[PATH_CAP];
static char out[65536];
static size_t out_len;
static bool failed;

static void diff_flush(void)
{
	struct err e;

	if (!failed && io_write_all(1, out, out_len, &e) < 0)
		failed = true;
	out_len = 0;
}

static void diff_put(const char *bytes, size_t n)
{
	while (n > 0) {
		size_t room = sizeof(out) - out_len, part = n < room ? n : room;

		memcpy(out + out_len, bytes, part);
		out_len += part;
		bytes += part;
		n -= part;
		if (out_len == sizeof(out))
			diff_flush();
	}
}

/* when: the upper directory's entry, whose change time is that of the change. NULL: not known. */
static void diff_record(char kind, const struct stat *st, const struct stat *when)
{
	char head[96];
	unsigned long long ms =
		when == NULL ? 0
			     : (unsigned long long)when->st_ctim.tv_sec * 1000 +
				       (unsigned long long)when->st_ctim.tv_nsec / 1000000;
	int n = snprintf(head, sizeof(head), "%c\t%o\t%llu\t%llu\t", kind, (unsigned)st->st_mode,
			 S_ISDIR(st->st_mode) ? 0ULL : (unsigned long long)st->st_size, ms);

	diff_put(head, (size_t)n);
	diff_put(path, strlen(path) + 1);
}

static ssize_t diff_read_at(int fd, char *ret, size_t cap, off_t at)
{
	size_t got = 0;
	ssize_t n;

	while (got < cap && (n = pread(fd, ret + got, cap - got, at + (off_t)got)) > 0)
		got += (size_t)n;
	return (ssize_t)got;
}

static bool diff_same_bytes(int upper_dir, int lower_dir, const char *name)
{
	static char a[65536], b[65536];
	OWN_FD upper = openat(upper_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	OWN_FD lower = openat(lower_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (upper < 0 || lower < 0)
		return false;
	/* The one attribute that gives a program rights. */
	n = fgetxattr(upper, "security.capability", a, sizeof(a));
	if (n != fgetxattr(lower, "security.capability", b, sizeof(b)) ||
	    (n > 0 && memcmp(a, b, (size_t)n) != 0))
		return false;
	for (off_t at = 0; (n = diff_read_at(upper, a, sizeof(a), at)) > 0; at += n)
		if (diff_read_at(lower, b, sizeof(b), at) != n || memcmp(a, b, (size_t)n) != 0)
			return false;
	return true;
}

static bool diff_same_target(int upper_dir, int lower_dir, const char *name)
{
	char a[4096], b[4096];
	ssize_t n = readlinkat(upper_dir, name, a, sizeof(a));

	return n >= 0 && readlinkat(lower_dir, name, b, sizeof(b)) == n &&
	       memcmp(a, b, (size_t)n) == 0;
}

/* Is the entry unchanged? overlayfs also copies the directories above a change, and files opened
 * for writing but not written. A cell can set times, so content is compared even if they are equal.
 * Owners that do not exist in the cell show as NOBODY and cannot be compared. */
static bool diff_same(int upper, int lower, const char *name, const struct stat *now,
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
		       diff_same_bytes(upper, lower, name);
	return !S_ISLNK(now->st_mode) || diff_same_target(upper, lower, name);
}

static bool diff_walk(const struct layer_place *p, size_t at, unsigned depth);

/* One entry of an upper directory, and all below it. */
static void diff_one_entry(const struct layer_place *p, const char *name, size_t at, unsigned depth)
{
	struct stat now, before;
	int had = layer_place_find(p, name, &before);
	struct layer_place sub;

	if (!layer_place_in(p->upper, name, &now))
		return;
	if (layer_place_is_whiteout(&now)) {
		/* Without a layer below, it is no whiteout but a device. */
		if (had >= 0 || p->nlower == 0)
			diff_record(had >= 0 ? 'D' : 'A', had >= 0 ? &before : &now, &now);
		return;
	}
	if (had < 0)
		diff_record('A', &now, &now);
	else if (!diff_same(p->upper, p->lower[had], name, &now, &before))
		diff_record('C', &now, &now);
	if (!S_ISDIR(now.st_mode))
		return;
	/* Secrets are not changes that the cell made: only their directory is listed. */
	if (strcmp(path, SECRET_TABLE_DIR) == 0)
		return;
	layer_place_enter(p, name, &sub);
	/* Too deep, out of descriptors, or not readable by root of the cell: reported. */
	if (sub.upper < 0 || depth == DEPTH_MAX || !diff_walk(&sub, at, depth + 1))
		diff_record('T', &now, &now);
	layer_place_close(&sub);
}

/* Append "/name" to the first `at` bytes of the path. Return its new length. */
static size_t diff_extend(size_t at, const char *name)
{
	int n = snprintf(path + at, sizeof(path) - at, "/%s", name);

	return at + (size_t)n;
}

/* Hidden entries of a layer's directory without a whiteout. */
static void diff_hidden_entries(const struct layer_place *p, unsigned layer, size_t at)
{
	DIR *d = p->merged < 0 ? NULL : layer_place_list(p->lower[layer]);
	struct stat before, st;

	if (d == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
		const char *name = entry->d_name;

		if (layer_place_is_dots(name) || layer_place_in(p->upper, name, &st) ||
		    layer_place_in(p->merged, name, &st) ||
		    layer_place_find(p, name, &before) != (int)layer)
			continue;
		(void)diff_extend(at, name);
		diff_record('D', &before, NULL);
	}
	(void)closedir(d);
}

/* False if the directory cannot be listed. Nothing was recorded then. */
static bool diff_walk(const struct layer_place *p, size_t at, unsigned depth)
{
	DIR *d = layer_place_list(p->upper);

	if (d == NULL)
		return false;
	for (struct dirent *entry; (entry = readdir(d)) != NULL;)
		if (!layer_place_is_dots(entry->d_name))
			diff_one_entry(p, entry->d_name, diff_extend(at, entry->d_name), depth);
	(void)closedir(d);
	for (unsigned i = 0; i < p->nlower; i++)
		diff_hidden_entries(p, i, at);
	return true;
}

/* One writable directory of the disk, mounted at `mount` in the cell. opened: it could be. */
static void diff_walk_top(struct layer_place *p, bool opened, const char *mount)
{
	if (!opened) {
		failed = failed || errno != ENOENT; /* not every cell has all of them */
	} else {
		str_copy(path, mount);
		if (!diff_walk(p, mount[1] == '\0' ? 0 : strlen(mount), 0))
			failed = true;
	}
	layer_place_close(p);
}

/* A directory of the disk without layers. */
static void diff_walk_plain(const char *name, const char *mount)
{
	struct layer_place p = { .merged = -1 };

	p.upper = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	diff_walk_top(&p, p.upper >= 0, mount);
}

int diff_main(int nplaces, char **places)
{
	static const char *const plain[][2] = { { "tmp", "/tmp" },
						{ "run", "/run" },
						{ "home", "/home/user" },
						{ "shm", "/dev/shm" } };
	unsigned number = 0;

	layer_place_raise_limit();
	for (int i = 0, n; i < nplaces; i += n, number++) {
		struct layer_place p = { .merged = -1, .upper = -1 };

		n = layer_place_stack(nplaces - i, places + i);
		diff_walk_top(&p, layer_place_open(&p, number, places[i], 4 + i, (unsigned)n) == 0,
			      places[i]);
	}
	for (size_t i = 0; i < COUNT(plain); i++)
		diff_walk_plain(plain[i][0], plain[i][1]);
	/* Marks the list as complete: its reader does not know the exit status. */
	if (!failed) {
		(void)snprintf(path, sizeof(path), "/");
		diff_record('E', &(struct stat){ 0 }, NULL);
	}
	diff_flush();
	return failed ? 1 : 0;
}
