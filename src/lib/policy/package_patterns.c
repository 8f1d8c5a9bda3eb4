/* package_patterns.c - theory of operation
 *
 * Nearly all patterns of a long list name one package, or begin with a name and end with a star.
 * Both kinds are sorted and found by bisection. For prefixes, bisection finds the last prefix not
 * greater than the name. Otherwise, one of the shorter prefixes of that prefix may be (`parent`),
 * and no other can. Patterns of other kinds are few (PACKAGE_SLOW_MAX) and compared one by one. A
 * hash table would be as fast, but slow against authors who choose colliding names. */
#include "lib/policy/package_patterns.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lib/base/str.h"
#include "lib/policy/glob.h"

#define ARENA_PIECE 65536U
#define NONE UINT32_MAX
#define STAR_MAX 5 /* with NUL */

const char *package_arena_keep(struct policy *p, struct package_arena *a, const char *text,
			       size_t n)
{
	char *to;

	if (n + 1 > a->left) {
		a->left = n + 1 > ARENA_PIECE ? n + 1 : ARENA_PIECE;
		a->at = policy_alloc(p, a->left, 1);
		if (a->at == NULL) {
			a->left = 0;
			return NULL;
		}
	}
	to = a->at;
	memcpy(to, text, n);
	to[n] = '\0';
	a->at += n + 1;
	a->left -= n + 1;
	return to;
}

/* ---- reading */

/* Replace each `from` by `to`. False: the result has no room. */
static bool package_patterns_replace(const char *text, size_t n, const char *from, const char *to,
				     char *ret, size_t cap)
{
	size_t len = 0, nfrom = strlen(from), nto = strlen(to);

	for (size_t i = 0; i < n;) {
		bool found = n - i >= nfrom && memcmp(text + i, from, nfrom) == 0;

		if (len + (found ? nto : 1) >= cap)
			return false;
		if (found)
			memcpy(ret + len, to, nto);
		else
			ret[len] = text[i];
		len += found ? nto : 1;
		i += found ? nfrom : 1;
	}
	ret[len] = '\0';
	return true;
}

/* Choose letters that stand for a star while a name is brought into its normal form. The normal
 * form keeps letters, and the name does not contain these. No end of the word is a beginning of it,
 * so the word is found again only in the place of a star. */
static bool choose_star(const char *text, size_t n, char ret[STAR_MAX])
{
	for (int c = 'a'; c < 'z'; c++) {
		size_t i = 0;

		(void)snprintf(ret, STAR_MAX, "zqx%c", c);
		while (i + STAR_MAX - 1 <= n && strncasecmp(text + i, ret, STAR_MAX - 1) != 0)
			i++;
		if (i + STAR_MAX - 1 > n)
			return true;
	}
	return false;
}

/* The normal form of a name with stars. False: malformed, or two stars in a row. */
static bool normal_with_stars(enum ecosystem eco, const char *text, size_t n,
			      char ret[PACKAGE_NAME_MAX])
{
	char letters[PACKAGE_NAME_MAX], normal[PACKAGE_NAME_MAX], star[STAR_MAX];

	if (!choose_star(text, n, star) || memmem(text, n, "**", 2) != NULL)
		return false;
	return package_patterns_replace(text, n, "*", star, letters, sizeof(letters)) &&
	       package_name_normal(eco, letters, strlen(letters), normal) &&
	       package_patterns_replace(normal, strlen(normal), star, "*", ret, PACKAGE_NAME_MAX);
}

/* Find the '@' in front of a version. npm's scoped names begin with an '@' that begins no
 * version. */
static const char *find_version(const char *name)
{
	const char *at = strrchr(name, '@');

	return at == name ? NULL : at;
}

/* A version is printable ASCII without spaces. Stars are for patterns only. */
static bool is_version(const char *text, size_t n, bool stars)
{
	if (n == 0 || n >= PACKAGE_VERSION_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~' || (text[i] == '*' && !stars))
			return false;
	return true;
}

bool package_name_read(const char *text, bool stars, struct package_name *ret)
{
	const char *colon = strchr(text, ':'), *name, *version;
	size_t n;

	*ret = (struct package_name){ 0 };
	if (colon == NULL || !ecosystem_read(text, (size_t)(colon - text), &ret->ecosystem))
		return false;
	name = colon + 1;
	version = find_version(name);
	n = version == NULL ? strlen(name) : (size_t)(version - name);
	if (version != NULL) {
		if (!is_version(version + 1, strlen(version + 1), stars))
			return false;
		str_copy(ret->version, version + 1);
	}
	if (memchr(name, '*', n) != NULL)
		return stars && normal_with_stars(ret->ecosystem, name, n, ret->name);
	return package_name_normal(ret->ecosystem, name, n, ret->name);
}

static int compare_names(const struct package_pattern *a, const struct package_pattern *b)
{
	if (a->ecosystem != b->ecosystem)
		return a->ecosystem < b->ecosystem ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int package_patterns_compare(const void *one, const void *other)
{
	const struct package_pattern *a = one, *b = other;
	int names = compare_names(a, b);

	return names != 0 ? names : strcmp(a->version, b->version);
}

static bool is_prefix(const struct package_pattern *of, const struct package_pattern *x)
{
	return of->ecosystem == x->ecosystem && of->n <= x->n &&
	       memcmp(of->name, x->name, of->n) == 0;
}

/* Set the parent of each prefix. In a sorted list, all names with prefix x follow x at once, so
 * only parents of the previous entry need a look. */
static void find_parents(struct package_pattern *list, size_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t up = i == 0 ? NONE : i - 1;

		while (up != NONE && !is_prefix(&list[up], &list[i]))
			up = list[up].parent;
		list[i].parent = up;
	}
}

/* Sort one pattern into the three lists by its form. */
static int package_patterns_add(struct policy *p, struct package_arena *a,
				const struct package_name *n, uint32_t number,
				struct package_patterns *to, struct err *e)
{
	const char *star = strchr(n->name, '*');
	size_t len = strlen(n->name);
	bool slow_version = strchr(n->version, '*') != NULL && strcmp(n->version, "*") != 0;
	bool any = n->version[0] == '\0' || strcmp(n->version, "*") == 0;
	bool prefix = star != NULL && star == n->name + len - 1 && any;
	struct package_pattern one = { .ecosystem = n->ecosystem,
				       .number = number,
				       .n = prefix ? len - 1 : len };

	one.name = package_arena_keep(p, a, n->name, one.n);
	one.version = any ? "" : package_arena_keep(p, a, n->version, strlen(n->version));
	if (one.name == NULL || one.version == NULL)
		return policy_no_memory(e);
	if (prefix)
		to->prefixes[to->nprefixes++] = one;
	else if (star != NULL || slow_version)
		to->slow[to->nslow++] = one;
	else
		to->exact[to->nexact++] = one;
	return 0;
}

static void package_patterns_sort(struct package_patterns *s)
{
	if (s->nexact > 0)
		qsort(s->exact, s->nexact, sizeof(s->exact[0]), package_patterns_compare);
	if (s->nprefixes > 0)
		qsort(s->prefixes, s->nprefixes, sizeof(s->prefixes[0]), package_patterns_compare);
	find_parents(s->prefixes, s->nprefixes);
}

/* The order of reading counts: a reason names the place of the pattern in the document. */
static int read_item(struct policy *p, struct package_arena *a, const json_t *item, const char *at,
		     const char *name, uint32_t i, struct package_patterns *to, struct err *e)
{
	struct package_name pattern;
	char place[64];

	(void)snprintf(place, sizeof(place), "%s[%u]", name, i);
	if (!json_is_string(item) || !package_name_read(json_string_value(item), true, &pattern))
		return policy_value_fail(e, at, place,
					 "must be ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION, such "
					 "as npm:left-pad@1.3.0 or pypi:acme-*");
	if (strlen(pattern.name) > GLOB_MAX && strchr(pattern.name, '*') != NULL)
		return policy_value_fail(e, at, place, "has more than %d bytes", GLOB_MAX);
	to->nstars += glob_is_slow(pattern.name) || glob_is_slow(pattern.version);
	if (to->nslow == PACKAGE_SLOW_MAX || to->nstars > PACKAGE_STARS_MAX)
		return policy_value_fail(e, at, name,
					 "more than %d patterns with a star that is not at the end "
					 "of the name, or more than %d with several",
					 PACKAGE_SLOW_MAX, PACKAGE_STARS_MAX);
	return package_patterns_add(p, a, &pattern, i, to, e);
}

int package_patterns_read(struct policy *p, struct package_arena *a, const json_t *v,
			  const char *at, const char *name, struct package_patterns *ret,
			  struct err *e)
{
	size_t n = json_array_size(v), size = sizeof(ret->exact[0]);

	*ret = (struct package_patterns){ .given = v != NULL };
	if (v == NULL)
		return 0;
	if (!json_is_array(v) || n > PACKAGE_PATTERNS_MAX)
		return policy_value_fail(e, at, name, "must be a list of at most %d patterns",
					 PACKAGE_PATTERNS_MAX);
	ret->exact = policy_alloc(p, n, size);
	ret->prefixes = policy_alloc(p, n, size);
	ret->slow = policy_alloc(p, n < PACKAGE_SLOW_MAX ? n : PACKAGE_SLOW_MAX, size);
	if (ret->exact == NULL || ret->prefixes == NULL || ret->slow == NULL)
		return policy_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (read_item(p, a, json_array_get(v, i), at, name, (uint32_t)i, ret, e) < 0)
			return -1;
	package_patterns_sort(ret);
	return 0;
}

/* ---- asking */

/* The first entry not below the key. Return n if all are below. */
static size_t lower_bound(const struct package_pattern *list, size_t n,
			  const struct package_pattern *key)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (package_patterns_compare(&list[mid], key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* An entry without a version matches all versions, and is sorted before those with one. */
static bool find_exact(const struct package_patterns *s, struct package_pattern *key,
		       const char *version, bool unknown, uint32_t *ret)
{
	size_t i;

	key->version = "";
	i = lower_bound(s->exact, s->nexact, key);
	if (i == s->nexact || compare_names(&s->exact[i], key) != 0)
		return false;
	/* The first entry with this name. An entry without a version comes first, if there is
	 * one. */
	if (version != NULL && s->exact[i].version[0] != '\0' && !(version[0] == '\0' && unknown)) {
		key->version = version;
		i = lower_bound(s->exact, s->nexact, key);
		if (version[0] == '\0' || i == s->nexact ||
		    package_patterns_compare(&s->exact[i], key) != 0)
			return false;
	}
	*ret = s->exact[i].number;
	return true;
}

static bool find_prefix(const struct package_patterns *s, struct package_pattern *key,
			uint32_t *ret)
{
	size_t i;
	uint32_t at;

	key->version = "\x7f"; /* sorts behind every version */
	i = lower_bound(s->prefixes, s->nprefixes, key);
	for (at = i == 0 ? NONE : (uint32_t)i - 1; at != NONE; at = s->prefixes[at].parent) {
		if (!is_prefix(&s->prefixes[at], key))
			continue;
		*ret = s->prefixes[at].number;
		return true;
	}
	return false;
}

/* Does the version fit? For an unknown version the caller decides. */
static bool fits_version(const struct package_pattern *one, const char *version, bool unknown)
{
	if (one->version[0] == '\0' || version == NULL)
		return true;
	if (version[0] == '\0')
		return unknown;
	return glob_fits(one->version, version, strlen(version), false);
}

static bool find_slow(const struct package_patterns *s, const struct package_pattern *key,
		      const char *version, bool unknown, uint32_t *ret)
{
	for (size_t i = 0; i < s->nslow; i++) {
		const struct package_pattern *one = &s->slow[i];

		if (one->ecosystem != key->ecosystem ||
		    !glob_fits(one->name, key->name, key->n, false) ||
		    !fits_version(one, version, unknown))
			continue;
		*ret = one->number;
		return true;
	}
	return false;
}

bool package_patterns_fit(const struct package_patterns *s, enum ecosystem eco, const char *name,
			  const char *version, bool unknown, uint32_t *ret_number)
{
	struct package_pattern key = { .ecosystem = eco, .name = name, .n = strlen(name) };

	return find_exact(s, &key, version, unknown, ret_number) ||
	       find_prefix(s, &key, ret_number) || find_slow(s, &key, version, unknown, ret_number);
}

/* ---- paths of git servers */

#define PATH_STARTS_MAX 8			 /* segments of an API that stand before a name */
#define PATH_SEGMENTS_MAX (PACKAGE_NAME_MAX / 2) /* of a name: the most that fit */
/* Segments compared with star patterns, each by itself. No forge has deeper groups. */
#define PATH_SLOW_MAX 24

/* Spell all slashes alike, without repetition and without one at the start. A path too long for a
 * name is cut. */
static void merge_slashes(const char *path, char *ret, size_t cap)
{
	size_t n = 0;

	while (*path != '\0' && n + 1 < cap) {
		bool escaped = strncmp(path, "%2F", 3) == 0;
		char c = escaped ? '/' : *path;

		path += escaped ? 3 : 1;
		if (c == '/' && (n == 0 || ret[n - 1] == '/'))
			continue;
		ret[n++] = c;
	}
	ret[n] = '\0';
}

/* Is a name denied that begins at `at`? Tries two segments, then three, and so on. */
static bool starts_denied(const struct package_patterns *s, const char *at, uint32_t *ret)
{
	size_t n = strcspn(at, "/");

	for (size_t i = 1; i < PATH_SEGMENTS_MAX && at[n] == '/'; i++) {
		char name[PACKAGE_NAME_MAX];
		struct package_pattern key = { .ecosystem = ECO_GIT, .name = name };

		n += 1 + strcspn(at + n + 1, "/");
		if (!package_name_normal(ECO_GIT, at, n, name))
			continue;
		key.n = strlen(name);
		if (find_exact(s, &key, "", false, ret) || find_prefix(s, &key, ret) ||
		    (i < PATH_SLOW_MAX && find_slow(s, &key, "", false, ret)))
			return true;
	}
	return false;
}

bool package_patterns_path(const struct package_patterns *s, const char *path, unsigned starts,
			   uint32_t *ret_number)
{
	char text[2 * PACKAGE_NAME_MAX];
	const char *at = text;
	bool is_api;

	if (s->nexact + s->nprefixes + s->nslow == 0)
		return false;
	merge_slashes(path, text, sizeof(text));
	is_api = strncasecmp(text, "api/", 4) == 0 || strncasecmp(text, "repos/", 6) == 0;
	if (is_api && starts < PATH_STARTS_MAX)
		starts = PATH_STARTS_MAX;
	for (unsigned i = 0; i < starts; i++) {
		if (starts_denied(s, at, ret_number))
			return true;
		at += strcspn(at, "/");
		if (*at++ == '\0')
			break;
	}
	return false;
}
