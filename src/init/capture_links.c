/* capture_links.c - a hash table with open addressing; paths are in one piece of memory that grows.
 */
#include "capture_links.h"

#include <string.h>

#define BYTES_MAX (64U << 20) /* of paths: memory that is not the cell's */
#define FIRST_SLOTS 1024U

struct slot {
	uint64_t device, inode;
	uint32_t path; /* where in paths; 0: free */
};

static struct slot *slots;
static size_t nslots, nused;
static char *paths;
static size_t paths_len = 1, paths_cap;

static struct slot *find(uint64_t device, uint64_t inode)
{
	uint64_t hash = (inode ^ device << 32) * 0x9e3779b97f4a7c15ULL;
	size_t at = (size_t)(hash >> 20) % nslots;

	while (slots[at].path != 0 && (slots[at].inode != inode || slots[at].device != device))
		at = (at + 1) % nslots;
	return &slots[at];
}

static int grow_slots(struct err *e)
{
	struct slot *old = slots;
	size_t n = nslots;

	nslots = n == 0 ? FIRST_SLOTS : 2 * n;
	slots = calloc(nslots, sizeof(*slots));
	if (slots == NULL)
		return err_sys(e, "hard links");
	for (size_t i = 0; i < n; i++)
		if (old[i].path != 0)
			*find(old[i].device, old[i].inode) = old[i];
	free(old);
	return 0;
}

static int keep_path(const char *path, uint32_t *ret_at, struct err *e)
{
	size_t n = strlen(path) + 1;

	if (paths_len + n > BYTES_MAX)
		return err_set(e, ERR_LIMIT, "too many files with hard links");
	if (paths_len + n > paths_cap) {
		size_t cap = 2 * (paths_cap + n);
		char *more = realloc(paths, cap);

		if (more == NULL)
			return err_sys(e, "hard links");
		paths = more;
		paths_cap = cap;
	}
	memcpy(paths + paths_len, path, n);
	*ret_at = (uint32_t)paths_len;
	paths_len += n;
	return 0;
}

int capture_links_find(uint64_t device, uint64_t inode, const char *path, const char **ret_first,
		       struct err *e)
{
	struct slot *s;

	*ret_first = NULL;
	if (2 * nused >= nslots && grow_slots(e) < 0)
		return -1;
	s = find(device, inode);
	if (s->path != 0) {
		*ret_first = paths + s->path;
		return 0;
	}
	nused++;
	s->device = device;
	s->inode = inode;
	return keep_path(path, &s->path, e);
}
