/* capture.c - theory of operation
 *
 * For each place the upper directory is walked beside the layers below and the merged view of the
 * cell (layer_place.h). Every entry of upper becomes a member whose name begins with the number of
 * the place. A removed entry becomes a whiteout. It was removed if upper has a whiteout of
 * overlayfs (a device 0:0), or if the layers below show an entry that neither upper nor merged has.
 * Overlayfs hides such entries by an attribute of the directory that only the machine's root can
 * read and write, so the archive says it entry by entry. No more than these: overlayfs lists
 * whiteouts as files in a directory without one below.
 *
 * Left out: sockets, devices, and files outside of the places of layers: /dev/shm with its secrets,
 * and all mounts.
 *
 * The cell is frozen. Its files are its own choice. An entry that does not fit into an archive ends
 * the capture with a reason, in the archive's last member: nothing is left out silently. */
#include "cell/init/changes/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cell/init/changes/capture_out.h"
#include "cell/init/changes/layer_place.h"
#include "lib/base/own.h"

#define DEPTH_MAX 1000

static char path[CAPTURE_PATH_MAX];
static dev_t merged_device; /* of the place in the walk */

static int capture_extend(size_t at, const char *name, size_t *ret_at, struct err *e)
{
	int n = snprintf(path + at, sizeof(path) - at, "/%s", name);

	if (n < 0 || at + (size_t)n >= sizeof(path))
		return err_set(e, ERR_LIMIT, "a path of %d bytes or more: %.100s...",
			       CAPTURE_PATH_MAX, path);
	*ret_at = at + (size_t)n;
	return 0;
}

static int capture_walk(const struct layer_place *p, size_t at, unsigned depth, struct err *e);

/* A directory, which p has, with all below it. */
static int capture_one_directory(const struct layer_place *p, const char *name,
				 const struct stat *st, size_t at, unsigned depth, struct err *e)
{
	struct layer_place sub;
	struct stat merged;
	int result = -1;

	if (depth == DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "over %d levels deep: %.100s...", DEPTH_MAX, path);
	layer_place_enter(p, name, &sub);
	/* Another file system is mounted there, whose files say nothing about the layers. */
	if (sub.merged >= 0 && (fstat(sub.merged, &merged) < 0 || merged.st_dev != merged_device)) {
		fd_close(sub.merged);
		sub.merged = -1;
	}
	if (sub.upper < 0)
		(void)err_sys(e, "open %.100s", path);
	else if (capture_out_entry(path, st, sub.upper, "", e) == 0)
		result = capture_walk(&sub, at, depth + 1, e);
	layer_place_close(&sub);
	return result;
}

static int capture_one_file(int dir, const char *name, struct err *e)
{
	OWN_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %.100s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFLICT, "%.100s changed while it was read", path);
	return capture_out_entry(path, &st, fd, "", e);
}

static int capture_one_symlink(int dir, const char *name, const struct stat *st, struct err *e)
{
	char target[CAPTURE_PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, "read the link %.100s", path);
	target[n] = '\0';
	return capture_out_entry(path, st, -1, target, e);
}

static int capture_one_entry(const struct layer_place *p, const char *name, size_t at,
			     unsigned depth, struct err *e)
{
	struct stat st, lower;

	if (!layer_place_in(p->upper, name, &st))
		return err_sys(e, "%.100s", path);
	if (layer_place_is_whiteout(&st))
		return layer_place_find(p, name, &lower) < 0 ? 0 : capture_out_whiteout(path, e);
	if (S_ISDIR(st.st_mode))
		return capture_one_directory(p, name, &st, at, depth, e);
	if (S_ISREG(st.st_mode))
		return capture_one_file(p->upper, name, e);
	if (S_ISLNK(st.st_mode))
		return capture_one_symlink(p->upper, name, &st, e);
	return S_ISFIFO(st.st_mode) ? capture_out_entry(path, &st, p->upper, name, e) : 0;
}

/* Entries of one layer that it shows and that the cell did not see. */
static int capture_hidden_entries(const struct layer_place *p, unsigned layer, size_t at,
				  struct err *e)
{
	DIR *d = layer_place_list(p->lower[layer]);
	struct stat st;
	size_t end;
	int result = 0;

	if (d == NULL)
		return err_sys(e, "list the layers at %.100s", path);
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;) {
		const char *name = entry->d_name;

		if (layer_place_is_dots(name) || layer_place_in(p->upper, name, &st) ||
		    layer_place_in(p->merged, name, &st) ||
		    layer_place_find(p, name, &st) != (int)layer)
			continue;
		result = capture_extend(at, name, &end, e) < 0 ? -1 : capture_out_whiteout(path, e);
	}
	(void)closedir(d);
	return result;
}

static int capture_walk(const struct layer_place *p, size_t at, unsigned depth, struct err *e)
{
	DIR *d = layer_place_list(p->upper);
	size_t end;
	int result = 0;

	if (d == NULL)
		return err_sys(e, "list %.100s", path);
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;)
		if (!layer_place_is_dots(entry->d_name))
			result = capture_extend(at, entry->d_name, &end, e) < 0
					 ? -1
					 : capture_one_entry(p, entry->d_name, end, depth, e);
	(void)closedir(d);
	for (unsigned i = 0; i < p->nlower && p->merged >= 0 && result == 0; i++)
		result = capture_hidden_entries(p, i, at, e);
	return result;
}

static int capture_one_place(struct layer_place *p, unsigned number, struct err *e)
{
	struct stat st, merged;
	size_t at = (size_t)snprintf(path, sizeof(path), "%u", number);

	if (p->merged < 0 || fstat(p->merged, &merged) < 0 || fstat(p->upper, &st) < 0)
		return err_sys(e, "place %u", number);
	merged_device = merged.st_dev;
	if (capture_out_entry(path, &st, p->upper, "", e) < 0)
		return -1;
	return capture_walk(p, at, 0, e);
}

static int capture_all_places(int nplaces, char **places, struct err *e)
{
	unsigned number = 0;

	for (int i = 0, n; i < nplaces; i += n, number++) {
		struct layer_place p;
		int result;

		n = layer_place_stack(nplaces - i, places + i);
		result = layer_place_open(&p, number, places[i], 4 + i, (unsigned)n) < 0
				 ? err_sys(e, "open the changes at %.60s", places[i])
				 : capture_one_place(&p, number, e);
		layer_place_close(&p);
		if (result < 0)
			return -1;
	}
	return 0;
}

int capture_main(int nplaces, char **places)
{
	struct err failure = { 0 }, e;
	bool whole;

	layer_place_raise_limit();
	whole = capture_all_places(nplaces, places, &failure) == 0;
	return capture_out_end(whole ? NULL : &failure, &e) < 0 || !whole ? 1 : 0;
}
