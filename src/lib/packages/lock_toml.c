/* lock_toml.c - a reader of TOML in one pass, a value at a time: open[] has the state that a
 * recursion would keep. Values are checked as far as finding their ends requires. Values that
 * lockfiles never have are kept as written (dates with blanks are the only values with blanks). */
#include "lib/packages/lock_toml.h"

#include <string.h>

#include "lib/packages/package_chars.h"

static bool lock_toml_at(const struct toml *t, char c)
{
	return t->p < t->end && *t->p == c;
}

/* Two brackets begin an array of tables. Three quotes begin a text of several lines. */
static bool at_twice(const struct toml *t, char c)
{
	return t->end - t->p >= 2 && t->p[0] == c && t->p[1] == c;
}

static bool at_thrice(const struct toml *t, char c)
{
	return at_twice(t, c) && t->end - t->p >= 3 && t->p[2] == c;
}

/* A CR counts as a blank, so lines may end with CR LF. */
static void skip_blanks(struct toml *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\r'))
		t->p++;
}

/* Skip blanks, comments and ends of lines. */
static void skip_lines(struct toml *t)
{
	for (;;) {
		skip_blanks(t);
		if (lock_toml_at(t, '#'))
			while (t->p < t->end && *t->p != '\n')
				t->p++;
		if (!lock_toml_at(t, '\n'))
			return;
		t->p++;
		t->line++;
	}
}

/* A key belongs to values only. Tables report their path. */
static int lock_toml_emit(struct toml *t, enum toml_kind kind, const char *p, size_t n, bool text)
{
	const struct toml_event event = { .kind = kind,
					  .line = t->line,
					  .table = t->table,
					  .key = kind == TOML_VALUE ? t->key : "",
					  .p = p,
					  .n = n,
					  .text = text };

	return t->on_event(t->arg, &event);
}

/* Read a quoted text. p stands at the quote. */
static int lock_toml_quoted(struct toml *t, const char **ret, size_t *ret_n)
{
	const char q = *t->p;
	bool multi = at_thrice(t, q);
	const char *start = t->p += multi ? 3 : 1;

	for (; t->p < t->end; t->p++) {
		if (multi ? at_thrice(t, q) : *t->p == q) {
			*ret = start;
			*ret_n = (size_t)(t->p - start);
			t->p += multi ? 3 : 1;
			return 0;
		}
		if (*t->p == '\\' && q == '"' && t->end - t->p > 1)
			t->p++;
		if (*t->p == '\n') {
			if (!multi)
				break;
			t->line++;
		}
	}
	return lock_fail(t->o, t->line, "a quote is not closed");
}

/* A part with a dot inside looks like two parts. */
static int add_key(struct toml *t, char *path, const char *p, size_t n)
{
	size_t have = strlen(path);

	if (have + n + 2 > TOML_PATH_MAX)
		return lock_fail(t->o, t->line, "a key is too long");
	if (have > 0)
		path[have++] = '.';
	memcpy(path + have, p, n);
	path[have + n] = '\0';
	return 0;
}

/* Add a.b."c" to the path. */
static int lock_toml_key(struct toml *t, char *path)
{
	for (;;) {
		const char *p = t->p;
		size_t n = 0;

		skip_blanks(t);
		if (lock_toml_at(t, '"') || lock_toml_at(t, '\'')) {
			if (lock_toml_quoted(t, &p, &n) < 0)
				return -1;
		} else {
			for (p = t->p; t->p < t->end &&
				       (package_is_alnum(*t->p) || package_is_one_of(*t->p, "-_"));)
				t->p++;
			n = (size_t)(t->p - p);
		}
		if (n == 0)
			return lock_fail(t->o, t->line, "a key must stand here");
		if (add_key(t, path, p, n) < 0)
			return -1;
		skip_blanks(t);
		if (!lock_toml_at(t, '.'))
			return 0;
		t->p++;
	}
}

/* A value has ended. Pairs of an inline table share a prefix of their keys. */
static void value_ends(struct toml *t)
{
	if (t->depth == 0) {
		t->key[0] = '\0';
		t->state = TOML_BEHIND_TOP;
		return;
	}
	if (t->open[t->depth - 1].close == '}')
		t->key[t->open[t->depth - 1].key] = '\0';
	t->state = TOML_BEHIND_MEMBER;
}

/* The length of the key is kept, so that value_ends() can cut off the keys of members. */
static int open_list(struct toml *t)
{
	if (t->depth == TOML_DEPTH_MAX)
		return lock_fail(t->o, t->line, "nested too deeply");
	t->open[t->depth].close = lock_toml_at(t, '[') ? ']' : '}';
	t->open[t->depth].key = strlen(t->key);
	t->depth++;
	t->p++;
	t->state = TOML_AT_MEMBER;
	return 0;
}

/* A value without members. */
static int lock_toml_scalar(struct toml *t)
{
	const char *p = t->p;
	size_t n = 0;

	if (lock_toml_at(t, '"') || lock_toml_at(t, '\''))
		return lock_toml_quoted(t, &p, &n) < 0 ? -1
						       : lock_toml_emit(t, TOML_VALUE, p, n, true);
	while (t->p < t->end && !package_is_one_of(*t->p, ",]}\n#"))
		t->p++;
	n = (size_t)(t->p - p);
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\r' || p[n - 1] == '\t'))
		n--;
	if (n == 0)
		return lock_fail(t->o, t->line, "a value must stand here");
	return lock_toml_emit(t, TOML_VALUE, p, n, false);
}

/* The members of an array or inline table come in later steps. */
static int lock_toml_value(struct toml *t)
{
	if (lock_toml_at(t, '[') || lock_toml_at(t, '{'))
		return open_list(t);
	if (lock_toml_scalar(t) < 0)
		return -1;
	value_ends(t);
	return 0;
}

/* The key is added to those of the inline tables around it. */
static int lock_toml_pair(struct toml *t)
{
	if (lock_toml_key(t, t->key) < 0)
		return -1;
	if (!lock_toml_at(t, '='))
		return lock_fail(t->o, t->line, "a '=' must stand here");
	t->p++;
	skip_blanks(t);
	return lock_toml_value(t);
}

/* At a member, or at the end of the list: a comma may stand before the bracket. */
static int lock_toml_member(struct toml *t)
{
	const char close = t->open[t->depth - 1].close;

	skip_lines(t);
	if (lock_toml_at(t, close)) {
		t->p++;
		t->depth--;
		value_ends(t);
		return 0;
	}
	if (t->p == t->end)
		return lock_fail(t->o, t->line, "a '%c' is missing", close);
	return close == ']' ? lock_toml_value(t) : lock_toml_pair(t);
}

static int behind_member(struct toml *t)
{
	const char close = t->open[t->depth - 1].close;

	skip_lines(t);
	if (lock_toml_at(t, ','))
		t->p++;
	else if (!lock_toml_at(t, close))
		return lock_fail(t->o, t->line, "a comma or '%c' must stand here", close);
	t->state = TOML_AT_MEMBER;
	return 0;
}

static int lock_toml_table(struct toml *t)
{
	bool many = at_twice(t, '[');

	t->p += many ? 2 : 1;
	t->table[0] = '\0';
	if (lock_toml_key(t, t->table) < 0)
		return -1;
	if (!(many ? at_twice(t, ']') : lock_toml_at(t, ']')))
		return lock_fail(t->o, t->line, "the name of a table is not closed");
	t->p += many ? 2 : 1;
	t->state = TOML_BEHIND_TOP;
	return lock_toml_emit(t, many ? TOML_ARRAY_TABLE : TOML_TABLE, "", 0, false);
}

/* A value must be alone on its line. */
static int behind_top(struct toml *t)
{
	skip_blanks(t);
	if (t->p < t->end && *t->p != '\n' && *t->p != '#')
		return lock_fail(t->o, t->line, "something stands behind a value");
	t->state = TOML_AT_TOP;
	return 0;
}

static int lock_toml_step(struct toml *t)
{
	switch (t->state) {
	case TOML_BEHIND_TOP:
		return behind_top(t);
	case TOML_AT_MEMBER:
		return lock_toml_member(t);
	case TOML_BEHIND_MEMBER:
		return behind_member(t);
	case TOML_AT_TOP:
		break;
	}
	skip_lines(t);
	if (t->p == t->end)
		return 0;
	return lock_toml_at(t, '[') ? lock_toml_table(t) : lock_toml_pair(t);
}

void toml_begin(struct toml *t, struct lock_out *o,
		int (*on_event)(void *arg, const struct toml_event *event), void *arg)
{
	*t = (struct toml){
		.o = o, .p = o->text, .end = o->end, .line = 1, .on_event = on_event, .arg = arg
	};
}

/* One transition of the state machine. At the end of the text only the outermost level is complete.
 */
int toml_step(struct toml *t)
{
	if (lock_toml_step(t) < 0)
		return -1;
	t->o->at = t->p;
	return t->p < t->end || t->state != TOML_AT_TOP ? 1 : 0;
}
