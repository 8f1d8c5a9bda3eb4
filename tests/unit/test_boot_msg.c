/* Goal: a request to start a guest arrives as it was sent, and one that makes no sense is refused
 * by both ends. */
#include "lib/wire/boot_msg.h"

#include "lib/wire/agent_msg.h"
#include "support.h"

static const struct boot_request vm = {
	.engine = BOOT_MICROVM,
	.flags = BOOT_RESTORE | BOOT_PAUSED,
	.fds = BOOT_FD_KERNEL | BOOT_FD_INITRD | BOOT_FD_ROOT | BOOT_FD_RAM | BOOT_FD_DEVICES,
	.accel = BOOT_ACCEL_TCG,
	.vcpus = 2,
	.profile = 1,
	.uid = 1000,
	.gid = 1001,
	.wait_s = 17,
	.options = BOOT_READ_ONLY,
	.memory_bytes = 256U << 20,
	.disk_bytes = 12345,
	.inodes = 678,
	.pids = 90,
	.nofile = 1024,
	.hostname = "session-1.example",
	.machine_id = "0123456789abcdef0123456789abcdef",
};

static const struct boot_request gvisor = {
	.engine = BOOT_GVISOR,
	.fds = BOOT_FD_ENGINE | BOOT_FD_INIT,
	.hostname = "a",
	.machine_id = "0123456789abcdef0123456789abcdef",
};

static bool is_sent(const struct boot_request *r, uint16_t type)
{
	uint8_t body[BOOT_REQUEST_MAX];

	return boot_request_write(r, type, body) != 0;
}

static void round_trip(const struct boot_request *r, uint16_t type)
{
	uint8_t body[BOOT_REQUEST_MAX], *exact;
	size_t len = boot_request_write(r, type, body);
	struct boot_request got;
	struct frame f = { .type = type, .len = (uint32_t)len };
	struct err e;

	CHECK(len > 0);
	exact = exact_copy(body, len);
	f.body = exact;
	CHECK(boot_request_read(&f, &got, &e) == 0);
	CHECK(memcmp(&got, r, sizeof(got)) == 0);
	free(exact);
	for (size_t n = 0; n < len; n++) {
		exact = exact_copy(body, n);
		f.body = exact;
		f.len = (uint32_t)n;
		CHECK(boot_request_read(&f, &got, &e) < 0 && e.code == ERR_INVALID);
		free(exact);
	}
}

static void a_request_arrives_as_sent(void)
{
	struct boot_request r = vm;

	round_trip(&vm, AGENT_BOOT);
	round_trip(&gvisor, AGENT_BOOT);
	r.fds |= BOOT_FD_CHANGES;
	round_trip(&r, AGENT_BOOT);
	r.fds = BOOT_FD_ROOT | BOOT_FD_RAM | BOOT_FD_LATER;
	round_trip(&r, AGENT_BOOT);
	r.flags = r.fds = 0;
	round_trip(&r, AGENT_RESUME);
}

static void what_makes_no_sense_is_not_sent(void)
{
	struct boot_request r;

#define REFUSED(base, member, value)             \
	do {                                     \
		r = base;                        \
		r.member = value;                \
		CHECK(!is_sent(&r, AGENT_BOOT)); \
	} while (0)
	CHECK(!is_sent(&vm, AGENT_RESUME)); /* descriptors come with BOOT only */
	CHECK(!is_sent(&vm, AGENT_SPAWN));
	REFUSED(vm, engine, 0);
	REFUSED(vm, engine, BOOT_ENGINES_END);
	REFUSED(vm, flags, BOOT_PAUSED); /* nothing to be paused */
	REFUSED(vm, flags, 0);		 /* a memory image that is not used */
	REFUSED(vm, fds, vm.fds & ~(uint32_t)BOOT_FD_RAM);
	REFUSED(vm, fds, vm.fds | BOOT_FD_INIT);
	REFUSED(vm, fds, vm.fds | 1U << 20);
	REFUSED(vm, fds, vm.fds | BOOT_FD_LATER); /* they are here */
	REFUSED(vm, fds, BOOT_FD_ROOT | BOOT_FD_RAM | BOOT_FD_CHANGES | BOOT_FD_LATER);
	REFUSED(vm, fds, BOOT_FD_ROOT | BOOT_FD_LATER);
	r = vm;
	r.flags = 0;
	r.fds = BOOT_FD_KERNEL | BOOT_FD_INITRD | BOOT_FD_ROOT;
	CHECK(is_sent(&r, AGENT_BOOT));
	r.fds |= BOOT_FD_CHANGES; /* of no image */
	CHECK(!is_sent(&r, AGENT_BOOT));
	REFUSED(vm, accel, BOOT_ACCELS_END);
	REFUSED(vm, vcpus, 0);
	REFUSED(vm, vcpus, BOOT_CPUS_MAX + 1);
	REFUSED(vm, memory_bytes, 0);
	REFUSED(vm, memory_bytes, (256U << 20) + 1);
	REFUSED(vm, memory_bytes, BOOT_MEMORY_MAX * 2);
	REFUSED(vm, profile, 2);
	REFUSED(vm, uid, 65536);
	REFUSED(vm, hostname[0], '\0');
	REFUSED(vm, hostname[1], '/');
	REFUSED(vm, hostname[1], '\n');
	REFUSED(vm, machine_id[31], '\0');
	REFUSED(vm, machine_id[3], 'G');
	REFUSED(gvisor, flags, BOOT_RESTORE);
	REFUSED(gvisor, fds, BOOT_FD_INIT);
	REFUSED(gvisor, fds, BOOT_FD_ENGINE | BOOT_FD_KERNEL);
	REFUSED(gvisor, vcpus, 1);
	REFUSED(gvisor, accel, BOOT_ACCEL_KVM);
#undef REFUSED
}

static void sizes_at_their_bounds(void)
{
	struct boot_request r = vm;

#define AT_MOST(member, bound)                   \
	do {                                     \
		r = vm;                          \
		r.member = (bound);              \
		CHECK(is_sent(&r, AGENT_BOOT));  \
		r.member = (bound) + 1;          \
		CHECK(!is_sent(&r, AGENT_BOOT)); \
	} while (0)
	AT_MOST(disk_bytes, BOOT_MEMORY_MAX);
	AT_MOST(inodes, BOOT_COUNT_MAX);
	AT_MOST(pids, BOOT_COUNT_MAX);
	AT_MOST(nofile, BOOT_COUNT_MAX);
	AT_MOST(vcpus, BOOT_CPUS_MAX);
	AT_MOST(wait_s, BOOT_WAIT_MAX);
#undef AT_MOST
	r = vm;
	r.memory_bytes = BOOT_MEMORY_MAX; /* whole MiB only */
	CHECK(is_sent(&r, AGENT_BOOT));
	r.memory_bytes = BOOT_MEMORY_MAX + (1U << 20);
	CHECK(!is_sent(&r, AGENT_BOOT));
	r = vm;
	memset(r.hostname, 'h', BOOT_HOSTNAME_MAX);
	CHECK(!is_sent(&r, AGENT_BOOT)); /* no NUL */
	r.hostname[BOOT_HOSTNAME_MAX - 1] = '\0';
	CHECK(is_sent(&r, AGENT_BOOT));
}

static void descriptors_are_in_the_order_of_their_bits(void)
{
	CHECK(boot_fds_count(vm.fds) == 5 && boot_fds_count(0) == 0);
	CHECK(boot_fds_index(vm.fds, BOOT_FD_KERNEL) == 0);
	CHECK(boot_fds_index(vm.fds, BOOT_FD_ROOT) == 2);
	CHECK(boot_fds_index(vm.fds, BOOT_FD_DEVICES) == 4);
	CHECK(boot_fds_index(vm.fds, BOOT_FD_ENGINE) == -1);
	CHECK(boot_fds_count(BOOT_FDS_ALL) == BOOT_FDS_MAX);
}

static void every_number_has_a_word(void)
{
	CHECK_STR(boot_stage_word(BOOT_AT_TIME), "time");
	CHECK_STR(boot_stage_word(BOOT_STAGES), "unknown");
	CHECK_STR(boot_guest_word(BOOT_GUEST_PANICKED), "panicked");
	CHECK_STR(boot_guest_word(99), "unknown");
}

/* BOOTED, SNAPSHOT_DONE and GUEST: what may be in them, and which descriptors they bring. */
static void events_of_a_guest_are_checked(void)
{
	struct agent_event v = { .stage = BOOT_AT_STATE, .sys = 5, .flags = AGENT_HAS_TEXT }, got;
	struct frame f = { .type = AGENT_BOOTED, .len = sizeof(v), .body = (const uint8_t *)&v };
	struct err e;

	CHECK(agent_event_read(&f, &got, &e) == 0 && agent_event_fds(AGENT_BOOTED, &got) == 1);
	f.type = AGENT_SNAPSHOT_DONE;
	CHECK(agent_event_read(&f, &got, &e) < 0); /* it has no text */
	v.flags = 0;
	CHECK(agent_event_read(&f, &got, &e) == 0 && agent_event_fds(AGENT_SNAPSHOT_DONE, &v) == 0);
	v.sys = 0;
	CHECK(agent_event_fds(AGENT_SNAPSHOT_DONE, &v) == 2);
	f.type = AGENT_GUEST;
	CHECK(agent_event_read(&f, &got, &e) < 0); /* not a state */
	v.stage = BOOT_GUEST_EXITED;
	CHECK(agent_event_read(&f, &got, &e) == 0 && agent_event_fds(AGENT_GUEST, &v) == 0);
	f.type = AGENT_EXITED;
	v.stage = AGENT_STAGES;
	CHECK(agent_event_read(&f, &got, &e) < 0);
}

TEST_MAIN({ "a request arrives as sent", a_request_arrives_as_sent },
	  { "what makes no sense is not sent", what_makes_no_sense_is_not_sent },
	  { "sizes at their bounds", sizes_at_their_bounds },
	  { "descriptors are in the order of their bits",
	    descriptors_are_in_the_order_of_their_bits },
	  { "every number has a word", every_number_has_a_word },
	  { "events of a guest are checked", events_of_a_guest_are_checked })
