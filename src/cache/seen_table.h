/* seen_table.h - when a version of a package was seen first on this node: an append-only file of
 * fixed records, and the same in memory. Bounded: if it is full, the third quarter is forgotten,
 * which makes those versions look newer, never older. So the older half is never forgotten, and
 * sessions that ask for very many versions push out only versions first seen lately. A record that
 * a crash tore ends the file. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/wire/cache_msg.h"

#define SEEN_MAX 400000U

struct seen_record {
	uint8_t name[16];
	uint64_t time_ms;
};

struct seen_table {
	int dir, fd; /* dir borrowed. fd owned: the file, for appending */
	struct seen_record *all;
	size_t n, size, max;
	off_t length;	 /* of the whole records in the file */
	uint32_t *slots; /* numbers in all plus one, open addressing. 0: free */
	size_t nslots;
	uint64_t seed[3]; /* random: which slot a name has */
};

/* max: SEEN_MAX, or less in tests. */
int seen_table_open(struct seen_table *t, int dir, size_t max, struct err *e) MUST_USE;
void seen_table_close(struct seen_table *t);
/* The time that seen_table_first() gave the name. 0: never. */
uint64_t seen_table_find(const struct seen_table *t, const struct cache_key *key, const char *name);
/* The time of its first call with that name, which may be this one. */
uint64_t seen_table_first(struct seen_table *t, const struct cache_key *key, const char *name,
			  uint64_t now_ms);
