/* packages_layers.c - combines the packages members of all layers: registries, limits, and the
 * checks of one layer against another. Called by packages_read.c.
 *
 * The lowest layer with a list of registries decides the registries of a session, and each of them
 * must be in the list of every layer above with such a list. Three flags of a registry are kept for
 * each layer: names of one's own (`private`), packages without a time (`unknown_age`), and files
 * without a digest (`unverified`). For a layer, its own entry counts, or else the entry of the
 * nearest layer above. So a session cannot loosen the demands of its tenant. */
#include "lib/policy/packages_private.h"

#include <string.h>

static const struct packages_entry *find_same(const struct packages_entries *in,
					      const struct package_registry *r)
{
	for (size_t i = 0; i < in->n; i++)
		if (packages_registry_same(&in->list[i].registry, r))
			return &in->list[i];
	return NULL;
}

/* Does r have hosts of files that the other entry lacks? */
static bool has_more_files(const struct package_registry *r, const struct package_registry *than)
{
	for (size_t i = 0; i < r->nfiles; i++) {
		const struct package_host *h = &r->files[i];
		bool found = strcmp(than->host.name, h->name) == 0 && than->host.port == h->port;

		for (size_t k = 0; k < than->nfiles && !found; k++)
			found = strcmp(than->files[k].name, h->name) == 0 &&
				than->files[k].port == h->port;
		if (!found)
			return true;
	}
	return false;
}

/* Fill in an entry from the lists of all layers. */
static int join_entry(struct packages_policy *all, size_t from, struct packages_entry *one,
		      struct err *e)
{
	const struct packages_entry *known = packages_built_in(&one->registry), *nearest = NULL;
	const char *sumdb = NULL;

	one->layer = (enum policy_layer)from;
	for (size_t i = POLICY_LAYERS; i > 0; i--)
		if (all->layers[i - 1].registries.given && i - 1 <= from)
			one->layer = (enum policy_layer)(i - 1);
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		const struct packages_entries *list = &all->layers[i].registries;

		if (list->given && i <= from) {
			nearest = find_same(list, &one->registry);
			if (nearest == NULL || has_more_files(&one->registry, &nearest->registry))
				return err_set(e, ERR_INVALID,
					       "packages.registries: %.100s (%s) of the %s's "
					       "policy is not among those of the %s's",
					       one->registry.host.name,
					       ecosystem_name(one->registry.ecosystem),
					       policy_layer_names[from], policy_layer_names[i]);
		}
		one->is_private[i] = nearest != NULL && nearest->says_private;
		one->unknown_age[i] = nearest != NULL ? nearest->says_unknown_age
						      : known != NULL && known->unknown_age[i];
		one->unverified[i] = nearest != NULL ? nearest->says_unverified : UNVERIFIED_USUAL;
		one->registry.is_private |= nearest != NULL && nearest->says_private;
		/* The highest layer that names a database decides. Lower layers cannot name
		 * another. */
		if (nearest != NULL && nearest->registry.sumdb != NULL && sumdb == NULL)
			sumdb = nearest->registry.sumdb;
	}
	if (sumdb != NULL)
		one->registry.sumdb = sumdb;
	return 0;
}

/* Take the list of the lowest layer, and check it against the layers above. */
static int join_registries(struct policy *p, struct packages_policy *all, struct err *e)
{
	size_t from = POLICY_LAYERS;

	for (size_t i = 0; i < POLICY_LAYERS; i++)
		if (all->layers[i].registries.given)
			from = i;
	if (from == POLICY_LAYERS)
		return 0;
	all->registries = all->layers[from].registries;
	all->registries.list = policy_alloc(p, all->registries.n, sizeof(*all->registries.list));
	if (all->registries.list == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < all->registries.n; i++) {
		all->registries.list[i] = all->layers[from].registries.list[i];
		if (join_entry(all, from, &all->registries.list[i], e) < 0)
			return -1;
	}
	return 0;
}

/* 0 means no limit, so it never replaces one. */
static void take_least(uint64_t *to, uint64_t limit)
{
	if (limit != 0 && (*to == 0 || limit < *to))
		*to = limit;
}

int packages_layers_join(struct policy *p, struct packages_policy *all, struct err *e)
{
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		const struct packages_layer *l = &all->layers[i];

		if (!l->given)
			continue;
		take_least(&all->limits.bytes, l->limits.bytes);
		take_least(&all->limits.file_bytes, l->limits.file_bytes);
		take_least(&all->limits.new_names, l->limits.new_names);
		all->cache_only |= l->mode == PACKAGES_OFFLINE_CACHE;
		all->cache_private |= l->cache_private;
		all->offline |= l->mode == PACKAGES_OFFLINE;
	}
	return join_registries(p, all, e);
}

const struct packages_policy *policy_packages(const struct policy *p)
{
	return p->packages;
}

bool packages_cache_only(const struct packages_policy *p)
{
	return p != NULL && p->cache_only;
}

const struct packages_limits *packages_limits(const struct packages_policy *p)
{
	static const struct packages_limits none;

	return p == NULL ? &none : &p->limits;
}

bool packages_cache_is_private(const struct packages_policy *p)
{
	return p != NULL && p->cache_private;
}

bool packages_wants_age(const struct packages_policy *p)
{
	for (size_t i = 0; p != NULL && i < POLICY_LAYERS; i++)
		if (p->layers[i].given && p->layers[i].min_age_ms > 0)
			return true;
	return false;
}
