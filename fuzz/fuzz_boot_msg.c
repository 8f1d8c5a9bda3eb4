/* Any bytes as the body of BOOT (the first byte even) or RESUME: a request that is accepted has all
 * values in range, and written again it is the same bytes. */
#include "fuzz.h"

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"
#include "lib/wire/cell_spec.h"

unsigned long fuzz_accepted;

static void check_request(const struct boot_request *r, uint16_t type)
{
	assert(r->engine == BOOT_GVISOR || r->engine == BOOT_MICROVM);
	assert((r->flags & ~(uint32_t)BOOT_FLAGS_ALL) == 0 && r->accel < BOOT_ACCELS_END);
	assert(r->wait_s <= BOOT_WAIT_MAX && (r->options & ~(uint32_t)BOOT_OPTIONS_ALL) == 0);
	assert(r->vcpus <= BOOT_CPUS_MAX && r->profile < CELL_PROFILES);
	assert(r->uid < CELL_IDS && r->gid < CELL_IDS && r->memory_bytes <= BOOT_MEMORY_MAX);
	assert(memchr(r->hostname, '\0', sizeof(r->hostname)) != NULL && r->hostname[0] != '\0');
	assert(strlen(r->machine_id) == CELL_MACHINE_ID);
	assert(boot_fds_count(r->fds) <= BOOT_FDS_MAX);
	assert(type == AGENT_BOOT || boot_fds_count(r->fds) == 0);
	assert(type == AGENT_RESUME ||
	       ((r->flags & BOOT_RESTORE) != 0) == (boot_fds_index(r->fds, BOOT_FD_RAM) >= 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[BOOT_REQUEST_MAX], *body;
	struct boot_request r = { .uid = 77777 };
	struct err e = { 0 };
	struct frame f;

	if (size == 0)
		return 0;
	body = fuzz_copy(data + 1, size - 1);
	f = (struct frame){ .type = data[0] % 2 == 0 ? AGENT_BOOT : AGENT_RESUME,
			    .len = (uint32_t)size - 1,
			    .body = body };
	if (boot_request_read(&f, &r, &e) < 0) {
		assert(e.code == ERR_INVALID && r.uid == 77777);
	} else {
		fuzz_accepted++;
		check_request(&r, f.type);
		assert(boot_request_write(&r, f.type, again) == f.len);
		assert(memcmp(again, body, f.len) == 0);
	}
	free(body);
	return 0;
}
