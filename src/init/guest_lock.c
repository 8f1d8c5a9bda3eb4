/* guest_lock.c - see guest_lock.h. */
#include "guest_lock.h"

#include <errno.h>

#include "guest_limits.h"
#include "restrict.h"
#include "spawn.h"

/* As root: the bounding set. The other capabilities go with the change to the user. */
static int drop_rights(void)
{
	struct err e;

	return restrict_drop_caps(CELL_LOCKED, false, &e) < 0 || restrict_no_new_privs(&e) < 0 ? -1
											       : 0;
}

static int filter(void)
{
	struct err e;

	return filter_calls(CELL_LOCKED, false, &e);
}

int guest_lock_set(const struct guest_hello *h)
{
	if (spawn_lock.uid != 0)
		return h->uid == spawn_lock.uid && h->gid == spawn_lock.gid ? 0 : EPERM;
	if ((h->flags & GUEST_LOCKED) == 0)
		return 0;
	if (!guest_limits_are_unused())
		return EBUSY;
	spawn_lock = (struct spawn_lock){
		.uid = h->uid, .gid = h->gid, .drop_rights = drop_rights, .filter = filter
	};
	return 0;
}
