/* json_tree.c - makes the nodes: one walk over a text that json_read() has checked, with a stack of
 * the arrays and objects that are open. */
#include "json_tree.h"

#include <string.h>

#include "json_size.h"
#include "json_tree_private.h"

const struct json_tree_limits json_tree_default = { .bytes = 1U << 20,
						    .values = 32768,
						    .depth = JSON_TREE_DEPTH_MAX };

#define FIRST_NODES 64

struct maker {
	struct json_tree *t;
	size_t cap;			      /* of t->nodes */
	size_t len;			      /* of the text */
	size_t open[JSON_TREE_DEPTH_MAX + 1]; /* nodes of the arrays and objects that are open */
	unsigned depth;
	bool name_next; /* in an object: the next text is a name */
};

static int more_nodes(struct maker *m, struct err *e)
{
	size_t cap = m->cap == 0 ? FIRST_NODES : 2 * m->cap;
	struct json_node *more = reallocarray(m->t->nodes, cap, sizeof(*more));

	if (more == NULL)
		return err_sys(e, "cannot read JSON");
	m->t->nodes = more;
	m->cap = cap;
	return 0;
}

static struct json_node *add(struct maker *m, struct json_value v, struct err *e)
{
	struct json_node *added;

	if (m->t->n == m->cap && more_nodes(m, e) < 0)
		return NULL;
	added = &m->t->nodes[m->t->n++];
	*added = (struct json_node){ .kind = v.kind, .skip = 1, .raw = { v.p, v.n } };
	return added;
}

/* The buffer is made once, as large as the text: decoded texts are never longer than the quoted
 * ones, so it does not grow, and pointers into it stay valid. */
static int decode(struct maker *m, struct json_value v, struct json_span *ret, struct err *e)
{
	struct buf *b = &m->t->strings;
	size_t from = b->len;

	*ret = (struct json_span){ v.p + 1, v.n - 2 };
	if (memchr(v.p, '\\', v.n) == NULL)
		return 0;
	if (b->data == NULL) {
		buf_init(b, m->len + 1);
		if (buf_reserve(b, m->len, e) == NULL)
			return -1;
	}
	if (json_read_text(v, b, e) < 0)
		return -1;
	*ret = (struct json_span){ (const char *)b->data + from, b->len - from };
	return 0;
}

static struct json_node *top(struct maker *m)
{
	return &m->t->nodes[m->open[m->depth - 1]];
}

static bool in_object(struct maker *m)
{
	return m->depth > 0 && top(m)->kind == JSON_READ_OBJECT;
}

/* at: behind the bracket. */
static void close_node(struct maker *m, const char *at)
{
	struct json_node *v = top(m);

	v->raw.n = (size_t)(at - v->raw.p);
	v->skip = (uint32_t)(m->t->n - m->open[m->depth - 1]);
	m->depth--;
	m->name_next = in_object(m);
}

static int take(struct maker *m, struct json_value v, struct err *e)
{
	bool name = m->name_next;
	struct json_node *added;

	if (v.kind == JSON_READ_NONE) {
		close_node(m, v.p);
		return 0;
	}
	if (m->depth > 0 && (name || !in_object(m)))
		top(m)->size++;
	added = add(m, v, e);
	if (added == NULL || (v.kind == JSON_READ_TEXT && decode(m, v, &added->text, e) < 0))
		return -1;
	m->name_next = in_object(m) && !name;
	if (v.kind == JSON_READ_OBJECT || v.kind == JSON_READ_ARRAY) {
		m->open[m->depth++] = m->t->n - 1;
		m->name_next = v.kind == JSON_READ_OBJECT;
	}
	return 0;
}

static int make(struct maker *m, const char *text, struct err *e)
{
	const char *at = text;
	struct json_value v;

	while (json_read_step(&at, text + m->len, &v)) {
		if (take(m, v, e) < 0)
			return -1;
	}
	return json_tree_check_names(m->t, e);
}

int json_tree_read(struct json_tree *t, const char *text, size_t len,
		   const struct json_tree_limits *limits, struct err *e)
{
	struct maker m = { .t = t, .len = len };
	struct json_value whole;

	*t = (struct json_tree){ 0 };
	if (len > limits->bytes)
		return err_set(e, ERR_LIMIT, "JSON of more than %zu bytes", limits->bytes);
	if (!json_size_fits(text, len, limits->depth, limits->values))
		return err_set(e, ERR_LIMIT, "JSON of more than %zu values or %u levels",
			       limits->values, limits->depth);
	if (json_read(text, len, limits->depth, &whole, e) < 0)
		return -1;
	if (make(&m, text, e) == 0)
		return 0;
	json_tree_release(t);
	return -1;
}

void json_tree_release(struct json_tree *t)
{
	free(t->nodes);
	buf_release(&t->strings);
	*t = (struct json_tree){ 0 };
}
