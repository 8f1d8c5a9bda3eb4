/* Text of a cell for a model: within its bound, UTF-8, nothing that controls a terminal but line
 * feeds and tabs. The same bytes as a URI of a resource: one that names a file names it again. */
#include "fuzz.h"

#include "front/mcptools/resource_uri.h"
#include "lib/base/shown_text.h"
#include "lib/base/utf8.h"

unsigned long fuzz_accepted;

static void check_text(const struct buf *b, size_t max)
{
	assert(b->len <= max);
	for (size_t i = 0, n; i < b->len; i += n) {
		n = utf8_length(b->data + i, b->len - i);
		assert(n > 0);
		assert(b->data[i] == '\n' || b->data[i] == '\t' ||
		       !utf8_is_control(b->data + i, n));
	}
}

static void check_uri(const uint8_t *data, size_t size)
{
	char again[RESOURCE_URI_MAX];
	struct resource_uri u, v;

	resource_uri_read((struct json_span){ (const char *)data, size }, &u);
	if (u.kind != RESOURCE_FILE || !resource_uri_file(u.session, u.path, again))
		return;
	fuzz_accepted++;
	resource_uri_read((struct json_span){ again, strlen(again) }, &v);
	assert(v.kind == RESOURCE_FILE && strcmp(v.path, u.path) == 0 &&
	       strcmp(v.session, u.session) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf head = BUF_INIT(1U << 20), tail = BUF_INIT(1U << 20);
	size_t max = size == 0 ? 0 : data[0] * 4U;

	check_uri(data, size);
	assert(shown_text_head(&head, data, size, max) <= size);
	check_text(&head, max);
	assert(shown_text_tail(&tail, data, size, max) <= size);
	check_text(&tail, max);
	buf_clear(&head);
	shown_text(&head, data, size < 65536 ? size : 65536);
	check_text(&head, 65536 * SHOWN_TEXT_GROWTH);
	fuzz_accepted += head.len > 0;
	buf_release(&head);
	buf_release(&tail);
	return 0;
}
