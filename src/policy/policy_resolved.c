/* policy_resolved.c - asks the rules for addresses again when a name was resolved. Called by
 * egress's outbound_judge.c before each connect(2). Names are judged before their addresses are
 * known; without this a block of addresses that is denied could be reached by any name. */
#include <string.h>

#include "packages_private.h"
#include "policy_private.h"

static bool fits_host(const struct policy_match *m, const char *host)
{
	size_t n = host == NULL ? 0 : strlen(host);

	if (host == NULL)
		return m->anywhere;
	for (size_t i = 0; i < m->nhosts; i++)
		if (host_pattern_fits(&m->hosts[i], host, n))
			return true;
	return m->anywhere;
}

/* The first rule about the address, or that allows the name for all requests; NULL: none. *low: the
 * lowest layer that allows something there. */
static const struct policy_rule *find(const struct policy_list *list,
				      const struct policy_target *to, const struct ip *ip,
				      enum policy_layer *low)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct policy_match *m = list->matches[i];
		bool named = m->allow && fits_host(m, to->host);

		if (!policy_list_fits_port(m, to->port))
			continue;
		if (named && list->rules[i].layer > *low)
			*low = list->rules[i].layer;
		/* A rule that inspects requests may not be the one that allowed this request, so it
		 * does not count. */
		if (!m->inspects && (named || policy_list_fits_block(m, ip)))
			return &list->rules[i];
	}
	return NULL;
}

bool policy_resolved(const struct policy *p, const struct policy_target *to, const struct ip *ip,
		     const struct policy_rule **ret_rule)
{
	enum policy_layer low = POLICY_NODE, ignored = POLICY_NODE;
	const struct policy_rule *r = find(&p->list, to, ip, &low);
	const struct packages_entry *entry = packages_rules_open(p, to, NULL, false);

	*ret_rule = r;
	if (entry != NULL && entry->layer > low)
		low = entry->layer;
	if (r != NULL && !r->allow)
		return false;
	if (r == NULL && p->allow && p->allow_layer > low)
		low = p->allow_layer;
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)low; i++) {
		r = find(&p->ceilings[i], to, ip, &ignored);
		if (r == NULL || r->allow)
			continue;
		*ret_rule = r;
		return false;
	}
	return true;
}
