/* lock_toml.c - a reader of TOML in one pass. Values are not checked beyond what is needed to find
 * their ends; what lockfiles never have (dates with blanks are the only values with blanks) is kept
 * as it stands. */
#include "lock_toml.h"

#include <string.h>

#include "package_chars.h"

#define DEPTH_MAX 16

struct toml {
	struct lock_out *o;
	const char *p, *end;
	unsigned line, depth;
	char table[TOML_PATH_MAX], key[TOML_PATH_MAX];
	int (*on_event)(void *arg, const struct toml_event *event);
	void *arg;
};

static int value(struct toml *t);

static bool at(const struct toml *t, char c)
{
	return t->p < t->end && *t->p == c;
}

static bool at_twice(const struct toml *t, char c)
{
	return t->end - t->p >= 2 && t->p[0] == c && t->p[1] == c;
}

static bool at_thrice(const struct toml *t, char c)
{
	return at_twice(t, c) && t->end - t->p >= 3 && t->p[2] == c;
}

static void skip_blanks(struct toml *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\r'))
		t->p++;
}

/* Blanks, comments and ends of lines. */
static void skip_lines(struct toml *t)
{
	for (;;) {
		skip_blanks(t);
		if (at(t, '#'))
			while (t->p < t->end && *t->p != '\n')
				t->p++;
		if (!at(t, '\n'))
			return;
		t->p++;
		t->line++;
	}
}

static int emit(struct toml *t, enum toml_kind kind, const char *p, size_t n, bool text)
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

/* A quoted text; p stands at the quote. */
static int quoted(struct toml *t, const char **ret, size_t *ret_n)
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

/* a.b."c" is added to the path. */
static int key(struct toml *t, char *path)
{
	for (;;) {
		const char *p = t->p;
		size_t n = 0;

		skip_blanks(t);
		if (at(t, '"') || at(t, '\'')) {
			if (quoted(t, &p, &n) < 0)
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
		if (!at(t, '.'))
			return 0;
		t->p++;
	}
}

static int pair(struct toml *t)
{
	size_t have = strlen(t->key);

	if (key(t, t->key) < 0)
		return -1;
	if (!at(t, '='))
		return lock_fail(t->o, t->line, "a '=' must stand here");
	t->p++;
	skip_blanks(t);
	if (value(t) < 0)
		return -1;
	t->key[have] = '\0';
	return 0;
}

/* An array or an inline table, whose members stand between commas. */
static int list(struct toml *t, char close, int (*member)(struct toml *t))
{
	t->p++;
	for (;;) {
		skip_lines(t);
		if (at(t, close)) {
			t->p++;
			return 0;
		}
		if (t->p == t->end)
			return lock_fail(t->o, t->line, "a '%c' is missing", close);
		if (member(t) < 0)
			return -1;
		skip_lines(t);
		if (at(t, ','))
			t->p++;
		else if (!at(t, close))
			return lock_fail(t->o, t->line, "a comma or '%c' must stand here", close);
	}
}

static int nested(struct toml *t)
{
	int r;

	if (t->depth == DEPTH_MAX)
		return lock_fail(t->o, t->line, "nested too deeply");
	t->depth++;
	r = at(t, '[') ? list(t, ']', value) : list(t, '}', pair);
	t->depth--;
	return r;
}

static int value(struct toml *t)
{
	const char *p = t->p;
	size_t n = 0;

	if (at(t, '[') || at(t, '{'))
		return nested(t);
	if (at(t, '"') || at(t, '\''))
		return quoted(t, &p, &n) < 0 ? -1 : emit(t, TOML_VALUE, p, n, true);
	while (t->p < t->end && !package_is_one_of(*t->p, ",]}\n#"))
		t->p++;
	n = (size_t)(t->p - p);
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\r' || p[n - 1] == '\t'))
		n--;
	if (n == 0)
		return lock_fail(t->o, t->line, "a value must stand here");
	return emit(t, TOML_VALUE, p, n, false);
}

static int table(struct toml *t)
{
	bool many = at_twice(t, '[');

	t->p += many ? 2 : 1;
	t->table[0] = '\0';
	if (key(t, t->table) < 0)
		return -1;
	if (!(many ? at_twice(t, ']') : at(t, ']')))
		return lock_fail(t->o, t->line, "the name of a table is not closed");
	t->p += many ? 2 : 1;
	return emit(t, many ? TOML_ARRAY_TABLE : TOML_TABLE, "", 0, false);
}

int toml_read(struct lock_out *o, const char *text, size_t len,
	      int (*on_event)(void *arg, const struct toml_event *event), void *arg)
{
	struct toml t = {
		.o = o, .p = text, .end = text + len, .line = 1, .on_event = on_event, .arg = arg
	};

	for (;;) {
		skip_lines(&t);
		if (t.p == t.end)
			return 0;
		if ((at(&t, '[') ? table(&t) : pair(&t)) < 0)
			return -1;
		skip_blanks(&t);
		if (t.p < t.end && *t.p != '\n' && *t.p != '#')
			return lock_fail(o, t.line, "something stands behind a value");
	}
}
