/* The reader takes only what the checker of the tests takes as JSON, too; every node lies inside of
 * its parent, texts are UTF-8, and a value that is written without white space is read again to the
 * same nodes. */
#include "fuzz.h"

#include "json.h"
#include "json_check.h"
#include "json_tree.h"
#include "utf8.h"

unsigned long fuzz_accepted;

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
		if (v->kind != JSON_TREE_ARRAY && v->kind != JSON_TREE_OBJECT)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_copy(data, size);
	struct json_tree t;
	struct err e;

	if (json_tree_read(&t, text, size, &json_tree_default, &e) == 0) {
		fuzz_accepted++;
		assert(json_check_valid(text, size));
		check_nodes(&t, text, size);
		check_written(&t);
		(void)json_tree_get(json_tree_root(&t), "method");
		json_tree_release(&t);
	}
	free(text);
	return 0;
}
