/* Any bytes as the body of a SPAWN: what is taken has its strings inside the body, as many as it
 * says, and written again is the same bytes. The same bytes are also tried as every
 * other request. */
#include "fuzz.h"

#include "lib/wire/agent_msg.h"
#include "lib/wire/boot_msg.h"

unsigned long fuzz_accepted;

static void check_spawn(const struct agent_spawn *s, const uint8_t *body, size_t len)
{
	const char *first = (const char *)body, *last = first + len;
	const char *at = s->strings;
	uint8_t *again;

	assert(s->argc >= 1 && s->argc <= AGENT_STRINGS_MAX && s->envc <= AGENT_STRINGS_MAX);
	assert((s->flags & ~(uint32_t)AGENT_SPAWN_FLAGS) == 0);
	assert(s->user > first && s->user < last && strlen(s->user) < AGENT_USER_MAX);
	assert(s->cwd == s->user + strlen(s->user) + 1);
	assert(s->strings == s->cwd + strlen(s->cwd) + 1);
	assert(s->strings + s->strings_len == last);
	for (uint32_t i = 0; i < s->argc + s->envc; i++, at += strlen(at) + 1)
		assert(at < last);
	assert(at == last);
	assert(agent_spawn_size(s) == len);
	again = malloc(len);
	assert(again != NULL);
	agent_spawn_write(s, again);
	assert(memcmp(again, body, len) == 0);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = fuzz_copy(data, size);
	struct agent_spawn s = { .argc = 12345 };
	struct agent_order o;
	struct err e = { 0 };

	if (agent_spawn_read(exact, size, &s, &e) == 0) {
		check_spawn(&s, exact, size);
		fuzz_accepted++;
	} else {
		assert(e.code == ERR_INVALID && s.argc == 12345);
	}
	for (uint16_t type = 0; type < AGENT_EVENTS_END; type++) {
		const struct frame f = { .type = type, .len = (uint32_t)size, .body = exact };

		if (agent_order_read(&f, &o, &e) < 0)
			continue;
		assert(size == sizeof(o) && type > AGENT_SPAWN && type < AGENT_REQUESTS_END);
		/* KILL_TREE has a mark there, which may be any number; SNAPSHOT a size and a bit.
		 */
		if (type == AGENT_SNAPSHOT)
			assert((o.ms & ~(uint64_t)AGENT_STAY) % AGENT_PAGE == 0 &&
			       o.ms <= BOOT_MEMORY_MAX + AGENT_STAY);
		assert(o.zero == 0 && (o.ms <= AGENT_TIME_MAX_MS || type == AGENT_KILL_TREE ||
				       type == AGENT_SNAPSHOT));
		assert((type == AGENT_DIAL) == (o.port != 0));
		assert(type == AGENT_SIGNAL ? o.sig >= 1 && o.sig <= 64 : o.sig == 0);
		fuzz_accepted++;
	}
	free(exact);
	return 0;
}
