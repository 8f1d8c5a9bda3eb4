#include "lib/wire/boot_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/cell_spec.h"
#include "lib/wire/codec.h"

static const char *const stages[] = {
	[BOOT_AT_ENGINE] = "engine",   [BOOT_AT_KERNEL] = "kernel", [BOOT_AT_AGENT] = "agent",
	[BOOT_AT_RESTORE] = "restore", [BOOT_AT_TIME] = "time",	    [BOOT_AT_SNAPSHOT] = "snapshot",
	[BOOT_AT_STATE] = "state",
};
static_assert(COUNT(stages) == BOOT_STAGES, "every stage has a word");

static const char *const states[] = {
	[BOOT_GUEST_ALIVE] = "alive",
	[BOOT_GUEST_UNRESPONSIVE] = "unresponsive",
	[BOOT_GUEST_PANICKED] = "panicked",
	[BOOT_GUEST_BROKE] = "broke the protocol",
	[BOOT_GUEST_EXITED] = "engine exited",
	[BOOT_GUEST_OVERDUE] = "a program outlived its timeout",
};
static_assert(COUNT(states) == BOOT_GUEST_STATES, "every state has a word");

const char *boot_stage_word(uint32_t stage)
{
	return stage < BOOT_STAGES ? stages[stage] : "unknown";
}

const char *boot_guest_word(uint32_t state)
{
	return state < BOOT_GUEST_STATES ? states[state] : "unknown";
}

size_t boot_fds_count(uint32_t fds)
{
	return (size_t)__builtin_popcount(fds & BOOT_FDS_ALL);
}

int boot_fds_index(uint32_t fds, enum boot_fd which)
{
	if ((fds & (uint32_t)which) == 0)
		return -1;
	return (int)boot_fds_count(fds & ((uint32_t)which - 1));
}

static bool boot_fds_fit(const struct boot_request *r)
{
	uint32_t must = BOOT_FD_ENGINE, may = BOOT_FD_INIT;

	if (r->engine == BOOT_MICROVM) {
		must = BOOT_FD_KERNEL | BOOT_FD_INITRD | BOOT_FD_ROOT;
		may = BOOT_FD_ENGINE;
	}
	if (r->engine == BOOT_MICROVM && (r->flags & BOOT_RESTORE) != 0) {
		bool later = (r->fds & BOOT_FD_LATER) != 0;

		may |= BOOT_FD_KERNEL | BOOT_FD_INITRD | (later ? 0 : BOOT_FD_CHANGES);
		must = BOOT_FD_ROOT | BOOT_FD_RAM | (later ? BOOT_FD_LATER : BOOT_FD_DEVICES);
	}
	return (r->fds & must) == must && (r->fds & ~(must | may)) == 0;
}

static bool boot_flags_fit(const struct boot_request *r, uint16_t type)
{
	if (type == AGENT_RESUME)
		return r->flags == 0 && r->fds == 0;
	if ((r->flags & ~(uint32_t)BOOT_FLAGS_ALL) != 0 ||
	    (r->flags & (BOOT_RESTORE | BOOT_PAUSED)) == BOOT_PAUSED)
		return false;
	if (r->engine == BOOT_GVISOR && r->flags != 0)
		return false;
	return boot_fds_fit(r);
}

static bool boot_sizes_fit(const struct boot_request *r)
{
	if (r->memory_bytes > BOOT_MEMORY_MAX || r->disk_bytes > BOOT_MEMORY_MAX ||
	    r->inodes > BOOT_COUNT_MAX || r->pids > BOOT_COUNT_MAX || r->nofile > BOOT_COUNT_MAX ||
	    r->vcpus > BOOT_CPUS_MAX || r->wait_s > BOOT_WAIT_MAX || r->uid >= CELL_IDS ||
	    r->gid >= CELL_IDS || r->profile >= CELL_PROFILES ||
	    (r->options & ~(uint32_t)BOOT_OPTIONS_ALL) != 0 || r->accel >= BOOT_ACCELS_END)
		return false;
	if (r->engine == BOOT_GVISOR)
		return r->vcpus == 0 && r->accel == BOOT_ACCEL_AUTO && r->options == 0;
	return r->engine == BOOT_MICROVM && r->vcpus > 0 && r->memory_bytes > 0 &&
	       r->memory_bytes % (1U << 20) == 0;
}

/* Letters, digits, '-' and '.': no character that a file or a command line could take otherwise. */
static bool boot_is_hostname(const char *s)
{
	size_t n = strnlen(s, BOOT_HOSTNAME_MAX);

	if (n == 0 || n == BOOT_HOSTNAME_MAX)
		return false;
	for (; *s != '\0'; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		      (*s >= '0' && *s <= '9') || *s == '-' || *s == '.'))
			return false;
	return true;
}

static bool boot_is_machine_id(const char *s)
{
	return strnlen(s, BOOT_MACHINE_ID_MAX) == CELL_MACHINE_ID &&
	       strspn(s, "0123456789abcdef") == CELL_MACHINE_ID;
}

static bool boot_request_fits(const struct boot_request *r, uint16_t type)
{
	return (type == AGENT_BOOT || type == AGENT_RESUME) && boot_sizes_fit(r) &&
	       boot_flags_fit(r, type) && boot_is_hostname(r->hostname) &&
	       boot_is_machine_id(r->machine_id);
}

static void boot_request(struct codec *c, struct boot_request *q)
{
	uint32_t *const words[] = { &q->engine,	 &q->flags, &q->fds, &q->accel,	 &q->vcpus,
				    &q->profile, &q->uid,   &q->gid, &q->wait_s, &q->options };
	uint64_t *const sizes[] = { &q->memory_bytes, &q->disk_bytes, &q->inodes, &q->pids,
				    &q->nofile };

	for (size_t i = 0; i < COUNT(words); i++)
		codec_int(c, 4, *words[i]);
	for (size_t i = 0; i < COUNT(sizes); i++)
		codec_int(c, 8, *sizes[i]);
	codec_text(c, sizeof(q->hostname), q->hostname);
	codec_text(c, sizeof(q->machine_id), q->machine_id);
}

int boot_request_read(const struct frame *f, struct boot_request *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);
	struct boot_request q = { 0 };

	boot_request(&c, &q);
	if (c.bad || c.n != 0)
		return err_set(e, ERR_INVALID, "boot request: %u bytes of another layout", f->len);
	if (!boot_request_fits(&q, f->type))
		return err_set(e, ERR_INVALID, "boot request: values out of range");
	*ret = q;
	return 0;
}

size_t boot_request_write(const struct boot_request *q, uint16_t type,
			  uint8_t ret_body[BOOT_REQUEST_MAX])
{
	struct codec c = codec_writer(ret_body, BOOT_REQUEST_MAX);
	struct boot_request copy = *q;

	if (!boot_request_fits(q, type))
		return 0;
	boot_request(&c, &copy);
	return c.bad ? 0 : BOOT_REQUEST_MAX - c.n;
}
