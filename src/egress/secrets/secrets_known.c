/* secrets_known.c - which secrets the servers of a target can know. The gateway asks for each
 * request, whichever rule allowed it: a value missed here would be shown to the cell when the
 * server repeats it.
 *
 * A policy may name secrets a million times, and many of its rules may match one target. So names
 * are looked up once, by secrets_bind(): a rule has a set of values then, and a request joins the
 * sets of its rules. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"
#include "lib/base/text_hash.h"

#define BUCKETS 512U

struct secrets_known {
	const struct secrets *s;
	struct mask_pick *ret;
	bool any;
};

static void secrets_known_know(struct secrets_known *k, size_t value)
{
	mask_pick_add(k->ret, value);
	k->any = true;
}

/* ---- values by name */

static size_t count_values(const struct secrets *s)
{
	return s->n + s->nothers;
}

static const char *name_of(const struct secrets *s, size_t value)
{
	return value < s->n ? s->all[value].name : s->others[value - s->n].name;
}

static bool has_hosts(const struct secrets *s, size_t value)
{
	return (value < s->n ? s->all[value].nhosts : s->others[value - s->n].nhosts) > 0;
}

/* The values of that name. everywhere: only those without hosts. */
static void know_by_name(struct secrets_known *k, const char *name, bool everywhere)
{
	const struct secrets *s = k->s;

	for (size_t at = s->by_name[text_hash(name) % BUCKETS]; at > 0; at = s->next[at - 1])
		if (strcmp(name_of(s, at - 1), name) == 0 && (!everywhere || !has_hosts(s, at - 1)))
			secrets_known_know(k, at - 1);
}

/* Values without a name are masked in records only. */
static void index_names(struct secrets *s)
{
	for (size_t i = 0; i < count_values(s); i++) {
		uint16_t *bucket = &s->by_name[text_hash(name_of(s, i)) % BUCKETS];

		if (name_of(s, i)[0] == '\0')
			continue;
		s->next[i] = *bucket;
		*bucket = (uint16_t)(i + 1);
	}
}

/* ---- values by rule */

/* A rule that may put secrets into requests. */
static bool is_of_secrets(const struct policy_rule *rule)
{
	return rule->allow && rule->nsecrets > 0;
}

static size_t count_rules(const struct policy *p)
{
	size_t n = 0;

	for (size_t i = 0; i < policy_rules(p); i++)
		n += is_of_secrets(policy_rule(p, i));
	return n;
}

static void index_rules(struct secrets *s, const struct policy *p)
{
	uint16_t n = 0;

	for (size_t i = 0; i < s->nrules; i++) {
		const struct policy_rule *rule = policy_rule(p, i);
		struct secrets_known k = { .s = s, .ret = &s->picks[n] };

		if (!is_of_secrets(rule))
			continue;
		*k.ret = (struct mask_pick){ 0 };
		for (size_t r = 0; r < rule->nsecrets; r++)
			know_by_name(&k, rule->secrets[r], true);
		if (k.any)
			s->of_rule[i] = ++n;
	}
}

int secrets_bind(struct secrets *s, const struct policy *p, struct err *e)
{
	free(s->by_name);
	free(s->next);
	free(s->of_rule);
	free(s->picks);
	s->nrules = policy_rules(p);
	s->by_name = calloc(BUCKETS, sizeof(s->by_name[0]));
	s->next = calloc(count_values(s) + 1, sizeof(s->next[0]));
	s->of_rule = calloc(s->nrules + 1, sizeof(s->of_rule[0]));
	s->picks = calloc(count_rules(p) + 1, sizeof(s->picks[0]));
	if (s->by_name == NULL || s->next == NULL || s->of_rule == NULL || s->picks == NULL)
		return err_sys(e, "allocate");
	index_names(s);
	index_rules(s, p);
	return 0;
}

/* ---- values by target */

/* Secrets without hosts are known where a rule names them. */
static void on_rule(const struct policy_rule *rule, void *arg)
{
	struct secrets_known *k = arg;
	const struct secrets *s = k->s;
	size_t at = rule->number < s->nrules ? s->of_rule[rule->number] : 0;

	if (at == 0)
		return;
	for (size_t i = 0; i < COUNT(k->ret->bits); i++)
		k->ret->bits[i] |= s->picks[at - 1].bits[i];
	k->any = true;
}

/* Known by the hosts they are bound to, or because one of that name was sent there. */
static void know_by_host(struct secrets_known *k, const struct secrets_sent *sent, const char *host)
{
	const struct secrets *s = k->s;

	for (size_t i = 0; i < s->n; i++)
		if (secrets_host_fits(s->all[i].hosts, s->all[i].nhosts, host))
			secrets_known_know(k, i);
	for (size_t i = 0; i < s->nothers; i++)
		if (secrets_host_fits(s->others[i].hosts, s->others[i].nhosts, host))
			secrets_known_know(k, s->n + i);
	for (size_t i = 0; i < sent->n; i++)
		if (strcmp(sent->all[i].host, host) == 0)
			know_by_name(k, sent->all[i].name, false);
}

bool secrets_known_also(const struct secrets *s, const struct policy *p,
			const struct secrets_sent *sent, const struct policy_target *to,
			struct mask_pick *ret)
{
	struct secrets_known k = { .s = s, .ret = ret };
	char text[IP_TEXT_MAX];

	if (s == NULL || s->mask == NULL)
		return false;
	assert(s->by_name != NULL); /* secrets_bind() */
	if (to->host != NULL) {
		know_by_host(&k, sent, to->host);
	} else {
		ip_format(&to->ip, text);
		know_by_host(&k, sent, text);
	}
	policy_secrets(p, to, on_rule, &k);
	return k.any;
}

bool secrets_known_there(const struct secrets *s, const struct policy *p,
			 const struct secrets_sent *sent, const struct policy_target *to,
			 struct mask_pick *ret)
{
	*ret = (struct mask_pick){ 0 };
	return secrets_known_also(s, p, sent, to, ret);
}
