/* packages_rules.c - theory of operation
 *
 * The effect of packages members on rules. Called by policy_decide.c, policy_read.c and
 * policy_query.c.
 *
 * A registry in a list opens its hosts without a rule. A rule that denies still decides, and so
 * does the ceiling of a layer above the layer with the list. With a packages member, requests are
 * read wherever possible, because any host that answers may serve packages. A rule with `tls: pass`
 * or `protocol: tcp` is an exception. Only the layer with the packages member, or a layer above it,
 * can make this exception. */
#include "lib/policy/packages_private.h"

#include <stdio.h>

const struct packages_entry *packages_rules_open(const struct policy *p,
						 const struct policy_target *to, const char *path,
						 bool plain)
{
	const struct packages_entry *found;
	bool files;

	if (p->packages == NULL)
		return NULL;
	found = packages_entry_find(p->packages, to->host, to->port, path, &files);
	if (found == NULL)
		return NULL;
	/* Nothing passes offline. But a host that does not resolve could not tell the reason. */
	if (p->packages->offline)
		return found;
	return packages_registry_opens(&found->registry, to->host, to->port, plain) ? found : NULL;
}

/* Does the rule allow connections whose requests are not read? */
static bool is_unread(const struct policy_rule *r)
{
	return r->allow && (r->raw || r->tls == POLICY_TLS_PASS);
}

bool packages_rules_read(const struct policy *p, const struct policy_target *to,
			 const struct policy_rule *rule)
{
	bool files;

	if (p->packages == NULL)
		return false;
	return rule == NULL || !is_unread(rule) ||
	       packages_entry_find(p->packages, to->host, to->port, NULL, &files) != NULL;
}

bool packages_rules_above(const struct policy *p, const struct policy_rule *rule,
			  enum policy_layer *ret)
{
	if (p->packages == NULL || rule == NULL || !is_unread(rule))
		return false;
	for (size_t i = 0; i < POLICY_LAYERS && i < (size_t)rule->layer; i++) {
		if (!p->packages->layers[i].given)
			continue;
		*ret = (enum policy_layer)i;
		return true;
	}
	return false;
}

void packages_rules_hosts(const struct policy *p, void (*on_host)(const char *host, void *arg),
			  void *arg)
{
	for (size_t i = 0; p->packages != NULL && i < p->packages->registries.n; i++) {
		const struct package_registry *r = &p->packages->registries.list[i].registry;

		on_host(r->host.name, arg);
		for (size_t k = 0; k < r->nfiles; k++)
			on_host(r->files[k].name, arg);
	}
}

int packages_rules_check(const struct policy *p, struct err *e)
{
	const struct packages_layer *own;

	if (p->packages == NULL)
		return 0;
	own = &p->packages->layers[POLICY_SESSION];
	if (!own->given || own->mode == PACKAGES_OPEN)
		return 0;
	for (size_t i = 0; i < p->list.n; i++) {
		const struct policy_rule *r = &p->list.rules[i];

		if (r->layer == POLICY_SESSION && is_unread(r))
			return err_set(e, ERR_INVALID,
				       "%.60s: tls pass and protocol tcp cannot be used with this "
				       "packages.mode: packages could come unread",
				       r->name);
	}
	return 0;
}

/* Do pins of layer `from`, or of a layer below, exist? */
static bool has_pins(const struct packages_policy *all, size_t from)
{
	for (size_t i = from; i < POLICY_LAYERS; i++)
		if (all->layers[i].pins.npins > 0)
			return true;
	return false;
}

static bool has_private(const struct packages_policy *all, size_t layer)
{
	for (size_t i = 0; i < all->registries.n; i++)
		if (all->registries.list[i].is_private[layer])
			return true;
	return false;
}

/* Does the member restrict nothing? */
static bool is_empty(const struct packages_layer *l)
{
	return l->given && l->mode == PACKAGES_OPEN && l->scripts == PACKAGES_PASS &&
	       l->sources == PACKAGES_PASS && l->min_age_ms == 0 && !l->registries.given &&
	       !l->allow.given && !l->deny.given && !l->own.given && l->pins.npins == 0;
}

static void warn_of_layer(const struct policy *p, size_t i,
			  void (*on_warning)(const char *text, void *arg), void *arg)
{
	const struct packages_layer *l = &p->packages->layers[i];

	if (l->mode == PACKAGES_PINNED && !has_pins(p->packages, l->pins.given ? i : i + 1))
		on_warning("packages.mode: pinned, but nothing is pinned: every package is "
			   "refused",
			   arg);
	if (l->scripts == PACKAGES_ASK)
		on_warning("packages.scripts: ask refuses, as deny does: no person can be "
			   "asked yet",
			   arg);
	if (is_empty(l))
		on_warning("packages: lists no registry, and limits neither names nor age "
			   "nor install code: the defaults alone apply",
			   arg);
	if (l->given && i < POLICY_SESSION && l->min_age_ms > 0 && !l->registries.given)
		on_warning("packages.min_age: without registries a lower layer can name one "
			   "that tells other times",
			   arg);
	if (l->own.given && !has_private(p->packages, i))
		on_warning("packages.own: no private registry: these names exist nowhere", arg);
}

void packages_rules_warn(const struct policy *p, void (*on_warning)(const char *text, void *arg),
			 void *arg)
{
	char text[256];

	for (size_t i = 0; p->packages != NULL && i < p->list.n; i++) {
		if (!is_unread(&p->list.rules[i]))
			continue;
		(void)snprintf(text, sizeof(text),
			       "%s: packages that come this way are not judged: requests are not "
			       "read",
			       p->list.rules[i].name);
		on_warning(text, arg);
	}
	for (size_t i = 0; p->packages != NULL && i < POLICY_LAYERS; i++)
		warn_of_layer(p, i, on_warning, arg);
}
