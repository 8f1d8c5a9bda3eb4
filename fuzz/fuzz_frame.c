/* Any bytes, cut anywhere: frame_read() stays inside the buffer, always makes progress, takes a
 * frame with its last byte and not before, and knows a wrong one by its head. */
#include "fuzz.h"

#include "lib/wire/frame.h"

#define MAX 64

unsigned long fuzz_accepted;

static void check_frame(const uint8_t *at, size_t n, const struct frame *f)
{
	uint8_t head[FRAME_HEAD];
	struct frame again;
	struct err e = { 0 };

	assert(f->len <= MAX && n == FRAME_HEAD + f->len && f->body == at + FRAME_HEAD);
	frame_head(head, f->type, f->len);
	assert(memcmp(head, at, FRAME_HEAD) == 0);
	assert(frame_read(at, n - 1, MAX, &again, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = fuzz_copy(data, size);
	struct err e = { 0 };
	struct frame f;
	size_t at = 0;
	int n;

	while ((n = frame_read(exact + at, size - at, MAX, &f, &e)) > 0) {
		assert((size_t)n <= size - at);
		check_frame(exact + at, (size_t)n, &f);
		at += (size_t)n;
		fuzz_accepted++;
	}
	assert((n < 0) == (e.code != ERR_NONE));
	if (n < 0) /* nothing that follows the head would have made it right */
		assert(frame_read(exact + at, FRAME_HEAD, MAX, &f, &e) == -1);
	free(exact);
	return 0;
}
