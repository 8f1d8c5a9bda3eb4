/* Whatever an MCP server writes, its peer stays within its bounds, and every call ends exactly
 * once. The first byte says how the rest is cut into pieces; the second how many calls are begun.
 */
#include "fuzz.h"

#include "lib/mcp/client/peer.h"

unsigned long fuzz_accepted;

#define CALLS 4

static unsigned begun, ended;

static void on_event(struct peer *p)
{
	assert(p->tools.n <= TOOL_LIST_MAX);
	fuzz_accepted++;
}

static void on_done(struct peer_call *c, const struct peer_answer *a)
{
	assert(c->peer == NULL);
	assert(a->end != PEER_RESULT || a->result.kind == JSON_READ_OBJECT);
	assert(a->end == PEER_RESULT || a->message != NULL);
	ended++;
}

static void on_progress(struct peer_call *c, struct json_value params)
{
	assert(c->peer != NULL && params.kind == JSON_READ_OBJECT);
}

static void call_some(struct peer *p, struct peer_call *calls, unsigned n)
{
	struct err e;

	for (unsigned i = 0; i < n; i++) {
		calls[i] = (struct peer_call){ .on_done = on_done, .on_progress = on_progress };
		if (peer_call(p, &calls[i], "a", (struct json_value){ 0 }, 60000, &e) == 0)
			begun++;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct peer_events events = { on_event, on_event };
	struct peer_call calls[CALLS];
	size_t piece, at = 2;
	struct peer p;
	bool called = false;

	if (size < 2)
		return 0;
	begun = ended = 0;
	piece = data[0] == 0 ? size : data[0];
	peer_init(&p, &events, NULL);
	p.modern_first = (data[1] & 0x80) != 0;
	peer_begin(&p);
	while (at < size) {
		size_t n = size - at < piece ? size - at : piece;

		peer_feed(&p, data + at, n);
		at += n;
		assert(p.out.len <= PEER_OUT_MAX && p.in.len <= PEER_LINE_MAX);
		if (p.state == PEER_READY && !called) {
			called = true;
			call_some(&p, calls, data[1] % (CALLS + 1));
		}
	}
	peer_tick(&p);
	peer_release(&p);
	assert(begun == ended);
	return 0;
}
