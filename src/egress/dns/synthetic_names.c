/* synthetic_names.c - theory of operation
 *
 * A name has a number, its slot: 198.18.0.0 + slot is its IPv4 address, prefix + slot its IPv6
 * address. The search for a free slot begins at a hash of the name, so that a restarted egress
 * finds the same slots again, for programs in the cell that remember addresses. So that hash is
 * not secret: a cell can make the searches for slots of its own new names longer, and those are
 * bounded (SYNTHETIC_NAMES_MAX) and paced (dns.c). The table by name has a secret seed.
 *
 * An address may outlive its name in a program's cache. So the slot of a dropped name is retired:
 * it stands for no name, and is not given to another before RETIRED_NS, unless there is no other
 * entry. A stale address is refused. It does not lead to another host in that time.
 *
 * Entries are counted for the tenant, with a bound for all its sessions: names cost a program only
 * a question each. A session over it replaces its own.
 *
 * Entries are in one array that grows. They are linked by index: in two hash tables (by name, by
 * slot) and in one of two lists, oldest first (names in use, retired slots). */
#include "egress/dns/synthetic_names.h"

#include <assert.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/text_hash.h"

#define ENTRIES_MAX (2 * SYNTHETIC_NAMES_MAX)
#define BUCKETS 4096U
#define NONE UINT16_MAX
#define FIRST_SLOT 256U /* below it are the listeners */
#define SLOTS ((1U << 17) - 256U)
#define RETIRED_NS (60000 * CLOCK_MS)

struct synthetic_name {
	char *host; /* owned. NULL: retired */
	uint32_t slot;
	uint64_t used_ns;
	uint16_t by_host, by_slot; /* the next in the bucket */
	uint16_t older, newer;
};

struct synthetic_list {
	uint16_t oldest, newest;
	unsigned n;
};

struct synthetic_names {
	struct synthetic_names_share *share; /* borrowed. NULL: none */
	struct synthetic_name *entries;
	unsigned n, cap;
	struct synthetic_list live, retired;
	/* Owned, BUCKETS each. NULL until the first name: most sessions with all names refused have
	 * none. */
	uint16_t *hosts, *slots;
};

static const uint8_t v4_prefix[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 198, 18 };
static const uint8_t v6_prefix[] = { 0xFD, 0x63, 0x6F, 0x72, 0x64, 0x6F, 0x6E, 0 };

struct synthetic_names *synthetic_names_new(void)
{
	struct synthetic_names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->live = n->retired = (struct synthetic_list){ .oldest = NONE, .newest = NONE };
	return n;
}

void synthetic_names_join(struct synthetic_names *n, struct synthetic_names_share *share)
{
	assert(n->n == 0);
	n->share = share;
}

void synthetic_names_free(struct synthetic_names *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->n; i++)
		free(n->entries[i].host);
	if (n->share)
		n->share->n -= n->n;
	free(n->entries);
	free(n->hosts);
	free(n->slots);
	free(n);
}

/* Where the search for a slot begins: FNV-1a, with its halves mixed. Must not change from release
 * to release. */
static uint32_t first_slot(const char *host)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (; *host != '\0'; host++)
		h = (h ^ (uint8_t)*host) * UINT64_C(0x100000001B3);
	return (uint32_t)(h ^ h >> 32);
}

/* ---- lists */

static void synthetic_names_append(struct synthetic_names *n, struct synthetic_list *l, uint16_t at)
{
	struct synthetic_name *e = &n->entries[at];

	e->older = l->newest;
	e->newer = NONE;
	if (l->newest != NONE)
		n->entries[l->newest].newer = at;
	else
		l->oldest = at;
	l->newest = at;
	l->n++;
}

static void take_out(struct synthetic_names *n, struct synthetic_list *l, uint16_t at)
{
	struct synthetic_name *e = &n->entries[at];

	if (e->older != NONE)
		n->entries[e->older].newer = e->newer;
	else
		l->oldest = e->newer;
	if (e->newer != NONE)
		n->entries[e->newer].older = e->older;
	else
		l->newest = e->older;
	l->n--;
}

static void synthetic_names_touch(struct synthetic_names *n, uint16_t at)
{
	n->entries[at].used_ns = clock_now_ns();
	take_out(n, &n->live, at);
	synthetic_names_append(n, &n->live, at);
}

/* ---- hash tables */

static uint16_t *host_bucket(const struct synthetic_names *n, const char *host)
{
	return &n->hosts[text_hash(host) % BUCKETS];
}

static uint16_t find_host(const struct synthetic_names *n, const char *host)
{
	uint16_t at = n->hosts == NULL ? NONE : *host_bucket(n, host);

	while (at != NONE && strcmp(n->entries[at].host, host) != 0)
		at = n->entries[at].by_host;
	return at;
}

static uint16_t find_slot(const struct synthetic_names *n, uint32_t slot)
{
	uint16_t at = n->slots == NULL ? NONE : n->slots[slot % BUCKETS];

	while (at != NONE && n->entries[at].slot != slot)
		at = n->entries[at].by_slot;
	return at;
}

static void unlink_host(struct synthetic_names *n, uint16_t at)
{
	uint16_t *p = host_bucket(n, n->entries[at].host);

	while (*p != at)
		p = &n->entries[*p].by_host;
	*p = n->entries[at].by_host;
}

static void unlink_slot(struct synthetic_names *n, uint16_t at)
{
	uint16_t *p = &n->slots[n->entries[at].slot % BUCKETS];

	while (*p != at)
		p = &n->entries[*p].by_slot;
	*p = n->entries[at].by_slot;
}

/* ---- entries */

static void retire_oldest(struct synthetic_names *n)
{
	uint16_t at = n->live.oldest;
	struct synthetic_name *e = &n->entries[at];

	unlink_host(n, at);
	take_out(n, &n->live, at);
	free(e->host);
	e->host = NULL;
	synthetic_names_append(n, &n->retired, at);
}

static int synthetic_names_grow(struct synthetic_names *n)
{
	unsigned cap = n->cap ? 2 * n->cap : 16;
	struct synthetic_name *entries = reallocarray(n->entries, cap, sizeof(*entries));

	if (!entries)
		return -1;
	n->entries = entries;
	n->cap = cap;
	return 0;
}

/* May it have no more entries than it has? */
static bool is_full(const struct synthetic_names *n)
{
	return n->n == ENTRIES_MAX ||
	       (n->share && n->n >= SYNTHETIC_NAMES_OWN && n->share->n >= n->share->max);
}

/* An entry in no table and no list. */
static uint16_t free_entry(struct synthetic_names *n)
{
	uint16_t at = n->retired.oldest;

	if (at != NONE && (is_full(n) || clock_now_ns() - n->entries[at].used_ns > RETIRED_NS)) {
		take_out(n, &n->retired, at);
		unlink_slot(n, at);
		return at;
	}
	if (n->n == n->cap && synthetic_names_grow(n) < 0)
		return NONE;
	if (n->share)
		n->share->n++;
	return (uint16_t)n->n++;
}

/* There are many more slots than entries, so the search ends. */
static uint32_t free_slot(const struct synthetic_names *n, const char *host)
{
	uint32_t at = first_slot(host) % SLOTS;

	while (find_slot(n, FIRST_SLOT + at) != NONE)
		at = (at + 1) % SLOTS;
	return FIRST_SLOT + at;
}

static bool make_tables(struct synthetic_names *n)
{
	size_t bytes = BUCKETS * sizeof(n->hosts[0]);

	if (n->hosts == NULL && (n->hosts = malloc(bytes)) != NULL)
		memset(n->hosts, 0xFF, bytes);
	if (n->slots == NULL && (n->slots = malloc(bytes)) != NULL)
		memset(n->slots, 0xFF, bytes);
	return n->hosts != NULL && n->slots != NULL;
}

static uint16_t synthetic_names_add(struct synthetic_names *n, const char *host)
{
	char *copy = make_tables(n) ? strdup(host) : NULL;
	struct synthetic_name *e;
	uint16_t at;

	if (!copy)
		return NONE;
	if (n->live.n == SYNTHETIC_NAMES_MAX || (is_full(n) && n->retired.n == 0))
		retire_oldest(n);
	at = free_entry(n);
	if (at == NONE) {
		free(copy);
		return NONE;
	}
	e = &n->entries[at];
	*e = (struct synthetic_name){ .host = copy,
				      .slot = free_slot(n, host),
				      .used_ns = clock_now_ns() };
	e->by_host = *host_bucket(n, host);
	*host_bucket(n, host) = at;
	e->by_slot = n->slots[e->slot % BUCKETS];
	n->slots[e->slot % BUCKETS] = at;
	synthetic_names_append(n, &n->live, at);
	return at;
}

/* ---- addresses */

static void synthetic_names_put32(uint8_t *to, uint32_t value)
{
	for (size_t i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void address_v4(uint32_t slot, struct ip *ret)
{
	memcpy(ret->b, v4_prefix, 12);
	synthetic_names_put32(ret->b + 12, (198U << 24 | 18U << 16) + slot);
}

static void address_v6(uint32_t slot, struct ip *ret)
{
	*ret = (struct ip){ { 0 } };
	memcpy(ret->b, v6_prefix, sizeof(v6_prefix));
	synthetic_names_put32(ret->b + 12, slot);
}

bool synthetic_names_is_synthetic(const struct ip *ip)
{
	if (memcmp(ip->b, v4_prefix, 13) == 0)
		return (ip->b[13] & 0xFE) == 18;
	return memcmp(ip->b, v6_prefix, sizeof(v6_prefix)) == 0;
}

/* The slot of a synthetic address. 0: it has none. */
static uint32_t slot_of(const struct ip *ip)
{
	uint32_t low = (uint32_t)ip->b[12] << 24 | (uint32_t)ip->b[13] << 16 |
		       (uint32_t)ip->b[14] << 8 | ip->b[15];

	if (memcmp(ip->b, v4_prefix, 12) == 0)
		return low - (198U << 24 | 18U << 16);
	for (size_t i = sizeof(v6_prefix); i < 12; i++) {
		if (ip->b[i] != 0)
			return 0;
	}
	return low;
}

bool synthetic_names_is_listener(const struct ip *ip)
{
	return synthetic_names_is_synthetic(ip) && slot_of(ip) == 1;
}

int synthetic_names_give(struct synthetic_names *n, const char *host, struct ip *ret_v4,
			 struct ip *ret_v6)
{
	uint16_t at = find_host(n, host);

	if (at == NONE)
		at = synthetic_names_add(n, host);
	else
		synthetic_names_touch(n, at);
	if (at == NONE)
		return -1;
	address_v4(n->entries[at].slot, ret_v4);
	address_v6(n->entries[at].slot, ret_v6);
	return 0;
}

const char *synthetic_names_find(struct synthetic_names *n, const struct ip *ip)
{
	uint16_t at;

	if (!synthetic_names_is_synthetic(ip) || slot_of(ip) < FIRST_SLOT)
		return NULL;
	at = find_slot(n, slot_of(ip));
	if (at == NONE || !n->entries[at].host)
		return NULL;
	synthetic_names_touch(n, at);
	return n->entries[at].host;
}
