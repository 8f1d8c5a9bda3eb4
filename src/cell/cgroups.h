/* cgroups.h - where on this machine cells' cgroups can be, for the keeper to be started with. */
#pragma once

#include "keeper_msg.h"

struct cgroups {
	int version;		      /* 0: none usable */
	int dirs[KEEPER_CGROUP_DIRS]; /* owned; -1 where a controller is missing */
	unsigned limits;	      /* set of KEEPER_LIMIT_* that can be enforced */
	char why[128];		      /* what is missing, for people; "" if nothing */
};

/* Looks at the machine. Never fails: without cgroups, limits is 0 and why says why. */
void cgroups_find(struct cgroups *ret);
void cgroups_release(struct cgroups *c);

/* Removes what killed keepers left behind: directories that nobody holds and nobody is in. */
void cgroups_sweep(const struct cgroups *c);

/* Removes those of one cell whose keeper was killed. Its processes may still be dying, which on a
 * busy machine takes a while: waits up to ten seconds. */
void cgroups_remove(const struct cgroups *c, const char *id);
