/* policy_resolved.c - asks the rules for addresses again after a name was resolved. Called by
 * egress's outbound.c before each connect(2). Names are judged before their addresses are
 * known. Without this check, any name could lead to a denied block of addresses. */
#include <string.h>

#include "lib/policy/packages_private.h"
#include "lib/policy/policy_private.h"

/* Does the rule apply to the name? Without a name, only rules for all targets do. */
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

/* Find the first rule that concerns the address, or allows the name for all requests. NULL: none.
 * *low: the lowest layer that allows something there. */
static const struct policy_rule *policy_resolved_find(const struct policy_list *list,
						      const struct policy_target *to,
						      const struct ip *ip, enum policy_layer *low)
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

/* The ceilings above the lowest layer that allowed something must not deny the address, either. */
bool policy_resolved(const struct policy *p, const struct policy_target *to, const struct ip *ip,
		     const struct policy_rule **ret_rule)
{
	enum policy_layer low = POLICY_NODE, ignored = POLICY_NODE;
	const struct policy_rule *r = policy_resolved_find(&p->list, to, ip, &low);
	const struct packages_entry *entry = packages_rules_open(p, to, NULL, false);

	*ret_rule = r;
	if (entry != NULL && entry->layer > low)
		low = entry->layer;
	if (r != NULL && !r->allow)
		return false;
	if (r == NULL && p->allow && p->allow_layer > low)
		low = p->allow_layer;
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)low; i++) {
		r = policy_resolved_find(&p->ceilings[i], to, ip, &ignored);
		if (r == NULL || r->allow)
			continue;
		*ret_rule = r;
		return false;
	}
	return true;
}
