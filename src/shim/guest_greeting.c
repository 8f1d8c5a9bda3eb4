#include "guest_greeting.h"

#include <string.h>
#include <time.h>

#include "cell_spec.h"
#include "rand.h"

struct guest_hello guest_greeting(const struct boot_request *r, uint64_t generation, bool egress)
{
	struct guest_hello h = { .generation = generation,
				 .flags = egress ? GUEST_EGRESS : 0,
				 .pids = r->pids,
				 .memory_bytes = r->memory_bytes,
				 .nofile = r->nofile,
				 .disk_bytes = r->disk_bytes,
				 .inodes = r->inodes };
	struct timespec now;

	/* gVisor's root is the cell's, and its agent knows the profile from its arguments. */
	if (r->engine == BOOT_MICROVM && (r->options & BOOT_READ_ONLY) != 0)
		h.flags |= GUEST_READ_ONLY;
	if (r->engine == BOOT_MICROVM && r->profile == CELL_LOCKED) {
		h.flags |= GUEST_LOCKED;
		h.uid = r->uid;
		h.gid = r->gid;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	h.wall_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	rand_bytes(h.entropy, sizeof(h.entropy));
	memcpy(h.machine_id, r->machine_id, sizeof(h.machine_id));
	memcpy(h.hostname, r->hostname, sizeof(h.hostname));
	return h;
}
