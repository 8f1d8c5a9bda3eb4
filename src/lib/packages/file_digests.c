/* file_digests.c - see file_digests.h. One array of files, and an index of open addressing over
 * it. */
#include "lib/packages/file_digests.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/text_hash.h"
#include "lib/packages/package_meta.h"

#define PROBES 512U

struct file_digest {
	uint64_t hash, size;
	uint8_t sha256[32];
	bool ambiguous;
};

/* Find the slot of a hash, or the empty slot for it. NULL: too many steps. */
static uint32_t *slot_of(const struct file_digests *t, uint64_t hash)
{
	for (size_t i = 0; i < PROBES; i++) {
		uint32_t *slot = &t->slots[(hash + i) & (t->nslots - 1)];

		if (*slot == 0 || t->files[*slot - 1].hash == hash)
			return slot;
	}
	return NULL;
}

/* Hashes are kept with the files, so a larger index needs no path. */
static int grow_slots(struct file_digests *t, struct err *e)
{
	size_t n = t->nslots == 0 ? 1024 : t->nslots * 2;
	uint32_t *slots;

	if (t->n * 2 < t->nslots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (slots == NULL)
		return err_sys(e, "metadata of packages");
	free(t->slots);
	t->slots = slots;
	t->nslots = n;
	for (size_t i = 0; i < t->n; i++) {
		uint32_t *slot = slot_of(t, t->files[i].hash);

		if (slot != NULL)
			*slot = (uint32_t)i + 1;
	}
	return 0;
}

/* ERR_LIMIT at PACKAGE_META_FACTS, before any memory is asked for. */
static int grow_files(struct file_digests *t, struct err *e)
{
	size_t room = t->room == 0 ? 512 : t->room * 2;
	struct file_digest *files;

	if (t->n < t->room)
		return 0;
	if (t->n >= PACKAGE_META_FACTS)
		return err_set(e, ERR_LIMIT, "the index has more than %u files",
			       PACKAGE_META_FACTS);
	if (room > PACKAGE_META_FACTS)
		room = PACKAGE_META_FACTS;
	files = reallocarray(t->files, room, sizeof(*files));
	if (files == NULL)
		return err_sys(e, "metadata of packages");
	t->files = files;
	t->room = room;
	return 0;
}

/* A file listed twice with the same digest and size is not ambiguous. */
int file_digests_add(struct file_digests *t, const char *path, const struct digest *d,
		     uint64_t size, struct err *e)
{
	struct file_digest f = { .hash = text_hash(path), .size = size }, *known;
	uint32_t *slot;

	memcpy(f.sha256, d->bytes, sizeof(f.sha256));
	if (grow_files(t, e) < 0 || grow_slots(t, e) < 0)
		return -1;
	slot = slot_of(t, f.hash);
	if (slot == NULL)
		return err_set(e, ERR_INVALID, "the index has names that are made to collide");
	if (*slot == 0) {
		t->files[t->n++] = f;
		*slot = (uint32_t)t->n;
		return 0;
	}
	known = &t->files[*slot - 1];
	if (known->size != size || memcmp(known->sha256, f.sha256, sizeof(f.sha256)) != 0)
		known->ambiguous = true;
	return 0;
}

/* *ret is written for an ambiguous file, too, and must not be used then. */
bool file_digests_find(const struct file_digests *t, const char *path, struct digest *ret,
		       uint64_t *ret_size)
{
	uint32_t *slot = t->n == 0 ? NULL : slot_of(t, text_hash(path));
	const struct file_digest *f;

	if (slot == NULL || *slot == 0)
		return false;
	f = &t->files[*slot - 1];
	*ret = (struct digest){ .alg = DIGEST_SHA256 };
	memcpy(ret->bytes, f->sha256, sizeof(f->sha256));
	*ret_size = f->size;
	return !f->ambiguous;
}

size_t file_digests_memory(const struct file_digests *t)
{
	return t->room * sizeof(*t->files) + t->nslots * sizeof(*t->slots);
}

void file_digests_release(struct file_digests *t)
{
	free(t->files);
	free(t->slots);
	*t = (struct file_digests){ .n = 0 };
}
