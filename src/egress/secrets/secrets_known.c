/* secrets_known.c - which secrets the servers of a target can know. The gateway asks for each
 * request, whichever rule allowed it: a value missed here would be shown to the cell when the
 * server repeats it. */
#include <string.h>

#include "egress/secrets/secrets.h"
#include "egress/secrets/secrets_private.h"

struct secrets_known {
	const struct secrets *s;
	struct mask_pick *ret;
	bool any;
};

static void know(struct secrets_known *k, size_t value)
{
	mask_pick_add(k->ret, value);
	k->any = true;
}

/* Secrets without hosts are known where a rule names them. */
static void on_rule(const struct policy_rule *rule, void *arg)
{
	struct secrets_known *k = arg;
	const struct secrets *s = k->s;

	for (size_t r = 0; r < rule->nsecrets; r++) {
		for (size_t i = 0; i < s->n; i++)
			if (s->all[i].nhosts == 0 && strcmp(s->all[i].name, rule->secrets[r]) == 0)
				know(k, i);
		for (size_t i = 0; i < s->nothers; i++)
			if (s->others[i].nhosts == 0 &&
			    strcmp(s->others[i].name, rule->secrets[r]) == 0)
				know(k, s->n + i);
	}
}

/* Known by the hosts they are bound to, or because one of that name was sent there. */
static void know_by_host(struct secrets_known *k, const struct secrets_sent *sent, const char *host)
{
	const struct secrets *s = k->s;

	for (size_t i = 0; i < s->n; i++)
		if (secrets_host_fits(s->all[i].hosts, s->all[i].nhosts, host) ||
		    secrets_sent_has(sent, host, s->all[i].name))
			know(k, i);
	for (size_t i = 0; i < s->nothers; i++)
		if (secrets_host_fits(s->others[i].hosts, s->others[i].nhosts, host) ||
		    secrets_sent_has(sent, host, s->others[i].name))
			know(k, s->n + i);
}

bool secrets_known_also(const struct secrets *s, const struct policy *p,
			const struct secrets_sent *sent, const struct policy_target *to,
			struct mask_pick *ret)
{
	struct secrets_known k = { .s = s, .ret = ret };
	char text[IP_TEXT_MAX];

	if (s == NULL || s->mask == NULL)
		return false;
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
