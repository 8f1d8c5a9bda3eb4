/* policy_resolved.c - rules for addresses, asked again when a name has led to one. Names are judged
 * before anybody knows where they lead; without this a block of addresses that is denied would be
 * open under any name. */
#include <string.h>

#include "policy_inside.h"

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

bool policy_resolved(const struct policy *p, const struct policy_target *to, const struct ip *ip,
		     const struct policy_rule **ret_rule)
{
	for (size_t i = 0; i < p->list.n; i++) {
		const struct policy_match *m = p->list.matches[i];

		/* One that looks at requests may not be the one that allowed: it does not count. */
		if (m->looks || !policy_list_fits_port(m, to->port))
			continue;
		if (policy_list_fits_block(m, ip)) {
			*ret_rule = &p->list.rules[i];
			return m->allow;
		}
		if (m->allow && fits_host(m, to->host))
			return true;
	}
	return true;
}
