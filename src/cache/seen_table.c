#include "cache/seen_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/crc32.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/base/rand.h"
#include "lib/base/sha256.h"

#define RECORD 28 /* bytes in the file: name, time, checksum */
#define READ_RECORDS 2048

static void seen_encode(const struct seen_record *r, uint8_t ret[RECORD])
{
	uint32_t crc;

	memcpy(ret, r->name, 16);
	for (unsigned i = 0; i < 8; i++)
		ret[16 + i] = (uint8_t)(r->time_ms >> (8 * i));
	crc = crc32_add(0, ret, 24);
	for (unsigned i = 0; i < 4; i++)
		ret[24 + i] = (uint8_t)(crc >> (8 * i));
}

/* False: the checksum is wrong. */
static bool seen_decode(const uint8_t bytes[RECORD], struct seen_record *ret)
{
	uint8_t again[RECORD];

	memcpy(ret->name, bytes, 16);
	ret->time_ms = 0;
	for (unsigned i = 0; i < 8; i++)
		ret->time_ms |= (uint64_t)bytes[16 + i] << (8 * i);
	seen_encode(ret, again);
	return memcmp(again, bytes, RECORD) == 0;
}

/* ---- in memory */

/* Where the search for the name begins. Names are hashes of what sessions ask for, so a session
 * can find many that begin alike: only the seed, which no other process knows, keeps them apart. */
static size_t seen_first_slot(const struct seen_table *t, const uint8_t name[16])
{
	uint64_t half[2], mixed;

	memcpy(half, name, sizeof(half));
	mixed = (half[0] ^ t->seed[0]) * (t->seed[1] | 1);
	mixed = (mixed ^ (mixed >> 29) ^ half[1]) * (t->seed[2] | 1);
	mixed = (mixed ^ (mixed >> 32)) * (t->seed[0] | 1);
	return (size_t)((mixed >> 16) % t->nslots);
}

/* The slot of the name, or the free one where it belongs. */
static uint32_t *seen_slot(const struct seen_table *t, const uint8_t name[16])
{
	for (size_t i = seen_first_slot(t, name);; i = (i + 1) % t->nslots)
		if (t->slots[i] == 0 ||
		    memcmp(t->all[t->slots[i] - 1].name, name, sizeof(t->all[0].name)) == 0)
			return &t->slots[i];
}

/* Twice as many slots as records, so a search always ends. */
static bool seen_rebuild(struct seen_table *t)
{
	size_t nslots = t->size * 2 + 16;
	uint32_t *slots = calloc(nslots, sizeof(slots[0]));

	if (slots == NULL)
		return false;
	free(t->slots);
	t->slots = slots;
	t->nslots = nslots;
	for (size_t i = 0; i < t->n; i++)
		*seen_slot(t, t->all[i].name) = (uint32_t)i + 1;
	return true;
}

static bool seen_grow(struct seen_table *t)
{
	size_t size = t->size == 0 ? 1024 : t->size * 2, old;
	struct seen_record *all;

	if (size > t->max)
		size = t->max;
	all = realloc(t->all, size * sizeof(all[0]));
	if (all == NULL)
		return false;
	t->all = all;
	old = t->size;
	t->size = size;
	if (seen_rebuild(t))
		return true;
	t->size = old; /* the slots are for so many: a search ends at a free one */
	return false;
}

/* False: full, or out of memory. */
static bool seen_add(struct seen_table *t, const struct seen_record *r)
{
	uint32_t *at;

	if (t->n == t->size && (t->n == t->max || !seen_grow(t)))
		return false;
	at = seen_slot(t, r->name);
	if (*at != 0)
		return true; /* the first one counts */
	t->all[t->n++] = *r;
	*at = (uint32_t)t->n;
	return true;
}

/* ---- the file */

static void seen_append(struct seen_table *t, const struct seen_record *r)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	unsigned long long dropped;
	uint8_t bytes[RECORD];
	struct err e;

	seen_encode(r, bytes);
	if (io_write_all(t->fd, bytes, sizeof(bytes), &e) == 0) {
		t->length += RECORD;
		return;
	}
	/* A record written in part would end the file for all after it. */
	if (ftruncate(t->fd, t->length) < 0 || log_limit(&limit, &dropped))
		log_warn("times of first sight are not kept on disk", "error=%s", e.msg);
}

static uint8_t piece[(size_t)READ_RECORDS * RECORD];

static int seen_write_all(struct seen_table *t, int fd, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		seen_encode(&t->all[i], piece + n * RECORD);
		if (++n < READ_RECORDS && i + 1 < t->n)
			continue;
		if (io_write_all(fd, piece, n * RECORD, e) < 0)
			return -1;
		n = 0;
	}
	return 0;
}

/* Forget the third quarter, in memory and on disk. */
static void seen_shrink(struct seen_table *t)
{
	size_t from = t->n / 2, gone = t->n / 4 + 1;
	struct err e;

	t->n -= gone;
	memmove(t->all + from, t->all + from + gone, (t->n - from) * sizeof(t->all[0]));
	if (!seen_rebuild(t)) /* slots of the old order would name wrong records */
		memset(t->slots, 0, t->nslots * sizeof(t->slots[0]));
	OWN_FD fd = openat(t->dir, "tmp/seen", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
			   0600);
	if (fd < 0 || seen_write_all(t, fd, &e) < 0 ||
	    renameat(t->dir, "tmp/seen", t->dir, "seen") < 0) {
		log_warn("first-seen list not rewritten", "error=%s", strerror(errno));
		return;
	}
	fd_close(t->fd);
	t->fd = TAKE_FD(fd);
	t->length = (off_t)(t->n * RECORD);
}

/* Read until the end, or the first torn record. */
static void seen_read_all(struct seen_table *t, int fd)
{
	struct seen_record r;
	ssize_t n;
	bool good = true;

	while (good && (n = read(fd, piece, sizeof(piece))) > 0)
		for (ssize_t at = 0; good && at < n; at += RECORD)
			good = at + RECORD <= n && seen_decode(piece + at, &r) && seen_add(t, &r);
}

int seen_table_open(struct seen_table *t, int dir, size_t max, struct err *e)
{
	*t = (struct seen_table){ .dir = dir, .fd = -1, .max = max };
	rand_bytes(t->seed, sizeof(t->seed));
	if (!seen_grow(t))
		return err_set(e, ERR_SYSTEM, "out of memory");
	t->fd = openat(dir, "seen", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (t->fd < 0)
		return err_sys(e, "open the list of first sights");
	seen_read_all(t, t->fd);
	t->length = (off_t)(t->n * RECORD);
	if (ftruncate(t->fd, t->length) < 0)
		return err_sys(e, "shorten the list of first sights");
	return 0;
}

void seen_table_close(struct seen_table *t)
{
	if (t->fd >= 0)
		fd_close(t->fd);
	free(t->all);
	free(t->slots);
	*t = (struct seen_table){ .fd = -1 };
}

/* Each NUL is hashed as well, so that the parts cannot be shifted. */
static void seen_name_of(const struct cache_key *key, const char *name, uint8_t ret[16])
{
	uint8_t hash[SHA256_SIZE];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, key->scope, strlen(key->scope) + 1);
	sha256_add(&s, key->registry, strlen(key->registry) + 1);
	sha256_add(&s, name, strlen(name) + 1);
	sha256_end(&s, hash);
	memcpy(ret, hash, 16);
}

uint64_t seen_table_find(const struct seen_table *t, const struct cache_key *key, const char *name)
{
	uint8_t hash[16];
	uint32_t at;

	seen_name_of(key, name, hash);
	at = *seen_slot(t, hash);
	return at == 0 ? 0 : t->all[at - 1].time_ms;
}

uint64_t seen_table_first(struct seen_table *t, const struct cache_key *key, const char *name,
			  uint64_t now_ms)
{
	struct seen_record r = { .time_ms = now_ms };
	uint32_t at;

	seen_name_of(key, name, r.name);
	at = *seen_slot(t, r.name);
	if (at != 0)
		return t->all[at - 1].time_ms;
	if (t->n == t->max)
		seen_shrink(t);
	if (seen_add(t, &r))
		seen_append(t, &r);
	return now_ms;
}
