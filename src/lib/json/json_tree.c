/* json_tree.c - makes the nodes: one walk over a text that json_read() has checked, with a stack of
 * the open arrays and objects. */
#include "lib/json/json_tree.h"

#include <math.h>
#include <string.h>

#include "lib/json/json.h"
#include "lib/json/json_size.h"

const struct json_tree_limits json_tree_default = { .bytes = 1U << 20,
						    .values = 32768,
						    .depth = JSON_TREE_DEPTH_MAX };

#define FIRST_NODES 64

/* ---- names of members: an object with one name twice is refused, because two readers of it may
 * take different values. Names are sorted, so 10,000 of them take no quadratic time. */

#define FEW 12 /* names compared one by one */

/* The order is by bytes, then by length. Only equality matters to the callers. */
static int tree_names_compare(const void *a, const void *b)
{
	const struct json_span *x = a, *y = b;
	int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return order != 0 ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Write the names of an object. Return how many. ret has room for o->size names. */
static size_t tree_names_collect(const struct json_node *o, struct json_span *ret)
{
	size_t n = 0;

	for (const struct json_node *k = json_tree_first(o); k != NULL; k = json_tree_next(o, k))
		ret[n++] = k->text;
	return n;
}

static bool tree_names_few_differ(const struct json_span *names, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (tree_names_compare(&names[i], &names[k]) == 0)
				return false;
		}
	}
	return true;
}

/* *ret: all names differ. -1: out of memory. */
static int tree_names_many_differ(const struct json_node *o, bool *ret, struct err *e)
{
	OWN_MEM struct json_span *names = reallocarray(NULL, o->size, sizeof(*names));
	size_t n;

	if (names == NULL)
		return err_sys(e, "cannot read JSON");
	n = tree_names_collect(o, names);
	qsort(names, n, sizeof(*names), tree_names_compare);
	*ret = true;
	for (size_t i = 1; i < n; i++) {
		if (tree_names_compare(&names[i - 1], &names[i]) == 0)
			*ret = false;
	}
	return 0;
}

static int tree_names_check(const struct json_node *o, struct err *e)
{
	struct json_span names[FEW];
	bool differ = false;

	if (o->size <= FEW) {
		differ = tree_names_few_differ(names, tree_names_collect(o, names));
	} else if (tree_names_many_differ(o, &differ, e) < 0) {
		return -1;
	}
	if (!differ)
		return err_set(e, ERR_INVALID, "not valid JSON: an object has a name twice");
	return 0;
}

/* Fail if an object has two members of one name. */
static int json_tree_check_names(const struct json_tree *t, struct err *e)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->nodes[i].kind == JSON_READ_OBJECT && tree_names_check(&t->nodes[i], e) < 0)
			return -1;
	}
	return 0;
}

/* ---- making the tree
 *
 * Nodes are added in the order of the text, so the nodes below a value follow it. Its skip is the
 * distance to the next sibling, and is set when its bracket closes. */

struct json_tree_maker {
	struct json_tree *t;
	size_t cap;			      /* of t->nodes */
	size_t len;			      /* of the text */
	size_t open[JSON_TREE_DEPTH_MAX + 1]; /* nodes of the open arrays and objects */
	unsigned depth;
	bool name_next; /* in an object: the next text is a name */
};

static int tree_more_nodes(struct json_tree_maker *m, struct err *e)
{
	size_t cap = m->cap == 0 ? FIRST_NODES : 2 * m->cap;
	struct json_node *more = reallocarray(m->t->nodes, cap, sizeof(*more));

	if (more == NULL)
		return err_sys(e, "cannot read JSON");
	m->t->nodes = more;
	m->cap = cap;
	return 0;
}

/* The node is valid until the next call, because the array may move. NULL: out of memory. */
static struct json_node *tree_add(struct json_tree_maker *m, struct json_value v, struct err *e)
{
	struct json_node *added;

	if (m->t->n == m->cap && tree_more_nodes(m, e) < 0)
		return NULL;
	added = &m->t->nodes[m->t->n++];
	*added = (struct json_node){ .kind = v.kind, .skip = 1, .raw = { v.p, v.n } };
	return added;
}

/* The buffer is made once, as large as the text: decoded texts are never longer than the quoted
 * ones, so it does not grow, and pointers into it stay valid. */
static int tree_decode(struct json_tree_maker *m, struct json_value v, struct json_span *ret,
		       struct err *e)
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

/* The innermost open array or object. At least one is open. */
static struct json_node *tree_top(struct json_tree_maker *m)
{
	return &m->t->nodes[m->open[m->depth - 1]];
}

static bool tree_in_object(struct json_tree_maker *m)
{
	return m->depth > 0 && tree_top(m)->kind == JSON_READ_OBJECT;
}

/* at: behind the bracket. Its length and its number of nodes are known only now. */
static void tree_close_node(struct json_tree_maker *m, const char *at)
{
	struct json_node *v = tree_top(m);

	v->raw.n = (size_t)(at - v->raw.p);
	v->skip = (uint32_t)(m->t->n - m->open[m->depth - 1]);
	m->depth--;
	m->name_next = tree_in_object(m);
}

/* One step of the walk becomes a node, or closes one. In an object names and values take turns, and
 * only names count as members. */
static int tree_take(struct json_tree_maker *m, struct json_value v, struct err *e)
{
	bool name = m->name_next;
	struct json_node *added;

	if (v.kind == JSON_READ_NONE) {
		tree_close_node(m, v.p);
		return 0;
	}
	if (m->depth > 0 && (name || !tree_in_object(m)))
		tree_top(m)->size++;
	added = tree_add(m, v, e);
	if (added == NULL || (v.kind == JSON_READ_TEXT && tree_decode(m, v, &added->text, e) < 0))
		return -1;
	m->name_next = tree_in_object(m) && !name;
	if (v.kind == JSON_READ_OBJECT || v.kind == JSON_READ_ARRAY) {
		m->open[m->depth++] = m->t->n - 1;
		m->name_next = v.kind == JSON_READ_OBJECT;
	}
	return 0;
}

/* Depth needs no check here: json_read() has refused texts deeper than the limit. */
static int tree_make(struct json_tree_maker *m, const char *text, struct err *e)
{
	const char *at = text;
	struct json_value v;

	while (json_read_step(&at, text + m->len, &v)) {
		if (tree_take(m, v, e) < 0)
			return -1;
	}
	return json_tree_check_names(m->t, e);
}

int json_tree_read(struct json_tree *t, const char *text, size_t len,
		   const struct json_tree_limits *limits, struct err *e)
{
	struct json_tree_maker m = { .t = t, .len = len };
	struct json_value whole;

	*t = (struct json_tree){ 0 };
	if (len > limits->bytes)
		return err_set(e, ERR_LIMIT, "JSON of more than %zu bytes", limits->bytes);
	if (!json_size_fits(text, len, limits->depth, limits->values))
		return err_set(e, ERR_LIMIT, "JSON of more than %zu values or %u levels",
			       limits->values, limits->depth);
	if (json_read(text, len, limits->depth, &whole, e) < 0)
		return -1;
	if (tree_make(&m, text, e) == 0)
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

/* ---- reading the tree
 *
 * json_tree_get() and its kin, json_tree_int() and json_tree_number() take NULL for a value that is
 * not there, so a caller may chain them without a test between. */

#define NUMBER_MAX 64 /* characters of a converted number */

const struct json_node *json_tree_first(const struct json_node *parent)
{
	return parent != NULL && parent->size > 0 ? parent + 1 : NULL;
}

/* In an object v is a name, and its value with all nodes below lies between it and the next name.
 */
const struct json_node *json_tree_next(const struct json_node *parent, const struct json_node *v)
{
	const struct json_node *next = v + v->skip;

	if (parent->kind == JSON_READ_OBJECT)
		next = v + 1 + v[1].skip;
	return next < parent + parent->skip ? next : NULL;
}

const struct json_node *json_tree_get(const struct json_node *o, const char *name)
{
	if (!json_tree_is(o, JSON_READ_OBJECT))
		return NULL;
	for (const struct json_node *k = json_tree_first(o); k != NULL; k = json_tree_next(o, k)) {
		if (json_span_is(k->text, name))
			return json_tree_value(k);
	}
	return NULL;
}

const struct json_node *json_tree_get_kind(const struct json_node *o, const char *name,
					   enum json_kind kind)
{
	const struct json_node *v = json_tree_get(o, name);

	return json_tree_is(v, kind) ? v : NULL;
}

struct json_span json_tree_get_text(const struct json_node *o, const char *name)
{
	const struct json_node *v = json_tree_get_kind(o, name, JSON_READ_TEXT);
	const struct json_span absent = { 0 };

	return v == NULL ? absent : v->text;
}

bool json_tree_get_bool(const struct json_node *o, const char *name, bool otherwise)
{
	const struct json_node *v = json_tree_get(o, name);

	if (json_tree_is(v, JSON_READ_TRUE))
		return true;
	return json_tree_is(v, JSON_READ_FALSE) ? false : otherwise;
}

/* strtod(3) needs a NUL, so the text is copied. Numbers longer than NUMBER_MAX and infinite ones
 * are refused. */
bool json_tree_number(const struct json_node *v, double *ret)
{
	char text[NUMBER_MAX + 1];

	if (!json_tree_is(v, JSON_READ_NUMBER) || v->raw.n > NUMBER_MAX)
		return false;
	memcpy(text, v->raw.p, v->raw.n);
	text[v->raw.n] = '\0';
	*ret = strtod(text, NULL);
	return isfinite(*ret);
}

/* Digits without a fraction, as most numbers are. The value grows below zero, since INT64_MIN has
 * no positive counterpart. */
static bool tree_plain_int(struct json_span s, int64_t *ret)
{
	bool minus = s.n > 0 && s.p[0] == '-';
	int64_t value = 0;

	for (size_t i = minus; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_sub_overflow(value, s.p[i] - '0', &value))
			return false;
	}
	if (!minus && value == INT64_MIN)
		return false;
	*ret = minus ? value : -value;
	return true;
}

/* A number with a fraction or an exponent goes through a double. Beyond 2^53 it might be another
 * number, so it is refused. */
bool json_tree_int(const struct json_node *v, int64_t *ret)
{
	const double exact = 9007199254740992.0; /* up to 2^53 every whole number is a double */
	double value;

	if (!json_tree_is(v, JSON_READ_NUMBER))
		return false;
	if (tree_plain_int(v->raw, ret))
		return true;
	if (!json_tree_number(v, &value) || value < -exact || value > exact)
		return false;
	*ret = (int64_t)value;
	return (double)*ret == value;
}

bool json_span_is(struct json_span s, const char *text)
{
	size_t n = strlen(text);

	return s.p != NULL && s.n == n && memcmp(s.p, text, n) == 0;
}

char *json_span_dup(struct json_span s)
{
	char *copy;

	if (s.p == NULL || memchr(s.p, '\0', s.n) != NULL)
		return NULL;
	copy = malloc(s.n + 1);
	if (copy == NULL)
		return NULL;
	memcpy(copy, s.p, s.n);
	copy[s.n] = '\0';
	return copy;
}

/* The end of the run of bytes at `at` that holds no white space between tokens. */
static size_t tree_run_end(struct json_span raw, size_t at, bool *quoted)
{
	for (; at < raw.n; at++) {
		char c = raw.p[at];

		if (*quoted && c == '\\')
			at++;
		else if (c == '"')
			*quoted = !*quoted;
		else if (!*quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n'))
			break;
	}
	return at < raw.n ? at : raw.n;
}

/* The first call writes comma and name. Then the pieces follow each other without commas of their
 * own. */
void json_tree_write(struct json *j, const char *name, const struct json_node *v)
{
	bool quoted = false, comma;
	size_t at = 0;

	json_raw_bytes(j, name, "", 0);
	comma = j->comma;
	j->comma = false;
	while (at < v->raw.n) {
		size_t end = tree_run_end(v->raw, at, &quoted);

		if (end > at)
			json_raw_bytes(j, NULL, v->raw.p + at, end - at);
		j->comma = false;
		at = end + (end < v->raw.n);
	}
	j->comma = comma;
}
