/* json_tree_names.c - refuses a name that an object has twice: two readers of such an object may
 * take different values. Sorted, so that an object of 10,000 names takes no quadratic time. */
#include <string.h>

#include "json_tree_private.h"

#define FEW 12 /* names that are compared one by one */

static int compare(const void *a, const void *b)
{
	const struct json_span *x = a, *y = b;
	int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return order != 0 ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Writes the names of an object; returns how many. */
static size_t collect(const struct json_node *o, struct json_span *ret)
{
	size_t n = 0;

	for (const struct json_node *k = json_tree_first(o); k != NULL; k = json_tree_next(o, k))
		ret[n++] = k->text;
	return n;
}

static bool few_differ(const struct json_span *names, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (compare(&names[i], &names[k]) == 0)
				return false;
		}
	}
	return true;
}

static int many_differ(const struct json_node *o, bool *ret, struct err *e)
{
	OWN_MEM struct json_span *names = reallocarray(NULL, o->size, sizeof(*names));
	size_t n;

	if (names == NULL)
		return err_sys(e, "cannot read JSON");
	n = collect(o, names);
	qsort(names, n, sizeof(*names), compare);
	*ret = true;
	for (size_t i = 1; i < n; i++) {
		if (compare(&names[i - 1], &names[i]) == 0)
			*ret = false;
	}
	return 0;
}

static int check(const struct json_node *o, struct err *e)
{
	struct json_span names[FEW];
	bool differ = false;

	if (o->size <= FEW) {
		differ = few_differ(names, collect(o, names));
	} else if (many_differ(o, &differ, e) < 0) {
		return -1;
	}
	if (!differ)
		return err_set(e, ERR_INVALID, "not valid JSON: an object has a name twice");
	return 0;
}

int json_tree_check_names(const struct json_tree *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->nodes[i].kind == JSON_READ_OBJECT && check(&t->nodes[i], e) < 0)
			return -1;
	}
	return 0;
}
