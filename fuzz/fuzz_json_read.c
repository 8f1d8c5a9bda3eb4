/* The reader agrees with the checker of the tests about what is JSON, and its walks stay inside the
 * text: all values of one that is accepted are visited, and every text is decoded. */
#include "fuzz.h"

#include "json_check.h"
#include "json_read.h"
#include "utf8.h"

unsigned long fuzz_accepted;

static void visit(struct json_value v, const char *from, const char *end)
{
	struct buf b = BUF_INIT(1 << 20);
	struct json_value name, item;
	const char *at = NULL;
	struct err e;
	uint64_t n;

	assert(v.p >= from && v.n > 0 && v.p + v.n <= end);
	(void)json_read_uint(v, &n);
	if (v.kind == JSON_READ_TEXT) {
		assert(json_read_text(v, &b, &e) == 0 && b.len <= v.n - 2);
		for (size_t i = 0; i < b.len;) {
			size_t step = utf8_length(b.data + i, b.len - i);

			assert(step > 0);
			i += step;
		}
	}
	buf_release(&b);
	while (json_read_next(v, &at, &name, &item)) {
		assert((name.kind == JSON_READ_TEXT) == (v.kind == JSON_READ_OBJECT));
		visit(item, v.p, v.p + v.n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	struct json_value v;
	struct err e;

	if (json_read(text, size, 16, &v, &e) == 0) {
		fuzz_accepted++;
		/* Halves of surrogate pairs are read, unlike in the tests: JavaScript writes them.
		 */
		assert(memmem(text, size, "\\ud", 3) != NULL ||
		       memmem(text, size, "\\uD", 3) != NULL || json_check_valid(text, size));
		visit(v, text, text + size);
		(void)json_read_member(v, "type");
	}
	free(text);
	return 0;
}
