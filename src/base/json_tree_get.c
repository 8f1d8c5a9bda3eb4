/* json_tree_get.c - access to the nodes of a tree. */
#include <math.h>
#include <string.h>

#include "json.h"
#include "json_tree.h"

#define NUMBER_MAX 64 /* characters of a number that is converted */

const struct json_node *json_tree_first(const struct json_node *parent)
{
	return parent != NULL && parent->size > 0 ? parent + 1 : NULL;
}

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

/* Digits without a fraction, as most numbers are. */
static bool plain_int(struct json_span s, int64_t *ret)
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

bool json_tree_int(const struct json_node *v, int64_t *ret)
{
	const double exact = 9007199254740992.0; /* up to 2^53 every whole number is a double */
	double value;

	if (!json_tree_is(v, JSON_READ_NUMBER))
		return false;
	if (plain_int(v->raw, ret))
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
static size_t run_end(struct json_span raw, size_t at, bool *quoted)
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

void json_tree_write(struct json *j, const char *name, const struct json_node *v)
{
	bool quoted = false, comma;
	size_t at = 0;

	json_raw_bytes(j, name, "", 0);
	comma = j->comma;
	j->comma = false;
	while (at < v->raw.n) {
		size_t end = run_end(v->raw, at, &quoted);

		if (end > at)
			json_raw_bytes(j, NULL, v->raw.p + at, end - at);
		j->comma = false;
		at = end + (end < v->raw.n);
	}
	j->comma = comma;
}
