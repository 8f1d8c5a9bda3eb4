/* policy_secrets.c - finds the rules that may put secrets into requests to a target. Called by
 * cordon-egress to find every secret that a server can know. So neither the rule that allows a
 * request counts, nor its port, method and path. */
#include "lib/policy/policy_private.h"

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
