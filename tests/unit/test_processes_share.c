/* Goal: what is bounded for a tenant or for the node is divided by the number of processes of
 * cordon-egress, and a session keeps what it may have alone. */
#include "lib/outbound/resolver.h"
#include "lib/outbound/resolver_private.h"
#include "lib/outbound/resolver_queue.h"
#include "egress/control/resource_share.h"
#include "lib/wire/supervisor_msg.h"

#include "support.h"

#define MIB ((size_t)1 << 20)

/* How many MiB sessions of one tenant get in one process, in requests of 1 MiB. */
static size_t memory_of_tenant(unsigned processes, size_t nsessions)
{
	struct resource_shares all;
	struct resource_share sessions[16] = { 0 };
	size_t got = 0;

	CHECK(nsessions <= COUNT(sessions));
	resource_share_init(&all, NULL, 65536, processes);
	for (size_t i = 0; i < nsessions; i++)
		CHECK(resource_share_join(&all, &sessions[i], "tenant") == 0);
	for (size_t i = 0; i < nsessions; i++)
		while (resource_share_memory(&sessions[i], sessions[i].memory,
					     sessions[i].memory + MIB))
			got++;
	for (size_t i = 0; i < nsessions; i++)
		resource_share_leave(&sessions[i]);
	return got;
}

static void memory(void)
{
	for (unsigned n = 1; n <= SERVE_EGRESS_MAX; n++) {
		/* The request that goes beyond is counted, too, but refused. */
		size_t all = memory_of_tenant(n, 16), one = memory_of_tenant(n, 1);

		CHECK(all * n <= RESOURCE_SHARE_TENANT_MEMORY / MIB);
		CHECK(all > RESOURCE_SHARE_TENANT_MEMORY / MIB / n - 32);
		CHECK(one == RESOURCE_SHARE_MEMORY_MAX / MIB);
	}
}

/* How many names are under way at a time in one process, of so many sessions, each with a tenant
 * of its own. */
static unsigned names_of(unsigned processes, size_t nsessions)
{
	static struct resolver_owner tenants[512], sessions[512];
	static struct resolver r;
	bool more = true;

	memset(tenants, 0, sizeof(tenants));
	memset(sessions, 0, sizeof(sessions));
	r = (struct resolver){ 0 };
	resolver_divide(&r, processes);
	while (more) {
		more = false;
		for (size_t i = 0; i < nsessions; i++) {
			sessions[i].tenant = &tenants[i];
			if (!resolver_queue_may(&r, &sessions[i]))
				continue;
			sessions[i].under_way++;
			tenants[i].under_way++;
			r.under_way++;
			more = true;
		}
	}
	return (unsigned)r.under_way;
}

static void names(void)
{
	unsigned whole = names_of(1, 512);

	CHECK(whole == 256 + 64);
	for (unsigned n = 1; n <= SERVE_EGRESS_MAX; n++) {
		CHECK(names_of(n, 512) * n <= whole);
		CHECK(names_of(n, 1) >= 16);
	}
}

TEST_MAIN({ "memory of a tenant's requests", memory }, { "names that are asked for", names })
