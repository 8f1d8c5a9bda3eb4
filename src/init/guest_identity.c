#include "guest_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "guest_limits.h"
#include "guest_lock.h"
#include "guest_root.h"
#include "own.h"

static int set_time(uint64_t wall_ns)
{
	const struct timespec t = { .tv_sec = (time_t)(wall_ns / (1000 * CLOCK_MS)),
				    .tv_nsec = (long)(wall_ns % (1000 * CLOCK_MS)) };

	return wall_ns != 0 && clock_settime(CLOCK_REALTIME, &t) < 0 ? errno : 0;
}

/* The state of a clone's generator is that of its image: without this, two clones could have the
 * same random numbers. */
static int mix_entropy(const uint8_t *bytes)
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

static int set_hostname(const char *name)
{
	return *name != '\0' && sethostname(name, strlen(name)) < 0 ? errno : 0;
}

uint32_t guest_identity_apply(const struct guest_hello *h, int *ret_sys)
{
	const struct {
		uint32_t flag;
		int sys;
	} parts[] = {
		{ GUEST_NO_ENTROPY, mix_entropy(h->entropy) }, /* first: the boot id is random */
		{ GUEST_NO_TIME, set_time(h->wall_ns) },
		{ GUEST_NO_HOSTNAME, set_hostname(h->hostname) },
		{ GUEST_NO_MACHINE_ID,
		  *h->machine_id != '\0' ? guest_root_set_machine_id(h->machine_id) : 0 },
		{ GUEST_NO_DISK,
		  h->disk_bytes != 0 ? guest_root_resize(h->disk_bytes, h->inodes) : 0 },
		{ GUEST_NO_LIMITS, guest_limits_set(h) },
		{ GUEST_NO_PROFILE, guest_lock_set(h) },
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
