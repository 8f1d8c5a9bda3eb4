/* Any stream as what PID 1 says: every frame in it is an event with all values in range, or
 * refused. */
#include "fuzz.h"

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

unsigned long fuzz_accepted;

static void check_event(const struct frame *f)
{
	uint8_t *body = fuzz_copy(f->body, f->len);
	const struct frame alone = { .type = f->type, .len = f->len, .body = body };
	struct agent_event v = { .cpu_us = 12345 };
	struct err e = { 0 };

	if (agent_event_read(&alone, &v, &e) < 0) {
		assert(e.code == ERR_INVALID && v.cpu_us == 12345);
		free(body);
		return;
	}
	fuzz_accepted++;
	assert(f->len == sizeof(v) && f->type >= AGENT_READY && f->type < AGENT_EVENTS_END);
	assert(memcmp(&v, body, sizeof(v)) == 0);
	assert(v.stage < (f->type >= AGENT_BOOTED ? (uint32_t)BOOT_STAGES : AGENT_STAGES));
	assert(v.exit_code <= 255 && v.signal <= 64 && v.timed_out <= 1);
	assert(v.exit_code == 0 || v.signal == 0);
	assert(v.sys >= 0 && v.sys <= 4095 && (v.flags & ~(uint32_t)AGENT_EVENT_FLAGS) == 0);
	assert(agent_event_fds((enum agent_type)f->type, &v) <= 4);
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = fuzz_copy(data, size);
	struct frame f;
	struct err e = { 0 };
	size_t at = 0;
	int n;

	while ((n = frame_read(exact + at, size - at, AGENT_REPLY_MAX, &f, &e)) > 0) {
		check_event(&f);
		at += (size_t)n;
	}
	free(exact);
	return 0;
}
