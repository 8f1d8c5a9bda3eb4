/* roles.c - the table of programs that cordon serve runs. See supervisor.h for the columns. */
#include "supervisor.h"
#include "own.h"

static unsigned one(const struct serve *s)
{
	(void)s;
	return 1;
}

static unsigned keepers(const struct serve *s)
{
	return s->setup.nkeepers;
}

/* None, if there is to be no cache. */
static unsigned caches(const struct serve *s)
{
	return s->cache_fd >= 0 ? 1 : 0;
}

static unsigned egress_processes(const struct serve *s)
{
	return s->setup.negress;
}

const struct role supervisor_roles[] = {
	{ .program = "cordond",
	  .user = ROLE_SERVER_USER,
	  .has_control = true,
	  .count = one,
	  .start = role_cordond_start },
	{ .program = "cordon-egress",
	  .user = ROLE_EGRESS_USER,
	  .has_control = true,
	  .hung = SERVE_EGRESS_HUNG,
	  .count = egress_processes,
	  .start = role_egress_start,
	  .join = role_egress_join,
	  .look = role_egress_look_all },
	{ .program = "cordon-keeper",
	  .user = ROLE_PRIVILEGED,
	  .needs_daemon = true,
	  .hung = SERVE_KEEPER_HUNG,
	  .count = keepers,
	  .can_start = role_keeper_can_start,
	  .start = role_keeper_start,
	  .look = role_keeper_look },
	{ .program = "cordon-storage",
	  .user = ROLE_PRIVILEGED,
	  .needs_daemon = true,
	  .hung = SERVE_STORAGE_HUNG,
	  .count = one,
	  .can_start = role_keeper_has_userns,
	  .start = role_storage_start },
	{ .program = "cordon-pull",
	  .user = ROLE_EGRESS_USER,
	  .has_control = true,
	  .needs_daemon = true,
	  .hung = SERVE_PULL_HUNG,
	  .count = one,
	  .start = role_pull_start,
	  .look = role_egress_look },
	{ .program = "cordon-cache",
	  .user = ROLE_CACHE_USER,
	  .needs_daemon = true,
	  .hung = SERVE_CACHE_HUNG,
	  .count = caches,
	  .start = role_cache_start },
};
const unsigned supervisor_nroles = COUNT(supervisor_roles);

struct role_identity role_identity(const struct serve *s, const struct role *r)
{
	if (!s->root || r->user == ROLE_PRIVILEGED)
		return (struct role_identity){ .drop = false };
	if (r->user == ROLE_EGRESS_USER)
		return (struct role_identity){ true, s->egress_uid, s->egress_gid };
	if (r->user == ROLE_CACHE_USER)
		return (struct role_identity){ true, s->cache_uid, s->cache_gid };
	return (struct role_identity){ true, s->uid, s->gid };
}
