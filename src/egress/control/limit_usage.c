/* limit_usage.c - theory of operation
 *
 * Rules with limits are found by name in a small hash table, once for each policy. Then by their
 * number. The count of a rule is kept when the rule is removed: removing and restoring a rule must
 * not reset it, and connections that it allowed still point to its count. */
#include "egress/control/limit_usage.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/base/text_hash.h"
#include "lib/wire/egress_msg.h"

#define BUCKETS 256U
#define CLAIM_PART 64 /* of the limit: a claim is 1/64 of it */
#define CLAIM_MIN ((uint64_t)1 << 10)
#define CLAIM_MAX ((uint64_t)4 << 20)

void limit_usage_init(struct limit_usage_table *t)
{
	*t = (struct limit_usage_table){ .n = 0 };
}

void limit_usage_release(struct limit_usage_table *t)
{
	while (t->rules != NULL) {
		struct limit_usage *u = t->rules;

		t->rules = u->next;
		free(u);
	}
	free(t->buckets);
	free(t->of_rule);
	limit_usage_init(t);
}

static struct limit_usage **limit_usage_bucket(struct limit_usage_table *t, const char *rule)
{
	return &t->buckets[text_hash(rule) % BUCKETS]; /* tenants choose the names */
}

static struct limit_usage *limit_usage_add(struct limit_usage_table *t, const char *rule)
{
	struct limit_usage *u = t->n < EGRESS_RULES_KEPT_MAX ? calloc(1, sizeof(*u)) : NULL;
	struct limit_usage **here = limit_usage_bucket(t, rule);

	if (u == NULL)
		return NULL;
	str_copy(u->rule, rule);
	u->next = t->rules;
	t->rules = u;
	u->next_here = *here;
	*here = u;
	t->n++;
	return u;
}

struct limit_usage *limit_usage_find(struct limit_usage_table *t, const char *rule)
{
	struct limit_usage *u;

	if (t->buckets == NULL)
		t->buckets = calloc(BUCKETS, sizeof(struct limit_usage *));
	if (t->buckets == NULL)
		return NULL;
	for (u = *limit_usage_bucket(t, rule); u != NULL; u = u->next_here)
		if (strcmp(u->rule, rule) == 0)
			return u;
	return limit_usage_add(t, rule);
}

static bool has_limits(const struct policy_limits *l)
{
	return l->connections > 0 || l->requests_per_minute > 0 || l->bytes_out > 0 ||
	       l->bytes_in > 0;
}

int limit_usage_renew(struct limit_usage_table *t, const struct policy *p)
{
	size_t n = policy_rules(p);
	struct limit_usage **of_rule = calloc(n + 1, sizeof(struct limit_usage *));

	for (size_t i = 0; of_rule != NULL && i < n; i++) {
		const struct policy_rule *rule = policy_rule(p, i);

		if (!has_limits(&rule->limits))
			continue;
		of_rule[i] = limit_usage_find(t, rule->name);
		if (of_rule[i] == NULL) {
			free(of_rule);
			return -1;
		}
	}
	if (of_rule == NULL)
		return -1;
	free(t->of_rule);
	t->of_rule = of_rule;
	t->nrules = n;
	return 0;
}

struct limit_usage *limit_usage_of(const struct limit_usage_table *t,
				   const struct policy_rule *rule)
{
	return rule == NULL || rule->number >= t->nrules ? NULL : t->of_rule[rule->number];
}

/* ---- bytes */

static uint64_t claim_size(uint64_t limit)
{
	uint64_t part = limit / CLAIM_PART;

	return part < CLAIM_MIN ? CLAIM_MIN : part > CLAIM_MAX ? CLAIM_MAX : part;
}

uint64_t limit_usage_left(struct limit_usage *u, enum limit_way way, uint64_t limit, uint64_t want)
{
	uint64_t bytes = u->bytes[way], claim = claim_size(limit), to;

	if (limit == 0)
		return UINT64_MAX;
	if (bytes >= limit)
		return 0;
	if (want < claim / 2)
		want = claim / 2;
	if (u->claimed[way] - bytes < want) {
		claim = want > claim ? want : claim;
		to = limit - bytes < claim ? limit : bytes + claim;
		if (u->claimed[way] < to) {
			u->claimed[way] = to;
			u->unsent = u->due = true;
		}
	}
	/* A claim by an earlier policy may be over the limit of this one. */
	return (u->claimed[way] < limit ? u->claimed[way] : limit) - bytes;
}

void limit_usage_moved(struct limit_usage *u, enum limit_way way, uint64_t n)
{
	u->bytes[way] += n;
	if (u->claimed[way] < u->bytes[way]) { /* there is no limit */
		u->claimed[way] = u->bytes[way];
		u->unsent = true;
	}
}

void limit_usage_restore(struct limit_usage *u, uint64_t out, uint64_t in)
{
	const uint64_t given[LIMIT_WAYS] = { [LIMIT_OUT] = out, [LIMIT_IN] = in };

	for (int way = 0; way < LIMIT_WAYS; way++) {
		if (given[way] <= u->claimed[way])
			continue;
		u->bytes[way] = u->claimed[way] = given[way];
	}
}
