/* cache_share.c - how tenants share the link to cordon-cache: requests and stores at a time. A
 * tenant may have as many as are still free, so the first one gets half of them, and some are left
 * for the next. Requests beyond that wait, tenants in turn. Further stores are not begun. */
#include <stdlib.h>
#include <string.h>

#include "egress/packages/cache_private.h"
#include "lib/base/str.h"

/* Made on first use, and freed with the last holder. */
struct cache_share *cache_share_of(struct cache_link *l, const char *tenant)
{
	struct cache_share *s = l->shares;

	while (s != NULL && strcmp(s->tenant, tenant) != 0)
		s = s->next;
	if (s == NULL && (s = calloc(1, sizeof(*s))) != NULL) {
		str_copy(s->tenant, tenant);
		s->next = l->shares;
		l->shares = s;
	}
	if (s != NULL)
		s->refs++;
	return s;
}

void cache_share_drop(struct cache_link *l, struct cache_share *s)
{
	struct cache_share **at = &l->shares;

	if (--s->refs > 0)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

bool cache_share_may(unsigned own, unsigned all, unsigned max)
{
	return all < max && own < max - all;
}
