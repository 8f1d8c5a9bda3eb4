/* Any bytes: a message of channel C is refused, or has a session, and a text within its bound. */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "lib/wire/egress_msg.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_msg m;
	struct frame f;
	struct err e;
	int n = frame_read(data, size, EGRESS_ID_MAX + EGRESS_TEXT_MAX, &f, &e);

	if (n <= 0 || egress_msg_read(&f, &m, &e) < 0)
		return 0;
	assert(memchr(m.id, '\0', sizeof(m.id)) != NULL);
	assert(m.id[0] != '\0' || m.type == EGRESS_SYNCED || m.type == EGRESS_PING ||
	       m.type == EGRESS_PONG || m.type == EGRESS_TURNS || m.type == EGRESS_CACHE);
	assert(m.text + m.len == (const char *)data + n);
	assert(m.len <= EGRESS_TEXT_MAX && memchr(m.text, '\0', m.len) == NULL);
	fuzz_accepted++;
	return 0;
}
