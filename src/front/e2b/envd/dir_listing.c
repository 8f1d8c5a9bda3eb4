#include "front/e2b/envd/dir_listing.h"

#include <stdlib.h>
#include <string.h>

#include "front/e2b/envd/rpc.h"
#include "front/web/reply.h"

/* Where its path and its JSON are in the text. */
struct dir_listing_entry {
	size_t path, json;
};

/* Large texts are counted for all clients together. False: too large, too many, or no memory. */
static bool grow_text(struct dir_listing *l, size_t n)
{
	size_t size = l->size == 0 ? 4096 : l->size, counted;
	char *more;

	if (n > REPLY_JSON_MAX - l->len)
		return false;
	while (size < l->len + n)
		size *= 2;
	if (size == l->size)
		return true;
	counted = rpc_countable(size) - rpc_countable(l->size);
	if (!rpc_count(counted))
		return false;
	more = realloc(l->text, size);
	if (more == NULL) {
		rpc_uncount(counted);
		return false;
	}
	l->text = more;
	l->size = size;
	return true;
}

/* The NUL is copied, too. Returns the place in the text, which stays valid when the text moves. */
static size_t dir_listing_put(struct dir_listing *l, const char *text, size_t n)
{
	size_t at = l->len;

	memcpy(l->text + at, text, n + 1);
	l->len += n + 1;
	return at;
}

bool dir_listing_add(struct dir_listing *l, const char *path, const struct json *entry)
{
	struct dir_listing_entry *more;

	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : 2 * l->cap;

		more = reallocarray(l->entries, cap, sizeof(*more));
		if (more == NULL)
			return false;
		l->entries = more;
		l->cap = cap;
	}
	if (!grow_text(l, strlen(path) + entry->len + 2))
		return false;
	l->entries[l->n].path = dir_listing_put(l, path, strlen(path));
	l->entries[l->n].json = dir_listing_put(l, entry->text, entry->len);
	l->n++;
	return true;
}

/* '/' sorts before every other character, so that a directory's entries follow it. */
static int compare_paths(const char *a, const char *b)
{
	while (*a == *b && *a != '\0') {
		a++;
		b++;
	}
	if (*a == *b)
		return 0;
	if (*a == '\0' || *b == '\0')
		return *a == '\0' ? -1 : 1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

static int dir_listing_compare(const void *a, const void *b, void *text)
{
	return compare_paths((char *)text + ((const struct dir_listing_entry *)a)->path,
			     (char *)text + ((const struct dir_listing_entry *)b)->path);
}

static size_t dir_listing_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Sort runs of DIR_LISTING_RUN. True: there are more. Four runs in each piece. */
static bool sort_runs(struct dir_listing *l)
{
	size_t end = dir_listing_least(l->n, l->at + (size_t)4 * DIR_LISTING_RUN);

	for (; l->at < end; l->at += DIR_LISTING_RUN)
		qsort_r(l->entries + l->at, dir_listing_least(DIR_LISTING_RUN, l->n - l->at),
			sizeof(*l->entries), dir_listing_compare, l->text);
	return l->at < l->n;
}

/* The next entry of the two runs that become the one which l->at lies in. */
static const struct dir_listing_entry *next_of_two(struct dir_listing *l)
{
	size_t first = l->at / (2 * l->run) * (2 * l->run);
	size_t second = dir_listing_least(l->n, first + l->run),
	       end = dir_listing_least(l->n, first + 2 * l->run);

	if (l->at == first) {
		l->left = first;
		l->right = second;
	}
	if (l->right == end ||
	    (l->left < second &&
	     dir_listing_compare(&l->entries[l->left], &l->entries[l->right], l->text) <= 0))
		return &l->entries[l->left++];
	return &l->entries[l->right++];
}

/* Merge each two runs into one. True: there is more of this pass. */
static bool merge_runs(struct dir_listing *l)
{
	size_t end = dir_listing_least(l->n, l->at + DIR_LISTING_MERGED);
	struct dir_listing_entry *merged = l->spare;

	for (; l->at < end; l->at++)
		l->spare[l->at] = *next_of_two(l);
	if (l->at < l->n)
		return true;
	l->spare = l->entries;
	l->entries = merged;
	l->cap = l->n;
	return false;
}

/* Does a piece of the sorting. False: out of memory. */
static bool sort_piece(struct dir_listing *l)
{
	if (l->run == 0 && l->spare == NULL) {
		l->spare = reallocarray(NULL, l->n + 1, sizeof(*l->spare));
		if (l->spare == NULL)
			return false;
	}
	if (l->run == 0 ? sort_runs(l) : merge_runs(l))
		return true;
	l->run = l->run == 0 ? DIR_LISTING_RUN : 2 * l->run;
	l->at = 0;
	l->sorted = l->run >= l->n;
	return true;
}

/* First the passes of sorting, then the writing, both from l->at on. */
bool dir_listing_piece(struct dir_listing *l, struct json *j)
{
	size_t before = j->len;

	if (!l->sorted && !sort_piece(l)) {
		j->full = true;
		return false;
	}
	if (!l->sorted)
		return true;
	for (; l->at < l->n && j->len - before < DIR_LISTING_WRITTEN; l->at++)
		json_raw(j, NULL, l->text + l->entries[l->at].json);
	return l->at < l->n;
}

void dir_listing_release(struct dir_listing *l)
{
	rpc_uncount(rpc_countable(l->size));
	free(l->text);
	free(l->entries);
	free(l->spare);
	*l = (struct dir_listing){ 0 };
}
