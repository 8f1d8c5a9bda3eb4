/* policy_query.c - answers all questions about a policy besides decisions: its rules, limits and
 * host names (cordon-egress), and warnings about probable mistakes in rules (`cordon policy
 * check`). Nothing here decides. */
#include "lib/policy/policy_private.h"

#include "lib/policy/packages_private.h"

#include <stdio.h>
#include <string.h>

size_t policy_rules(const struct policy *p)
{
	return p->list.n;
}

const struct policy_rule *policy_rule(const struct policy *p, size_t number)
{
	return number < p->list.n ? &p->list.rules[number] : NULL;
}

const struct policy_limits *policy_limits(const struct policy *p)
{
	return &p->limits;
}

bool policy_answers_refused(const struct policy *p)
{
	return p->answers_refused;
}

void policy_each_host(const struct policy *p, void (*on_host)(const char *host, void *arg),
		      void *arg)
{
	for (size_t i = 0; i < p->list.n; i++) {
		const struct policy_match *m = policy_match_of(&p->list.rules[i]);

		for (size_t h = 0; p->list.rules[i].allow && h < m->nhosts; h++)
			if (!m->hosts[h].any && !m->hosts[h].below)
				on_host(m->hosts[h].text, arg);
	}
	packages_rules_hosts(p, on_host, arg);
}

/* Does a match every host that b matches? */
static bool covers_host(const struct policy_match *a, const struct host_pattern *b)
{
	for (size_t i = 0; i < a->nhosts; i++) {
		const struct host_pattern *h = &a->hosts[i];

		if (h->any)
			return true;
		if (b->any || (b->below && !h->below))
			continue;
		if (host_pattern_fits(h, b->text, b->n) ||
		    (b->below && h->n == b->n && strcmp(h->text, b->text) == 0))
			return true;
	}
	return false;
}

/* Does a match every address of the block? */
static bool covers_net(const struct policy_match *a, const struct ip_net *b)
{
	for (size_t i = 0; i < a->nnets; i++)
		if (a->nets[i].bits <= b->bits && ip_net_holds(&a->nets[i], &b->ip))
			return true;
	return false;
}

/* Does a match every port that b matches? No ports means all ports. */
static bool covers_ports(const struct policy_match *a, const struct policy_match *b)
{
	for (size_t i = 0; i < b->nports; i++) {
		size_t k = 0;

		while (k < a->nports && (b->ports[i].first < a->ports[k].first ||
					 b->ports[i].last > a->ports[k].last))
			k++;
		if (k == a->nports && a->nports > 0)
			return false;
	}
	return a->nports == 0 || b->nports > 0;
}

/* Does a match every target and request that b matches? False if in doubt, since it only leads to a
 * warning. */
static bool covers_all(const struct policy_match *a, const struct policy_match *b)
{
	if (a->inspects || !covers_ports(a, b))
		return false;
	if (a->anywhere)
		return true;
	if (b->anywhere)
		return false;
	for (size_t i = 0; i < b->nhosts; i++)
		if (!covers_host(a, &b->hosts[i]))
			return false;
	for (size_t i = 0; i < b->nnets; i++)
		if (!covers_net(a, &b->nets[i]))
			return false;
	return true;
}

/* Warn if a rule before this one matches everything that this one matches. */
static void check_reached(const struct policy_list *list, size_t i,
			  void (*on_warning)(const char *text, void *arg), void *arg)
{
	char text[256];

	for (size_t k = 0; k < i; k++) {
		const struct policy_match *a = policy_match_of(&list->rules[k]);

		if (!covers_all(a, policy_match_of(&list->rules[i])))
			continue;
		(void)snprintf(text, sizeof(text), "%s is never reached: %s decides before it",
			       list->rules[i].name, list->rules[k].name);
		on_warning(text, arg);
		return;
	}
}

/* Warn of private addresses that no rule can open. Blocks wider than one kind of address are not
 * warned of. */
static void check_nets(const struct policy *p, const struct policy_rule *r,
		       void (*on_warning)(const char *text, void *arg), void *arg)
{
	const struct policy_match *m = policy_match_of(r);
	char text[256], ip[IP_TEXT_MAX];

	for (size_t i = 0; r->allow && i < m->nnets; i++) {
		if (policy_reachable(p, &m->nets[i].ip) || m->nets[i].bits == 0 ||
		    (m->nets[i].bits <= 96 && ip_is_v4(&m->nets[i].ip)))
			continue;
		ip_format(&m->nets[i].ip, ip);
		(void)snprintf(text, sizeof(text),
			       "%s: the block at %s is %s address space and stays unreachable "
			       "unless the node's policy names it in \"private\"",
			       r->name, ip, ip_kind_name(ip_kind(&m->nets[i].ip)));
		on_warning(text, arg);
	}
}

void policy_check(const struct policy *p, void (*on_warning)(const char *text, void *arg),
		  void *arg)
{
	for (size_t i = 0; i < p->list.n; i++) {
		check_reached(&p->list, i, on_warning, arg);
		check_nets(p, &p->list.rules[i], on_warning, arg);
	}
	packages_rules_warn(p, on_warning, arg);
}
