/* json_tree.c - the reader: one loop over the bytes, with a stack of the open arrays and objects.
 */
#include "json_tree.h"

#include <string.h>

#include "json_tree_private.h"
#include "utf8.h"

const struct json_tree_limits json_tree_default = { .bytes = 1U << 20,
						    .nodes = 32768,
						    .depth = JSON_TREE_DEPTH_MAX };

#define FIRST_NODES 64

/* What may come next. */
enum want { VALUE, VALUE_OR_END, NAME, NAME_OR_END, COLON, COMMA_OR_END, NOTHING };

struct reader {
	const char *text;
	size_t len, at;
	const struct json_tree_limits *limits;
	struct json_tree *t;
	size_t cap;			    /* of t->nodes */
	size_t strings;			    /* bytes of t->strings in use */
	uint32_t open[JSON_TREE_DEPTH_MAX]; /* nodes of the arrays and objects that are open */
	unsigned depth;
	enum want want;
};

static int bad(const struct reader *r, struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "not valid JSON: %s at byte %zu", what, r->at);
}

static int more_nodes(struct reader *r, struct err *e)
{
	size_t cap = r->cap == 0 ? FIRST_NODES : 2 * r->cap;
	struct json_node *nodes;

	if (r->t->n >= r->limits->nodes)
		return err_set(e, ERR_LIMIT, "JSON with more than %zu values", r->limits->nodes);
	cap = cap < r->limits->nodes ? cap : r->limits->nodes;
	nodes = reallocarray(r->t->nodes, cap, sizeof(*nodes));
	if (nodes == NULL)
		return err_sys(e, "cannot read JSON");
	r->t->nodes = nodes;
	r->cap = cap;
	return 0;
}

static struct json_node *add(struct reader *r, enum json_tree_kind kind, size_t start,
			     struct err *e)
{
	struct json_node *v;

	if (r->t->n == r->cap && more_nodes(r, e) < 0)
		return NULL;
	v = &r->t->nodes[r->t->n++];
	*v = (struct json_node){ .kind = kind, .skip = 1, .raw = { .p = r->text + start } };
	v->raw.n = r->at - start;
	return v;
}

static struct json_node *top(struct reader *r)
{
	return &r->t->nodes[r->open[r->depth - 1]];
}

/* A value is complete: what follows it? */
static void after_value(struct reader *r)
{
	r->want = r->depth == 0 ? NOTHING : COMMA_OR_END;
}

static int hex4(const char *p, unsigned *ret)
{
	*ret = 0;
	for (int i = 0; i < 4; i++) {
		char c = p[i];
		unsigned d;

		if (c >= '0' && c <= '9')
			d = (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			d = (unsigned)((c | 0x20) - 'a') + 10;
		else
			return -1;
		*ret = *ret << 4 | d;
	}
	return 0;
}

static size_t put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* The XXXX of \uXXXX at r->at, and the second half of a pair. */
static int read_code(struct reader *r, unsigned *ret)
{
	unsigned low;

	if (r->len - r->at < 4 || hex4(r->text + r->at, ret) < 0)
		return -1;
	r->at += 4;
	if (*ret < 0xd800 || *ret > 0xdfff)
		return 0;
	if (*ret > 0xdbff || r->len - r->at < 6 || r->text[r->at] != '\\' ||
	    r->text[r->at + 1] != 'u' || hex4(r->text + r->at + 2, &low) < 0 || low < 0xdc00 ||
	    low > 0xdfff)
		return -1;
	r->at += 6;
	*ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

/* Reads the escape behind a backslash; to: NULL, or where its character goes (up to 4 bytes, never
 * more than the escape has). Returns the bytes of the character, 0: malformed. */
static size_t read_escape(struct reader *r, char *to)
{
	static const char from[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *c;
	char scratch[4];
	unsigned code;

	if (r->at == r->len)
		return 0;
	if (r->text[r->at] == 'u') {
		r->at++;
		return read_code(r, &code) < 0 ? 0 : put_utf8(to != NULL ? to : scratch, code);
	}
	c = memchr(from, r->text[r->at], sizeof(from) - 1);
	if (c == NULL)
		return 0;
	r->at++;
	if (to != NULL)
		*to = means[c - from];
	return 1;
}

/* Reads from behind the opening quote to behind the closing one. to: where the text goes, or NULL.
 * Sets *ret_n, and *ret_escapes if there was one. */
static int read_text(struct reader *r, char *to, size_t *ret_n, bool *ret_escapes, struct err *e)
{
	size_t n = 0, k;

	while (r->at < r->len && r->text[r->at] != '"') {
		char c = r->text[r->at];

		if (c == '\\') {
			*ret_escapes = true;
			r->at++;
			k = read_escape(r, to != NULL ? to + n : NULL);
			if (k == 0)
				return bad(r, e, "a bad escape");
			n += k;
			continue;
		}
		k = utf8_length((const uint8_t *)r->text + r->at, r->len - r->at);
		if (k == 0 || (unsigned char)c < 0x20)
			return bad(r, e, k == 0 ? "no UTF-8" : "a control byte in a string");
		if (to != NULL)
			memcpy(to + n, r->text + r->at, k);
		n += k;
		r->at += k;
	}
	if (r->at == r->len)
		return bad(r, e, "a string without an end");
	r->at++;
	*ret_n = n;
	return 0;
}

/* A string with escapes is read a second time, into t->strings: texts never get longer, so as many
 * bytes as the whole text has are enough for all. */
static int read_string(struct reader *r, struct err *e)
{
	size_t start = r->at++, n;
	bool escapes = false;
	struct json_node *v;

	if (read_text(r, NULL, &n, &escapes, e) < 0)
		return -1;
	v = add(r, JSON_TREE_STRING, start, e);
	if (v == NULL)
		return -1;
	v->text = (struct json_span){ .p = r->text + start + 1, .n = n };
	if (!escapes)
		return 0;
	if (r->t->strings == NULL && (r->t->strings = malloc(r->len)) == NULL)
		return err_sys(e, "cannot read JSON");
	r->at = start + 1;
	v->text.p = r->t->strings + r->strings;
	if (read_text(r, r->t->strings + r->strings, &n, &escapes, e) < 0)
		return -1;
	r->strings += n;
	return 0;
}

static size_t digits(const struct reader *r, size_t at)
{
	size_t n = 0;

	while (at + n < r->len && r->text[at + n] >= '0' && r->text[at + n] <= '9')
		n++;
	return n;
}

static bool is_one_of(const struct reader *r, size_t at, const char *set)
{
	return at < r->len && r->text[at] != '\0' && strchr(set, r->text[at]) != NULL;
}

static int read_number(struct reader *r, struct err *e)
{
	size_t start = r->at, at = r->at, n;

	at += is_one_of(r, at, "-");
	n = digits(r, at);
	if (n == 0 || (n > 1 && r->text[at] == '0'))
		return bad(r, e, "a bad value");
	at += n;
	if (is_one_of(r, at, ".")) {
		n = digits(r, at + 1);
		if (n == 0)
			return bad(r, e, "a bad number");
		at += 1 + n;
	}
	if (is_one_of(r, at, "eE")) {
		at++;
		at += is_one_of(r, at, "+-");
		n = digits(r, at);
		if (n == 0)
			return bad(r, e, "a bad number");
		at += n;
	}
	r->at = at;
	return add(r, JSON_TREE_NUMBER, start, e) == NULL ? -1 : 0;
}

static int read_word(struct reader *r, struct err *e)
{
	static const struct {
		const char *word;
		enum json_tree_kind kind;
	} words[] = { { "null", JSON_TREE_NULL },
		      { "false", JSON_TREE_FALSE },
		      { "true", JSON_TREE_TRUE } };
	size_t start = r->at;

	for (size_t i = 0; i < COUNT(words); i++) {
		size_t n = strlen(words[i].word);

		if (r->len - r->at < n || memcmp(r->text + r->at, words[i].word, n) != 0)
			continue;
		r->at += n;
		return add(r, words[i].kind, start, e) == NULL ? -1 : 0;
	}
	return read_number(r, e);
}

static int open_node(struct reader *r, struct err *e)
{
	bool object = r->text[r->at] == '{';
	size_t start = r->at++;

	if (r->depth >= r->limits->depth || r->depth >= JSON_TREE_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "JSON nested deeper than %u levels", r->limits->depth);
	if (add(r, object ? JSON_TREE_OBJECT : JSON_TREE_ARRAY, start, e) == NULL)
		return -1;
	r->open[r->depth++] = (uint32_t)(r->t->n - 1);
	r->want = object ? NAME_OR_END : VALUE_OR_END;
	return 0;
}

static int close_node(struct reader *r, enum json_tree_kind kind, struct err *e)
{
	struct json_node *v;

	if (r->depth == 0 || top(r)->kind != kind)
		return bad(r, e, "a bracket that closes nothing");
	v = top(r);
	r->at++;
	v->raw.n = (size_t)(r->text + r->at - v->raw.p);
	v->skip = (uint32_t)(r->t->n - r->open[r->depth - 1]);
	r->depth--;
	after_value(r);
	return 0;
}

static int read_value(struct reader *r, char c, struct err *e)
{
	if (r->depth > 0 && top(r)->kind == JSON_TREE_ARRAY)
		top(r)->size++;
	if (c == '{' || c == '[')
		return open_node(r, e);
	if ((c == '"' ? read_string(r, e) : read_word(r, e)) < 0)
		return -1;
	after_value(r);
	return 0;
}

static int read_name(struct reader *r, char c, struct err *e)
{
	if (c != '"')
		return bad(r, e, "a missing name");
	top(r)->size++;
	r->want = COLON;
	return read_string(r, e);
}

static int read_token(struct reader *r, struct err *e)
{
	char c = r->text[r->at];

	switch (r->want) {
	case VALUE_OR_END:
		if (c == ']')
			return close_node(r, JSON_TREE_ARRAY, e);
		return read_value(r, c, e);
	case VALUE:
		return read_value(r, c, e);
	case NAME_OR_END:
		if (c == '}')
			return close_node(r, JSON_TREE_OBJECT, e);
		return read_name(r, c, e);
	case NAME:
		return read_name(r, c, e);
	case COLON:
		r->want = VALUE;
		r->at++;
		return c == ':' ? 0 : bad(r, e, "a missing colon");
	case COMMA_OR_END:
		if (c == ']' || c == '}')
			return close_node(r, c == ']' ? JSON_TREE_ARRAY : JSON_TREE_OBJECT, e);
		r->want = top(r)->kind == JSON_TREE_ARRAY ? VALUE : NAME;
		r->at++;
		return c == ',' ? 0 : bad(r, e, "a missing comma");
	case NOTHING:
	default:
		return bad(r, e, "more than one value");
	}
}

static int read_all(struct reader *r, struct err *e)
{
	while (r->at < r->len) {
		if (is_one_of(r, r->at, " \t\r\n"))
			r->at++;
		else if (read_token(r, e) < 0)
			return -1;
	}
	if (r->want != NOTHING)
		return bad(r, e, "an early end");
	return json_tree_check_names(r->t, e);
}

int json_tree_read(struct json_tree *t, const char *text, size_t len,
		   const struct json_tree_limits *limits, struct err *e)
{
	struct reader r = { .text = text, .len = len, .limits = limits, .t = t };

	*t = (struct json_tree){ 0 };
	if (len > limits->bytes)
		return err_set(e, ERR_LIMIT, "JSON of more than %zu bytes", limits->bytes);
	if (read_all(&r, e) == 0)
		return 0;
	json_tree_release(t);
	return -1;
}

void json_tree_release(struct json_tree *t)
{
	free(t->nodes);
	free(t->strings);
	*t = (struct json_tree){ 0 };
}
