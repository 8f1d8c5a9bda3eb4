/* Whose frames these are (one byte), then frames: each head is written again as it was, the payload
 * is inside, text is judged the same in pieces as by the reader of whole texts, and a close that is
 * read can be written. */
#include "fuzz.h"

#include "lib/base/utf8.h"
#include "lib/http/ws.h"

unsigned long fuzz_accepted;

static bool is_text(const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t one = utf8_length(p, n);

		if (one == 0)
			return false;
		p += one;
		n -= one;
	}
	return true;
}

static void check_text(const uint8_t *p, size_t n)
{
	size_t cut = n > 0 ? p[0] % (n + 1) : 0;
	struct ws_text whole = { 0 }, pieces = { 0 };
	bool good = ws_text_feed(&whole, p, n);

	assert(good == (ws_text_feed(&pieces, p, cut) && ws_text_feed(&pieces, p + cut, n - cut)));
	assert(!good || ws_text_ended(&whole) == ws_text_ended(&pieces));
	assert((good && ws_text_ended(&whole)) == is_text(p, n));
}

static void check_close(const uint8_t *p, size_t n)
{
	struct http1_span reason;
	uint8_t bytes[WS_CONTROL_MAX];
	char text[WS_CONTROL_MAX] = "";
	uint16_t code;

	if (ws_close_read(p, n, &code, &reason) < 0)
		return;
	if (n == 0) {
		assert(code == WS_CODE_NO_STATUS);
		return;
	}
	assert(reason.p == (const char *)p + 2 && reason.n == n - 2 && code >= 1000 && code < 5000);
	memcpy(text, reason.p, reason.n);
	assert(ws_close_write(code, text, bytes) == 2 + strlen(text));
	assert(memcmp(bytes, p, 2 + strlen(text)) == 0);
}

static void check_payload(const struct ws_head *h, uint8_t *p, size_t n)
{
	size_t cut = n / 3;

	ws_mask(p, cut, h->mask, 0);
	ws_mask(p + cut, n - cut, h->mask, cut);
	if (h->opcode == WS_CLOSE && h->length == n)
		check_close(p, n);
	check_text(p, n);
}

static void fill(void *ret, size_t n)
{
	memset(ret, 0x5a, n);
}

/* In pieces and whole the same goes on, and what went on is frames of which each has the new key.
 */
static void check_walk(const uint8_t *data, size_t size, bool masked, size_t piece)
{
	uint8_t *whole = fuzz_copy(data, size), *pieces = fuzz_copy(data, size);
	struct ws_walk w, v, again;
	ssize_t all, n = 0;
	size_t at = 0, end = 0;

	ws_walk_init(&w, masked, fill);
	ws_walk_init(&v, masked, fill);
	all = ws_walk(&w, whole, size);
	if (all > 0 && ws_walk(&w, whole + all, size - (size_t)all) < 0)
		all = -1;
	while (n >= 0 && end < size) {
		end = end + piece < size ? end + piece : size;
		n = ws_walk(&v, pieces + at, end - at);
		at += n > 0 ? (size_t)n : 0;
	}
	if (n > 0 && at < size)
		n = ws_walk(&v, pieces + at, size - at);
	assert((all < 0) == (n < 0));
	if (all >= 0) {
		assert((size_t)all == at && memcmp(whole, pieces, at) == 0);
		assert(w.frames == v.frames && w.left == v.left);
		ws_walk_init(&again, masked, fill);
		assert(ws_walk(&again, whole, at) == all); /* changed by nothing but the keys */
		assert(memcmp(whole, pieces, at) == 0);
	}
	free(whole);
	free(pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool masked = size > 0 && (data[0] & 1) != 0, open = false;
	size_t at = size > 0;

	if (size > 0)
		check_walk(data + 1, size - 1, masked, (size_t)(data[0] >> 1) + 1);
	for (;;) {
		uint8_t *bytes = fuzz_copy(data + at, size - at), again[WS_HEAD_MAX];
		struct ws_head h;
		int n = ws_head_read(bytes, size - at, masked, &h);
		size_t left = n > 0 ? size - at - (size_t)n : 0;

		if (n > 0) {
			fuzz_accepted++;
			assert(n <= WS_HEAD_MAX && (size_t)n <= size - at && h.masked == masked);
			assert(h.length <= INT64_MAX);
			assert(h.opcode < WS_CLOSE || (h.fin && h.length <= WS_CONTROL_MAX));
			assert(ws_head_write(&h, again) == (size_t)n);
			assert(memcmp(again, bytes, (size_t)n) == 0);
			if (ws_order_check(&open, &h) && h.length < left)
				left = (size_t)h.length;
			check_payload(&h, bytes + n, left);
		}
		free(bytes);
		if (n <= 0)
			break;
		at += (size_t)n + left;
	}
	return 0;
}
