/* policy_list.c - theory of operation
 *
 * Finds the rules for a target, in their order. With a thousand rules, a decision must not compare
 * each. A hash table has every pattern of names ("example.com", "*.example.com") with the numbers
 * of its rules, ascending. A name is looked up whole and by each of its tails. The lists found, and
 * the rules for every name, are walked side by side, lowest number first: the order of the
 * document. A rule skipped here cannot deny, so only rules that certainly do not match may be left
 * out.
 *
 * A tenant chooses the patterns, and a cell the names, so the hash has a secret seed (text_hash.h).
 * A tail longer than each pattern is not looked up. Rules for addresses are few, and are compared
 * one by one. */
#include "lib/policy/policy_private.h"

#include <string.h>

#include "lib/base/text_hash.h"

#define NONE UINT32_MAX
/* A pattern in a rule. */
#define HASH_BELOW 0x9e3779b9U

struct use {
	const struct host_pattern *key;
	uint32_t rule;
};

/* "example.com" and "*.example.com" have the same text, and must not share a slot. */
static uint32_t hash_of(const char *text, size_t n, bool below)
{
	uint32_t hash = (uint32_t)text_hash_part(text, n);

	return below ? hash ^ HASH_BELOW : hash;
}

static int compare_keys(const struct host_pattern *a, const struct host_pattern *b)
{
	return a->below != b->below ? (a->below ? 1 : -1) : strcmp(a->text, b->text);
}

static int compare_uses(const void *one, const void *other)
{
	const struct use *a = one, *b = other;
	int keys = compare_keys(a->key, b->key);

	if (keys != 0)
		return keys;
	return a->rule < b->rule ? -1 : a->rule > b->rule;
}

static size_t count_uses(const struct policy_list *list)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += policy_match_of(&list->rules[i])->nhosts;
	return n;
}

/* Sort the rules into rules for every name, rules for addresses, and uses of patterns. */
static size_t sort_rules(struct policy_list *list, struct use *uses)
{
	size_t n = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		const struct policy_match *m = policy_match_of(&list->rules[i]);
		bool every = m->anywhere;

		list->matches[i] = m;
		for (size_t h = 0; h < m->nhosts; h++) {
			every |= m->hosts[h].any;
			if (!m->hosts[h].any)
				uses[n++] = (struct use){ &m->hosts[h], i };
		}
		if (every)
			list->names[list->nnames++] = i;
		if (m->anywhere || m->nnets > 0)
			list->addresses[list->naddresses++] = i;
	}
	return n;
}

static void link_entry(struct policy_list *list, uint32_t number)
{
	struct policy_entry *entry = &list->entries[number];
	uint32_t *slot;

	entry->hash = hash_of(entry->key->text, entry->key->n, entry->key->below);
	if (list->longest < entry->key->n)
		list->longest = entry->key->n;
	slot = &list->slots[entry->hash & (list->nslots - 1)];
	entry->next = *slot;
	*slot = number;
}

/* Uses are sorted by pattern, then by rule, so each pattern gets one run of ascending numbers. */
static void make_entries(struct policy_list *list, const struct use *uses, size_t n,
			 uint32_t *numbers)
{
	for (size_t i = 0; i < n; i++) {
		struct policy_entry *entry;

		numbers[i] = uses[i].rule;
		if (i > 0 && compare_keys(uses[i - 1].key, uses[i].key) == 0) {
			list->entries[list->nentries - 1].n++;
			continue;
		}
		entry = &list->entries[list->nentries];
		*entry = (struct policy_entry){ .key = uses[i].key, .rules = &numbers[i], .n = 1 };
		link_entry(list, (uint32_t)list->nentries++);
	}
}

/* Called once, after all rules of the list were read. The list must not change afterwards. */
int policy_list_index(struct policy *p, struct policy_list *list, struct err *e)
{
	size_t n = count_uses(list);
	OWN_MEM struct use *uses = calloc(n + 1, sizeof(*uses));
	uint32_t *numbers = policy_alloc(p, n, sizeof(*numbers));

	list->nslots = 16;
	while (list->nslots < n * 2)
		list->nslots *= 2;
	list->slots = policy_alloc(p, list->nslots, sizeof(*list->slots));
	list->entries = policy_alloc(p, n, sizeof(*list->entries));
	list->matches = policy_alloc(p, list->n, sizeof(void *));
	list->names = policy_alloc(p, list->n, sizeof(*list->names));
	list->addresses = policy_alloc(p, list->n, sizeof(*list->addresses));
	if (uses == NULL || numbers == NULL || list->slots == NULL || list->entries == NULL ||
	    list->matches == NULL || list->names == NULL || list->addresses == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < list->nslots; i++)
		list->slots[i] = NONE;
	n = sort_rules(list, uses);
	qsort(uses, n, sizeof(*uses), compare_uses);
	make_entries(list, uses, n, numbers);
	return 0;
}

static void add_cursor(struct policy_walk *w, const uint32_t *at, size_t n)
{
	if (n > 0 && w->n < POLICY_LABELS_MAX)
		w->cursors[w->n++] = (struct policy_cursor){ at, at + n };
}

static void add_found(struct policy_walk *w, const char *text, size_t n, bool below)
{
	const struct policy_list *list = w->list;
	uint32_t key, i;

	if (n > list->longest)
		return;
	key = hash_of(text, n, below);
	for (i = list->slots[key & (list->nslots - 1)]; i != NONE; i = list->entries[i].next) {
		const struct policy_entry *entry = &list->entries[i];

		if (entry->hash == key && entry->key->below == below && entry->key->n == n &&
		    memcmp(entry->key->text, text, n) == 0) {
			add_cursor(w, entry->rules, entry->n);
			return;
		}
	}
}

/* Add the lists of the whole name and of each tail behind a dot. */
static void find_name(struct policy_walk *w, const char *host)
{
	size_t n = strlen(host);

	for (size_t i = 1; i < n; i++)
		if (host[i - 1] == '.')
			add_found(w, host + i, n - i, true);
	add_found(w, host, n, false);
}

void policy_list_walk(const struct policy_list *list, const struct policy_target *to, bool any_port,
		      struct policy_walk *ret)
{
	ret->list = list;
	ret->to = to;
	ret->any_port = any_port;
	ret->n = 0;
	ret->started = false;
	ret->seen = NULL;
	if (to->host == NULL) {
		add_cursor(ret, list->addresses, list->naddresses);
		return;
	}
	if (list->nentries > 0)
		find_name(ret, to->host);
	add_cursor(ret, list->names, list->nnames);
}

bool policy_list_fits_port(const struct policy_match *m, uint16_t port)
{
	for (size_t i = 0; i < m->nports; i++)
		if (port >= m->ports[i].first && port <= m->ports[i].last)
			return true;
	return m->nports == 0;
}

/* A rule that allows a block of IPv6 addresses as wide as ::/0 does not include IPv4, though IPv4
 * addresses are represented inside the block. A rule that denies such a block does. */
static bool is_meant(const struct policy_match *m, size_t net, const struct ip *ip)
{
	return !m->allow || m->nets[net].bits >= 96 || !ip_is_v4(ip);
}

static bool is_in_block(const struct policy_match *m, const struct ip *ip)
{
	uint64_t word[2];

	memcpy(word, ip->b, sizeof(word));
	for (size_t i = 0; i < m->nnets; i++) {
		const struct policy_net *net = &m->fast_nets[i];

		if ((((word[0] & net->mask[0]) ^ net->want[0]) |
		     ((word[1] & net->mask[1]) ^ net->want[1])) == 0 &&
		    is_meant(m, i, ip))
			return true;
	}
	return false;
}

bool policy_list_fits_block(const struct policy_match *m, const struct ip *ip)
{
	struct ip behind;

	if (is_in_block(m, ip))
		return true;
	return !m->allow && m->nnets > 0 && ip_behind(ip, &behind) && is_in_block(m, &behind);
}

/* Take the lowest number of all lists. False at the end. */
static bool take_lowest(struct policy_walk *w, uint32_t *ret)
{
	size_t lowest = w->n;

	for (size_t i = 0; i < w->n; i++)
		if (w->cursors[i].at < w->cursors[i].end &&
		    (lowest == w->n || *w->cursors[i].at < *w->cursors[lowest].at))
			lowest = i;
	if (lowest == w->n)
		return false;
	*ret = *w->cursors[lowest].at++;
	return true;
}

/* Has the rule a single path with other first bytes? Then nothing else is compared. A rule that
 * denies also compares the folded path, so it is never skipped. */
static inline bool is_elsewhere(const struct policy_match *m, const struct policy_seen *s)
{
	const struct policy_path *p = m->paths;

	if (m->npaths != 1 || !m->allow)
		return false;
	return (((s->head[0] & p->mask[0]) ^ p->want[0]) |
		((s->head[1] & p->mask[1]) ^ p->want[1]) |
		((s->head[2] & p->mask[2]) ^ p->want[2])) != 0;
}

const struct policy_rule *policy_list_next(struct policy_walk *w)
{
	uint32_t number;

	while (take_lowest(w, &number)) {
		const struct policy_match *m = w->list->matches[number];

		if (w->seen != NULL && is_elsewhere(m, w->seen))
			continue;
		if (w->started && number == w->last)
			continue; /* two patterns of one rule match */
		w->started = true;
		w->last = number;
		if (w->to->host == NULL && !m->anywhere && !policy_list_fits_block(m, &w->to->ip))
			continue;
		w->match = m;
		if (w->any_port || policy_list_fits_port(m, w->to->port))
			return &w->list->rules[number];
	}
	return NULL;
}
