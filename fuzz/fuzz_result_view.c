/* Whatever lines a cell writes as results, in whatever pieces they come: the members that are made
 * of them are JSON to the checker of the tests, and every line is shown or counted. */
#include "fuzz.h"

#include "json_check.h"
#include "front/web/result_view.h"

unsigned long fuzz_accepted;

static void write_all(struct result_view *v, struct json *j)
{
	json_init_heap(j, RESULT_VIEW_JSON_MAX);
	json_open(j, NULL, '{');
	while (result_view_piece(v, j) > 0)
		;
	json_close(j, '}');
	assert(json_ok(j));
}

/* The check gives the same in the smallest pieces. */
static void check_line(const uint8_t *line, size_t n)
{
	struct result_line whole, parts;
	int a, b;

	result_line_begin(&whole, (const char *)line, n);
	result_line_begin(&parts, (const char *)line, n);
	a = result_line_piece(&whole, SIZE_MAX);
	do {
		b = result_line_piece(&parts, 1);
	} while (b > 0);
	assert(a == b && whole.type == parts.type && whole.count == parts.count);
	assert(a < 0 || json_check_valid((const char *)line, n));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t cut = size == 0 ? 0 : data[0] % size;
	struct result_view whole, parts;
	struct json a, b;
	uint8_t *copy = fuzz_copy(data, size);

	check_line(copy, size);
	result_view_init(&whole);
	result_view_init(&parts);
	result_view_take(&whole, copy, size);
	result_view_take(&parts, copy, cut);
	result_view_take(&parts, copy + cut, size - cut);
	write_all(&whole, &a);
	write_all(&parts, &b);
	assert(a.len == b.len && memcmp(a.text, b.text, a.len) == 0);
	assert(json_check_valid(a.text, a.len));
	assert(whole.n <= RESULT_VIEW_LINES);
	fuzz_accepted += whole.n > 0;
	json_release(&a);
	json_release(&b);
	result_view_release(&whole);
	result_view_release(&parts);
	free(copy);
	return 0;
}
