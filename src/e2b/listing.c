#include "listing.h"

#include <string.h>

#include "reply.h"
#include "rpc.h"

/* Where its path and its JSON are in the text. */
struct listing_entry {
	size_t path, json;
};

static bool grow_text(struct listing *l, size_t n)
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

static size_t put(struct listing *l, const char *text, size_t n)
{
	size_t at = l->len;

	memcpy(l->text + at, text, n + 1);
	l->len += n + 1;
	return at;
}

bool listing_add(struct listing *l, const char *path, const struct json *entry)
{
	struct listing_entry *more;

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
	l->entries[l->n].path = put(l, path, strlen(path));
	l->entries[l->n].json = put(l, entry->text, entry->len);
	l->n++;
	return true;
}

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

static int compare(const void *a, const void *b, void *text)
{
	return compare_paths((char *)text + ((const struct listing_entry *)a)->path,
			     (char *)text + ((const struct listing_entry *)b)->path);
}

void listing_write(struct listing *l, struct json *j, const char *name)
{
	if (l->n > 0)
		qsort_r(l->entries, l->n, sizeof(*l->entries), compare, l->text);
	json_open(j, name, '[');
	for (size_t i = 0; i < l->n; i++)
		json_raw(j, NULL, l->text + l->entries[i].json);
	json_close(j, ']');
}

void listing_release(struct listing *l)
{
	rpc_uncount(rpc_countable(l->size));
	free(l->text);
	free(l->entries);
	*l = (struct listing){ 0 };
}
