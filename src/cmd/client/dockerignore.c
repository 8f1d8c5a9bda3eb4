/* dockerignore.c - see dockerignore.h. Patterns and paths are compared component by component.
 * Patterns are untrusted, because a checkout brings them, so the time of a comparison is bounded
 * by the product of both lengths and by the number of "**". */
#include "cmd/client/dockerignore.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

/* A class such as [a-z]. Return its length with brackets. 0: it is not closed, and the bracket
 * counts as itself. A ']' in the first place is a member. */
static size_t class_fits(const char *p, size_t n, char c, bool *ret)
{
	size_t i = 1;
	bool negated = n > 1 && (p[1] == '^' || p[1] == '!');

	*ret = false;
	for (i += negated; i < n && (p[i] != ']' || i == 1U + negated); i++) {
		if (i + 2 < n && p[i + 1] == '-' && p[i + 2] != ']') {
			*ret |= p[i] <= c && c <= p[i + 2];
			i += 2;
		} else {
			*ret |= p[i] == c;
		}
	}
	*ret ^= negated;
	return i < n ? i + 1 : 0;
}

/* One component: '*' any bytes, '?' one, [..] a class, '\' the next byte as it is. Backtracks to
 * the last star only, so that the time is the product of the lengths. */
static bool component_fits(const char *p, size_t pn, const char *t, size_t tn)
{
	size_t pi = 0, ti = 0, star = SIZE_MAX, from = 0;

	while (ti < tn) {
		size_t used = 0;
		bool fits = false;

		if (pi < pn && p[pi] == '*') {
			star = pi++;
			from = ti;
			continue;
		}
		if (pi < pn && p[pi] == '[')
			used = class_fits(p + pi, pn - pi, t[ti], &fits);
		if (used == 0 && pi < pn) {
			size_t escaped = p[pi] == '\\' && pi + 1 < pn;

			fits = (p[pi] == '?' && escaped == 0) || p[pi + escaped] == t[ti];
			used = 1 + escaped;
		}
		if (fits) {
			pi += used;
			ti++;
		} else if (star != SIZE_MAX) {
			pi = star + 1;
			ti = ++from;
		} else {
			return false;
		}
	}
	while (pi < pn && p[pi] == '*')
		pi++;
	return pi == pn;
}

/* The length up to the next slash. Patterns and paths are compared component by component, so
 * '*' never crosses a slash. */
static size_t dockerignore_component(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && text[i] != '/')
		i++;
	return i;
}

/* Does the pattern match the path, or a directory above it? "**" is any number of components.
 * depth bounds the number of tried "**": patterns come from a file, and their time must not grow
 * with the power of their stars. */
static bool path_fits(const char *p, size_t pn, const char *t, size_t tn, unsigned depth)
{
	size_t a, b;

	if (pn == 0)
		return true; /* the rest of the path is below what matched */
	a = dockerignore_component(p, pn);
	if (a == 2 && p[0] == '*' && p[1] == '*') {
		size_t rest = a + (a < pn);

		for (;;) {
			if (depth > 0 && path_fits(p + rest, pn - rest, t, tn, depth - 1))
				return tn > 0;
			if (tn == 0)
				return false;
			b = dockerignore_component(t, tn);
			t += b + (b < tn);
			tn -= b + (b < tn);
		}
	}
	if (tn == 0)
		return false;
	b = dockerignore_component(t, tn);
	if (!component_fits(p, a, t, b))
		return false;
	return path_fits(p + a + (a < pn), pn - a - (a < pn), t + b + (b < tn), tn - b - (b < tn),
			 depth);
}

/* Leading and trailing slashes and "./" do not count. */
static void dockerignore_trim(const char **p, size_t *n)
{
	while (*n > 0 && isspace((unsigned char)(*p)[*n - 1]))
		--*n;
	while (*n > 0 && isspace((unsigned char)**p)) {
		++*p;
		--*n;
	}
	for (bool again = true; again;) {
		size_t skip = *n >= 2 && (*p)[0] == '.' && (*p)[1] == '/' ? 2 : 0;

		skip = *n >= 1 && **p == '/' ? 1 : skip;
		*p += skip;
		*n -= skip;
		again = skip > 0;
	}
	while (*n > 0 && (*p)[*n - 1] == '/')
		--*n;
}

/* One rule in each line. Comments begin with '#', exceptions with '!'. The text must stay as
 * long as the rules are used. */
bool dockerignore_read(const char *text, size_t len, struct dockerignore *ret)
{
	ret->n = 0;
	while (len > 0) {
		const char *stop = memchr(text, '\n', len), *p = text;
		size_t n = stop == NULL ? len : (size_t)(stop - text);
		size_t used = n + (stop != NULL);
		bool keeps;

		dockerignore_trim(&p, &n);
		keeps = n > 0 && *p == '!';
		p += keeps;
		n -= keeps;
		dockerignore_trim(&p, &n);
		if (n > 0 && (*p != '#' || keeps)) {
			if (ret->n == DOCKERIGNORE_RULES_MAX)
				return false;
			ret->rules[ret->n].pattern = p;
			ret->rules[ret->n].len = n;
			ret->rules[ret->n++].keeps = keeps;
		}
		text += used;
		len -= used;
	}
	return true;
}

/* The last rule that fits decides, so an exception must stand behind the rule that it excepts. */
bool dockerignore_excludes(const struct dockerignore *d, const char *path)
{
	bool excluded = false;

	for (size_t i = 0; i < d->n; i++)
		if (path_fits(d->rules[i].pattern, d->rules[i].len, path, strlen(path), 8))
			excluded = !d->rules[i].keeps;
	return excluded;
}

/* While there is an exception, no directory can be left out as a whole, because a file below may
 * be kept. */
bool dockerignore_may_keep(const struct dockerignore *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->rules[i].keeps)
			return true;
	return false;
}

/* YES also for files below the pattern. ANCESTOR is for directories that may lead to a match, so
 * the walk goes into them. */
enum dockerignore_fit dockerignore_fits(const char *pattern, const char *path)
{
	const char *p = pattern;
	size_t pn = strlen(pattern), tn = strlen(path);

	dockerignore_trim(&p, &pn);
	if (pn == 0 || (pn == 1 && *p == '.') || path_fits(p, pn, path, tn, 8))
		return DOCKERIGNORE_YES;
	while (pn > 0 && tn > 0) {
		size_t a = dockerignore_component(p, pn), b = dockerignore_component(path, tn);

		if (a == 2 && p[0] == '*' && p[1] == '*')
			return DOCKERIGNORE_ANCESTOR;
		if (!component_fits(p, a, path, b))
			return DOCKERIGNORE_NO;
		p += a + (a < pn);
		pn -= a + (a < pn);
		path += b + (b < tn);
		tn -= b + (b < tn);
	}
	return DOCKERIGNORE_ANCESTOR;
}
