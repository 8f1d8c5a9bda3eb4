/* policy_secrets.c - which rules may put secrets into requests to a target. Called by cordon-egress
 * to find out what a server can know: so it does not matter which rule allows a request, nor its
 * port, method and path. */
#include "policy_private.h"

void policy_secrets(const struct policy *p, const struct policy_target *to,
		    void (*on_rule)(const struct policy_rule *rule, void *arg), void *arg)
{
	const struct policy_rule *r;
	struct policy_walk w;

	policy_list_walk(&p->list, to, true, &w);
	while ((r = policy_list_next(&w)) != NULL)
		if (r->allow && r->nsecrets > 0)
			on_rule(r, arg);
}
