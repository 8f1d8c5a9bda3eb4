/* facts_table.c - see facts_table.h. Indexes use open addressing and are at most half full; they
 * are made again twice as large. */
#include "facts_table.h"

#include <string.h>

#include "fnv.h"
#include "package_meta.h"

int facts_init(struct facts_table *t, struct err *e)
{
	*t = (struct facts_table){ .n = 0 };
	buf_init(&t->text, PACKAGE_META_MEMORY);
	return buf_add(&t->text, "", 1, e);
}

void facts_release(struct facts_table *t)
{
	free(t->facts);
	free(t->by_version.slots);
	free(t->by_file.slots);
	free(t->tags);
	free(t->order);
	buf_release(&t->text);
}

size_t facts_memory(const struct facts_table *t)
{
	return t->room * sizeof(*t->facts) + t->text.size + t->tag_room * sizeof(*t->tags) +
	       t->order_room * sizeof(*t->order) +
	       (t->by_version.nslots + t->by_file.nslots) * sizeof(uint32_t);
}

/* Room for one more in an array. */
static int grow(void **array, size_t n, size_t *room, size_t each, size_t most, const char *what,
		struct err *e)
{
	size_t want = *room == 0 ? 16 : *room * 2;
	void *more;

	if (n < *room)
		return 0;
	if (n >= most)
		return err_set(e, ERR_LIMIT, "the metadata has more than %zu %s", most, what);
	if (want > most)
		want = most;
	more = reallocarray(*array, want, each);
	if (more == NULL)
		return err_sys(e, "metadata of packages");
	*array = more;
	*room = want;
	return 0;
}

int facts_add(struct facts_table *t, uint32_t *ret, struct err *e)
{
	if (grow((void **)&t->facts, t->n, &t->room, sizeof(*t->facts), PACKAGE_META_FACTS,
		 "versions or files", e) < 0)
		return -1;
	if (facts_memory(t) > PACKAGE_META_MEMORY)
		return err_set(e, ERR_LIMIT, "the metadata has too many long names");
	t->facts[t->n] = (struct fact){ .version = 0 };
	*ret = (uint32_t)t->n++;
	return 0;
}

const char *facts_text(const struct facts_table *t, uint32_t at)
{
	return (const char *)t->text.data + at;
}

static int keep(struct facts_table *t, const char *text, uint32_t *ret, struct err *e)
{
	*ret = 0;
	if (text[0] == '\0')
		return 0;
	*ret = (uint32_t)t->text.len;
	return buf_add(&t->text, text, strlen(text) + 1, e);
}

/* ---- indexes */

static uint32_t text_of(const struct facts_table *t, const struct facts_index *x, uint32_t fact)
{
	return x == &t->by_version ? t->facts[fact].version : t->facts[fact].file;
}

/* The slot of a text, or the empty one where it belongs; NULL: too many steps. */
static uint32_t *slot_of(const struct facts_table *t, const struct facts_index *x, const char *text)
{
	uint64_t h = fnv_add(FNV_START, text, strlen(text));

	h ^= h >> 29;
	for (size_t i = 0; i < FACTS_PROBES; i++) {
		uint32_t *slot = &x->slots[(h + i) & (x->nslots - 1)];

		if (*slot == 0 || strcmp(facts_text(t, text_of(t, x, *slot - 1)), text) == 0)
			return slot;
	}
	return NULL;
}

static int index_grow(const struct facts_table *t, struct facts_index *x, struct err *e)
{
	struct facts_index more = { .nslots = x->nslots == 0 ? 64 : x->nslots * 2, .n = x->n };
	struct facts_index old = *x;

	if (x->n * 2 < x->nslots)
		return 0;
	more.slots = calloc(more.nslots, sizeof(*more.slots));
	if (more.slots == NULL)
		return err_sys(e, "metadata of packages");
	*x = more; /* text_of() goes by its address */
	for (size_t i = 0; i < old.nslots; i++) {
		uint32_t *slot, fact = old.slots[i];

		if (fact == 0)
			continue;
		slot = slot_of(t, x, facts_text(t, text_of(t, x, fact - 1)));
		if (slot != NULL)
			*slot = fact;
	}
	free(old.slots);
	return 0;
}

static uint32_t find(const struct facts_table *t, const struct facts_index *x, const char *text)
{
	uint32_t *slot = x->n == 0 || text[0] == '\0' ? NULL : slot_of(t, x, text);

	return slot == NULL || *slot == 0 ? FACTS_NONE : *slot - 1;
}

uint32_t facts_find_version(const struct facts_table *t, const char *version)
{
	return find(t, &t->by_version, version);
}

uint32_t facts_find_file(const struct facts_table *t, const char *file)
{
	return find(t, &t->by_file, file);
}

/* *ret_other: the fact that had the text before. */
static int index_put(struct facts_table *t, struct facts_index *x, uint32_t fact,
		     uint32_t *ret_other, struct err *e)
{
	const char *text = facts_text(t, text_of(t, x, fact));
	uint32_t *slot;

	*ret_other = FACTS_NONE;
	if (text[0] == '\0')
		return 0;
	if (index_grow(t, x, e) < 0)
		return -1;
	slot = slot_of(t, x, text);
	if (slot == NULL)
		return err_set(e, ERR_INVALID, "the metadata has names that are made to collide");
	if (*slot != 0) {
		*ret_other = *slot - 1;
		return 0;
	}
	*slot = fact + 1;
	x->n++;
	return 0;
}

int facts_set_version(struct facts_table *t, uint32_t fact, const char *version, struct err *e)
{
	uint32_t other;

	if (keep(t, version, &t->facts[fact].version, e) < 0)
		return -1;
	return index_put(t, &t->by_version, fact, &other, e);
}

int facts_set_file(struct facts_table *t, uint32_t fact, const char *file, struct err *e)
{
	uint32_t other;

	if (keep(t, file, &t->facts[fact].file, e) < 0 ||
	    index_put(t, &t->by_file, fact, &other, e) < 0)
		return -1;
	if (other != FACTS_NONE)
		t->facts[other].shared = t->facts[fact].shared = true;
	return 0;
}

/* ---- the rest */

int facts_add_tag(struct facts_table *t, const char *name, const char *version, struct err *e)
{
	struct facts_tag tag;

	if (grow((void **)&t->tags, t->ntags, &t->tag_room, sizeof(*t->tags), PACKAGE_META_TAGS,
		 "tags", e) < 0 ||
	    keep(t, name, &tag.name, e) < 0 || keep(t, version, &tag.version, e) < 0)
		return -1;
	t->tags[t->ntags++] = tag;
	return 0;
}

int facts_add_order(struct facts_table *t, uint32_t fact, struct err *e)
{
	if (grow((void **)&t->order, t->norder, &t->order_room, sizeof(*t->order),
		 (size_t)2 * PACKAGE_META_FACTS, "files", e) < 0)
		return -1;
	t->order[t->norder++] = fact;
	return 0;
}

void facts_set_digest(struct fact *f, const struct digest *d)
{
	f->alg = (uint8_t)d->alg;
	memcpy(f->digest, d->bytes, sizeof(f->digest));
}

int facts_compact(struct facts_table *t, struct err *e)
{
	size_t n = 0;
	uint32_t other;

	for (size_t i = 0; i < t->n; i++) {
		if (t->facts[i].listed)
			t->facts[n++] = t->facts[i];
	}
	if (n == t->n)
		return 0;
	t->n = n;
	t->by_version.n = t->by_file.n = 0;
	if (t->by_version.nslots > 0)
		memset(t->by_version.slots, 0, t->by_version.nslots * sizeof(uint32_t));
	if (t->by_file.nslots > 0)
		memset(t->by_file.slots, 0, t->by_file.nslots * sizeof(uint32_t));
	for (uint32_t i = 0; i < n; i++) {
		if (index_put(t, &t->by_version, i, &other, e) < 0 ||
		    index_put(t, &t->by_file, i, &other, e) < 0)
			return -1;
	}
	return 0;
}
