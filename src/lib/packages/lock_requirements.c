/* lock_requirements.c - reads requirements.txt with exact versions, as pip-compile and "uv pip
 * compile" write it: NAME[EXTRAS]==VERSION ; MARKERS --hash=sha256:HEX ... A backslash at the end
 * continues the line. Options of the index are no pins and are skipped. Everything that would name
 * other packages (-r, -c, -e, URLs, ranges) is an error. */
#include <string.h>

#include "lib/packages/lock_out.h"
#include "lib/packages/package_chars.h"

struct lock_requirements_text {
	const char *p;
	size_t n;
};

static bool starts_with(struct lock_requirements_text t, const char *start)
{
	return t.n >= strlen(start) && memcmp(t.p, start, strlen(start)) == 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Take the next word. False: the text has ended. */
static bool next_word(struct lock_requirements_text *rest, struct lock_requirements_text *ret)
{
	size_t i = 0, n = 0;

	while (i < rest->n && is_blank(rest->p[i]))
		i++;
	while (i + n < rest->n && !is_blank(rest->p[i + n]))
		n++;
	*ret = (struct lock_requirements_text){ rest->p + i, n };
	*rest = (struct lock_requirements_text){ rest->p + i + n, rest->n - i - n };
	return n > 0;
}

/* The length without the comment. A comment begins at the margin or behind a blank. */
static size_t without_comment(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] == '#' && (i == 0 || is_blank(p[i - 1])))
			return i;
	return n;
}

/* Options that add or change packages are not in the list, so they fail. */
static int read_option(struct lock_out *o, unsigned line, struct lock_requirements_text t)
{
	static const char *const harmless[] = { "-i",
						"--index-url",
						"--extra-index-url",
						"--find-links",
						"-f",
						"--no-index",
						"--no-binary",
						"--only-binary",
						"--prefer-binary",
						"--require-hashes",
						"--pre",
						"--trusted-host" };

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		size_t n = strlen(harmless[i]);

		if (starts_with(t, harmless[i]) && (t.n == n || t.p[n] == ' ' || t.p[n] == '='))
			return 0;
	}
	return lock_fail(o, line, "an option that names other packages cannot be a pin");
}

/* Read the version, and move behind it. */
static int read_version(struct lock_out *o, unsigned line, struct lock_requirements_text *t)
{
	size_t i = 0, n = 0;

	while (i < t->n && (t->p[i] == '=' || is_blank(t->p[i])))
		i++;
	while (i + n < t->n && !is_blank(t->p[i + n]) && t->p[i + n] != ';')
		n++;
	if (lock_version(o, line, t->p + i, n) < 0)
		return lock_fail(o, line, "only an exact version (NAME==VERSION) is a pin");
	*t = (struct lock_requirements_text){ t->p + i + n, t->n - i - n };
	return 0;
}

/* Read NAME[EXTRAS]==. */
static int read_name(struct lock_out *o, unsigned line, struct lock_requirements_text *t)
{
	size_t n = 0, i;

	while (n < t->n && (package_is_alnum(t->p[n]) || package_is_one_of(t->p[n], "-_.")))
		n++;
	i = n;
	if (i < t->n && t->p[i] == '[')
		while (i < t->n && t->p[i++] != ']')
			;
	while (i < t->n && is_blank(t->p[i]))
		i++;
	if (t->n - i < 3 || memcmp(t->p + i, "==", 2) != 0)
		return lock_fail(o, line, "only an exact version (NAME==VERSION) is a pin");
	if (lock_name(o, line, t->p, n) < 0)
		return -1;
	*t = (struct lock_requirements_text){ t->p + i, t->n - i };
	return 0;
}

static int read_begin(struct lock_out *o, unsigned line, struct lock_requirements_text *t)
{
	if (lock_begin(o, ECO_PYPI, line) < 0 || read_name(o, line, t) < 0)
		return -1;
	return read_version(o, line, t);
}

static int read_hashes(struct lock_out *o, unsigned line, struct lock_requirements_text t)
{
	struct lock_requirements_text word;

	while (next_word(&t, &word)) {
		if (starts_with(word, "--hash="))
			word = (struct lock_requirements_text){ word.p + 7, word.n - 7 };
		else if (!starts_with(word, "--hash"))
			continue; /* a marker */
		else if (!next_word(&t, &word))
			return lock_fail(o, line, "--hash without a value");
		if (lock_digest(o, line, word.p, word.n) < 0)
			return -1;
	}
	return 0;
}

/* Read one line of the text. goes_on: the line continues the previous one. */
static int read_line(struct lock_out *o, unsigned line, struct lock_requirements_text t,
		     bool goes_on)
{
	while (t.n > 0 && is_blank(t.p[0]))
		t = (struct lock_requirements_text){ t.p + 1, t.n - 1 };
	if (t.n == 0)
		return 0;
	if (!goes_on && t.p[0] == '-')
		return read_option(o, line, t);
	if (!goes_on && read_begin(o, line, &t) < 0)
		return -1;
	return o->open ? read_hashes(o, line, t) : 0;
}

struct requirements {
	bool goes_on; /* the next line continues this one */
};

static int on_line(struct lock_out *o)
{
	struct requirements *r = o->state;
	const struct lock_lines *l = &o->lines;
	bool more = l->n > 0 && l->p[l->n - 1] == '\\';
	size_t n = without_comment(l->p, l->n - more);

	if (read_line(o, l->line, (struct lock_requirements_text){ l->p, n }, r->goes_on) < 0)
		return -1;
	r->goes_on = more;
	return more ? 0 : lock_end(o);
}

const struct lock_format lock_requirements = { .start = "requirements",
					       .end = ".txt",
					       .state = sizeof(struct requirements),
					       .line = on_line };
