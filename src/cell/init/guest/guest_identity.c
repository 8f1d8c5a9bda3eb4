#include "cell/init/guest/guest_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cell/init/guest/guest_limits.h"
#include "cell/init/guest/guest_root.h"
#include "cell/init/pid1/spawn.h"
#include "cell/keeper/restrict.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/wire/guest_msg.h"

/* The profile locked in a virtual machine: its programs get the rights of a locked cell. One user,
 * no capabilities, no_new_privs, the same filter of system calls. PID 1 itself keeps its rights,
 * because it executes nothing. See guest_boot.h.
 *
 * A locked machine stays locked, and one whose programs run cannot be locked any more: so a clone
 * of a machine's memory never has programs of another profile than its session. */

/* As root: the bounding set. The other capabilities go with the change to the user. */
static int guest_identity_lock_drop_rights(void)
{
	struct err e;

	return restrict_drop_caps(CELL_LOCKED, false, &e) < 0 || restrict_no_new_privs(&e) < 0 ? -1
											       : 0;
}

static int guest_identity_lock_filter(void)
{
	struct err e;

	return restrict_calls(CELL_LOCKED, RESTRICT_UNWATCHED, NULL, &e);
}

/* For each HELLO: flags, uid and gid of it. Return 0 or an errno: EPERM, it is locked or has
 * another user. EBUSY, programs run. */
static int guest_identity_lock_set(const struct guest_hello *h)
{
	if (spawn_lock.uid != 0)
		return h->uid == spawn_lock.uid && h->gid == spawn_lock.gid ? 0 : EPERM;
	if ((h->flags & GUEST_LOCKED) == 0)
		return 0;
	if (!guest_limits_are_unused())
		return EBUSY;
	spawn_lock = (struct spawn_lock){ .uid = h->uid,
					  .gid = h->gid,
					  .drop_rights = guest_identity_lock_drop_rights,
					  .filter = guest_identity_lock_filter };
	return 0;
}

static int guest_identity_set_time(uint64_t wall_ns)
{
	const struct timespec t = { .tv_sec = (time_t)(wall_ns / (1000 * CLOCK_MS)),
				    .tv_nsec = (long)(wall_ns % (1000 * CLOCK_MS)) };

	return wall_ns != 0 && clock_settime(CLOCK_REALTIME, &t) < 0 ? errno : 0;
}

/* The state of a clone's generator is that of its image: without this, two clones could have the
 * same random numbers. */
static int guest_identity_mix_entropy(const uint8_t *bytes)
{
	_Alignas(struct rand_pool_info) uint8_t pool[sizeof(struct rand_pool_info) + GUEST_ENTROPY];
	const struct rand_pool_info head = { .entropy_count = 8 * GUEST_ENTROPY,
					     .buf_size = GUEST_ENTROPY };
	static int fd = -1; /* stays open, for clones: see guest_root.c */

	if (fd < 0)
		fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	memcpy(pool, &head, sizeof(head));
	memcpy(pool + sizeof(head), bytes, GUEST_ENTROPY);
	if (ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		return errno;
	explicit_bzero(pool, sizeof(pool));
	return 0;
}

static int guest_identity_set_hostname(const char *name)
{
	return *name != '\0' && sethostname(name, strlen(name)) < 0 ? errno : 0;
}

uint32_t guest_identity_apply(const struct guest_hello *h, int *ret_sys)
{
	const struct {
		uint32_t flag;
		int sys;
	} parts[] = {
		{ GUEST_NO_ENTROPY,
		  guest_identity_mix_entropy(h->entropy) }, /* first: the boot id is random */
		{ GUEST_NO_TIME, guest_identity_set_time(h->wall_ns) },
		{ GUEST_NO_HOSTNAME, guest_identity_set_hostname(h->hostname) },
		{ GUEST_NO_MACHINE_ID,
		  *h->machine_id != '\0' ? guest_root_set_machine_id(h->machine_id) : 0 },
		{ GUEST_NO_DISK,
		  h->disk_bytes != 0 ? guest_root_resize(h->disk_bytes, h->inodes) : 0 },
		{ GUEST_NO_LIMITS, guest_limits_set(h) },
		{ GUEST_NO_PROFILE, guest_identity_lock_set(h) },
		{ GUEST_NO_READ_ONLY, guest_root_set_read_only((h->flags & GUEST_READ_ONLY) != 0) },
	};
	uint32_t refused = 0;

	for (size_t i = 0; i < COUNT(parts); i++) {
		if (parts[i].sys == 0)
			continue;
		if (refused == 0)
			*ret_sys = parts[i].sys;
		refused |= parts[i].flag;
	}
	return refused;
}
