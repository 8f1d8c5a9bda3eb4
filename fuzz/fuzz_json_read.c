/* The reader agrees with the checker of the tests about what is JSON, and its walks stay inside the
 * text: all values of one that is accepted are visited, and every text is decoded. The tree over it
 * has the same values: its nodes lie inside of their parents, and a value that is written without
 * white space is read again to the same nodes. */
#include "fuzz.h"

#include "lib/json/json.h"
#include "json_check.h"
#include "lib/json/json_tree.h"
#include "lib/base/utf8.h"

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

static void check_text(struct json_span text)
{
	for (size_t i = 0; i < text.n;) {
		size_t n = utf8_length((const uint8_t *)text.p + i, text.n - i);

		assert(n > 0);
		i += n;
	}
}

static void check_nodes(const struct json_tree *t, const char *from, size_t size)
{
	int64_t whole;
	double number;

	assert(t->n > 0 && t->nodes[0].skip == t->n);
	for (size_t i = 0; i < t->n; i++) {
		const struct json_node *v = &t->nodes[i], *k;
		uint32_t seen = 0;

		assert(v->raw.p >= from && v->raw.p + v->raw.n <= from + size && v->raw.n > 0);
		check_text(v->text);
		(void)json_tree_int(v, &whole);
		(void)json_tree_number(v, &number);
		if (v->kind != JSON_READ_ARRAY && v->kind != JSON_READ_OBJECT)
			continue;
		for (k = json_tree_first(v); k != NULL; k = json_tree_next(v, k), seen++)
			assert(k > v && k < v + v->skip);
		assert(seen == v->size);
	}
}

static void check_written(const struct json_tree *t)
{
	struct json_tree again;
	struct json j;
	struct err e;

	json_init_heap(&j, 1U << 21);
	json_tree_write(&j, NULL, json_tree_root(t));
	assert(json_ok(&j) && memchr(j.text, '\n', j.len) == NULL);
	assert(json_tree_read(&again, j.text, j.len, &json_tree_default, &e) == 0);
	assert(again.n == t->n);
	for (size_t i = 0; i < t->n; i++)
		assert(again.nodes[i].kind == t->nodes[i].kind &&
		       again.nodes[i].text.n == t->nodes[i].text.n);
	json_tree_release(&again);
	json_release(&j);
}

static void check_tree(const char *text, size_t size, struct json_value whole)
{
	struct json_tree t;
	struct err e;

	if (json_tree_read(&t, text, size, &json_tree_default, &e) < 0)
		return; /* a name twice, or beyond the limits */
	assert(t.nodes[0].raw.p == whole.p && t.nodes[0].raw.n == whole.n);
	check_nodes(&t, text, size);
	check_written(&t);
	(void)json_tree_get(json_tree_root(&t), "method");
	json_tree_release(&t);
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
		check_tree(text, size, v);
	}
	free(text);
	return 0;
}
