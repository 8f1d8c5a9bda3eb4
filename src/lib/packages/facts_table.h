/* facts_table.h - the table that readers of metadata fill (package_meta.c): facts, their texts in
 * one piece of memory, and two indexes, by version and by file. Bounded by PACKAGE_META_FACTS and
 * PACKAGE_META_MEMORY. Registries choose the texts, so the hash has a secret seed (text_hash.h). */
#pragma once

#include "lib/base/buf.h"
#include "lib/packages/package_facts.h"

/* More steps mean that a registry collides names on purpose. The document is refused. */
#define FACTS_PROBES 512U
#define FACTS_NONE UINT32_MAX

/* One version or file of the metadata. */
struct fact {
	uint32_t version, file; /* offsets of their texts */
	uint64_t time_ms, size;
	uint8_t digest[DIGEST_SIZE_MAX];
	uint8_t alg, code;
	bool has_time : 1, timed : 1, listed : 1, yanked : 1, foreign : 1, shared : 1;
};

struct facts_index {
	struct facts_slot {
		uint32_t fact; /* + 1, 0: empty */
		uint32_t hash; /* of its text: a larger index is built without reading texts */
	} * slots;	       /* owned */
	size_t nslots, n;
};

struct facts_tag {
	uint32_t name, version;
};

struct facts_table {
	struct fact *facts; /* owned */
	size_t n, room;
	struct buf text; /* begins with a NUL, so offset 0 is "" */
	struct facts_index by_version, by_file;
	struct facts_tag *tags; /* owned */
	size_t ntags, tag_room;
	/* Owned, for documents that list a file twice: the fact of the nth file. */
	uint32_t *order;
	size_t norder, order_room;
	/* The progress of facts_compact(): facts examined, and how many of them are kept or
	 * indexed. */
	size_t compact_at, compact_n;
	bool compacts_indexes;
};

int facts_init(struct facts_table *t, struct err *e) MUST_USE;
void facts_release(struct facts_table *t);

/* Add a fact without texts. ERR_LIMIT beyond PACKAGE_META_FACTS. */
int facts_add(struct facts_table *t, uint32_t *ret, struct err *e) MUST_USE;
/* Set a fact's version or file, once, and index it. A second fact of one version stays out of the
 * index. So does a second fact of one file, and both are marked as shared. */
int facts_set_version(struct facts_table *t, uint32_t fact, const char *version,
		      struct err *e) MUST_USE;
int facts_set_file(struct facts_table *t, uint32_t fact, const char *file, struct err *e) MUST_USE;
int facts_add_tag(struct facts_table *t, const char *name, const char *version,
		  struct err *e) MUST_USE;
int facts_add_order(struct facts_table *t, uint32_t fact, struct err *e) MUST_USE;
void facts_set_digest(struct fact *f, const struct digest *d);

/* Find a fact. FACTS_NONE: none. */
uint32_t facts_find_version(const struct facts_table *t, const char *version);
uint32_t facts_find_file(const struct facts_table *t, const char *file);
const char *facts_text(const struct facts_table *t, uint32_t at);
/* Remove unlisted facts, and update the indexes. Examines `most` facts. Return 1 if more is to do.
 * Nothing may be searched until it has returned 0. */
int facts_compact(struct facts_table *t, size_t most, struct err *e) MUST_USE;
size_t facts_memory(const struct facts_table *t);
