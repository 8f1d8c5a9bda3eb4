/* facts_table.c - see facts_table.h. Indexes use open addressing and are at most half full. A full
 * index is rebuilt with twice the size. */
#include "lib/packages/facts_table.h"

#include <string.h>

#include "lib/base/text_hash.h"
#include "lib/packages/package_meta.h"

/* The first byte of the texts is a NUL, so that offset 0 is the empty text. */
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
	       (t->by_version.nslots + t->by_file.nslots) * sizeof(struct facts_slot);
}

/* Make room for one more element. */
static int facts_table_grow(void **array, size_t n, size_t *room, size_t each, size_t most,
			    const char *what, struct err *e)
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

/* The memory is compared here, once for each fact. The texts have a bound of their own. */
int facts_add(struct facts_table *t, uint32_t *ret, struct err *e)
{
	if (facts_table_grow((void **)&t->facts, t->n, &t->room, sizeof(*t->facts),
			     PACKAGE_META_FACTS, "versions or files", e) < 0)
		return -1;
	if (facts_memory(t) > PACKAGE_META_MEMORY)
		return err_set(e, ERR_LIMIT, "the metadata has too many long names");
	t->facts[t->n] = (struct fact){ .version = 0 };
	*ret = (uint32_t)t->n++;
	return 0;
}

/* Valid until the next text is added, because the buffer may move. */
const char *facts_text(const struct facts_table *t, uint32_t at)
{
	return (const char *)t->text.data + at;
}

/* Keep a text. Offset 0 is the empty text. */
static int facts_table_keep(struct facts_table *t, const char *text, uint32_t *ret, struct err *e)
{
	*ret = 0;
	if (text[0] == '\0')
		return 0;
	*ret = (uint32_t)t->text.len;
	return buf_add(&t->text, text, strlen(text) + 1, e);
}

/* ---- indexes */

/* The text by which this index finds the fact. */
static uint32_t text_of(const struct facts_table *t, const struct facts_index *x, uint32_t fact)
{
	return x == &t->by_version ? t->facts[fact].version : t->facts[fact].file;
}

/* Find the slot of a text, or the empty slot for it. NULL: too many steps. */
static struct facts_slot *slot_of(const struct facts_table *t, const struct facts_index *x,
				  const char *text, uint32_t hash)
{
	for (size_t i = 0; i < FACTS_PROBES; i++) {
		struct facts_slot *slot = &x->slots[(hash + i) & (x->nslots - 1)];

		if (slot->fact == 0 ||
		    (slot->hash == hash &&
		     strcmp(facts_text(t, text_of(t, x, slot->fact - 1)), text) == 0))
			return slot;
	}
	return NULL;
}

/* A slot without a place is dropped: the text is then not found, which counts against it. */
static void move_slot(struct facts_index *x, const struct facts_slot *old)
{
	for (size_t i = 0; old->fact != 0 && i < FACTS_PROBES; i++) {
		struct facts_slot *slot = &x->slots[(old->hash + i) & (x->nslots - 1)];

		if (slot->fact == 0) {
			*slot = *old;
			return;
		}
	}
}

/* Keep the index at most half full. */
static int index_grow(struct facts_index *x, struct err *e)
{
	struct facts_index more = { .nslots = x->nslots == 0 ? 64 : x->nslots * 2, .n = x->n };
	struct facts_index old = *x;

	if (x->n * 2 < x->nslots)
		return 0;
	more.slots = calloc(more.nslots, sizeof(*more.slots));
	if (more.slots == NULL)
		return err_sys(e, "metadata of packages");
	*x = more; /* in place, since text_of() compares its address */
	for (size_t i = 0; i < old.nslots; i++)
		move_slot(x, &old.slots[i]);
	free(old.slots);
	return 0;
}

/* The empty text is in no index. */
static uint32_t facts_table_find(const struct facts_table *t, const struct facts_index *x,
				 const char *text)
{
	struct facts_slot *slot = x->n == 0 || text[0] == '\0'
					  ? NULL
					  : slot_of(t, x, text, (uint32_t)text_hash(text));

	return slot == NULL || slot->fact == 0 ? FACTS_NONE : slot->fact - 1;
}

uint32_t facts_find_version(const struct facts_table *t, const char *version)
{
	return facts_table_find(t, &t->by_version, version);
}

uint32_t facts_find_file(const struct facts_table *t, const char *file)
{
	return facts_table_find(t, &t->by_file, file);
}

/* Put a fact into an index. *ret_other: the fact that already has the text. */
static int index_put(struct facts_table *t, struct facts_index *x, uint32_t fact,
		     uint32_t *ret_other, struct err *e)
{
	const char *text = facts_text(t, text_of(t, x, fact));
	uint32_t hash = (uint32_t)text_hash(text);
	struct facts_slot *slot;

	*ret_other = FACTS_NONE;
	if (text[0] == '\0')
		return 0;
	if (index_grow(x, e) < 0)
		return -1;
	slot = slot_of(t, x, text, hash);
	if (slot == NULL)
		return err_set(e, ERR_INVALID, "the metadata has names that collide");
	if (slot->fact != 0) {
		*ret_other = slot->fact - 1;
		return 0;
	}
	*slot = (struct facts_slot){ .fact = fact + 1, .hash = hash };
	x->n++;
	return 0;
}

int facts_set_version(struct facts_table *t, uint32_t fact, const char *version, struct err *e)
{
	uint32_t other;

	if (facts_table_keep(t, version, &t->facts[fact].version, e) < 0)
		return -1;
	return index_put(t, &t->by_version, fact, &other, e);
}

/* The name alone cannot tell shared files apart, so they are marked, and no question by file name
 * finds them. */
int facts_set_file(struct facts_table *t, uint32_t fact, const char *file, struct err *e)
{
	uint32_t other;

	if (facts_table_keep(t, file, &t->facts[fact].file, e) < 0 ||
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

	if (facts_table_grow((void **)&t->tags, t->ntags, &t->tag_room, sizeof(*t->tags),
			     PACKAGE_META_TAGS, "tags", e) < 0 ||
	    facts_table_keep(t, name, &tag.name, e) < 0 ||
	    facts_table_keep(t, version, &tag.version, e) < 0)
		return -1;
	t->tags[t->ntags++] = tag;
	return 0;
}

int facts_add_order(struct facts_table *t, uint32_t fact, struct err *e)
{
	if (facts_table_grow((void **)&t->order, t->norder, &t->order_room, sizeof(*t->order),
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

/* Slots keep their memory. */
static void facts_table_clear(struct facts_index *x)
{
	x->n = 0;
	if (x->nslots > 0)
		memset(x->slots, 0, x->nslots * sizeof(*x->slots));
}

/* The first half of facts_compact(): keep listed facts. Return 1 if more is to do. */
static int keep_listed(struct facts_table *t, size_t most)
{
	for (; most > 0 && t->compact_at < t->n; most--, t->compact_at++)
		if (t->facts[t->compact_at].listed)
			t->facts[t->compact_n++] = t->facts[t->compact_at];
	if (t->compact_at < t->n)
		return 1;
	t->compacts_indexes = t->compact_n < t->n;
	if (t->compacts_indexes) {
		t->n = t->compact_n;
		facts_table_clear(&t->by_version);
		facts_table_clear(&t->by_file);
	}
	t->compact_at = 0;
	return t->compacts_indexes;
}

/* After facts were moved, the indexes are filled again. If none was removed, they are still
 * valid. */
int facts_compact(struct facts_table *t, size_t most, struct err *e)
{
	uint32_t other;

	if (!t->compacts_indexes)
		return keep_listed(t, most);
	for (; most > 0 && t->compact_at < t->n; most--, t->compact_at++)
		if (index_put(t, &t->by_version, (uint32_t)t->compact_at, &other, e) < 0 ||
		    index_put(t, &t->by_file, (uint32_t)t->compact_at, &other, e) < 0)
			return -1;
	return t->compact_at < t->n;
}
