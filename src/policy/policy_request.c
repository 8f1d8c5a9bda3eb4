/* policy_request.c - theory of operation
 *
 * Compares a request with the methods, paths, query and headers of a rule; called by
 * policy_decide.c. If a name occurs several times, also in another spelling (fold.h), servers
 * differ in which one they use: a rule that allows matches only if all do, a rule that denies
 * matches if any does. A rule that denies also compares the path as a lenient server would read it
 * (fold_path()); a rule that allows compares it exactly. What cannot be compared (out of memory,
 * a text is too long) counts against the request. */
#include "policy_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fold.h"
#include "glob.h"
#include "path.h"
#include "url.h"

static void load_head(const char *text, size_t n, uint64_t ret[POLICY_HEAD_WORDS])
{
	size_t size = POLICY_HEAD_WORDS * sizeof(ret[0]);

	memset(ret, 0, size);
	memcpy(ret, text, n < size ? n : size);
}

void policy_request_compile(const char *pattern, struct policy_path *ret)
{
	size_t front = strcspn(pattern, "*"), n = pattern[front] == '*' ? front : front + 1;
	static const char ones[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
				   "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

	_Static_assert(sizeof(ones) - 1 == sizeof(ret->mask), "one for each byte");
	ret->text = pattern;
	load_head(ones, n, ret->mask);
	load_head(pattern, front, ret->want);
}

static bool fits_one_path(const struct policy_path *paths, size_t n, const char *path,
			  const uint64_t head[POLICY_HEAD_WORDS])
{
	for (size_t i = 0; i < n; i++) {
		const struct policy_path *p = &paths[i];
		uint64_t differs = 0;

		for (size_t w = 0; w < POLICY_HEAD_WORDS; w++)
			differs |= (head[w] & p->mask[w]) ^ p->want[w];
		if (differs == 0 && path_fits(p->text, path))
			return true;
	}
	return false;
}

/* Folds the path, once for a request, when the first rule needs it. False: out of memory. */
static bool see_loosely(struct policy_seen *s)
{
	const char *path = s->request->path;

	if (s->loose != NULL)
		return true;
	s->loose = malloc(strlen(path) + 1);
	if (s->loose == NULL)
		return false;
	load_head(s->loose, fold_path(path, s->loose), s->loose_head);
	return true;
}

static bool fits_path(const struct policy_match *m, struct policy_seen *s)
{
	if (m->npaths == 0 || fits_one_path(m->paths, m->npaths, s->request->path, s->head))
		return true;
	if (m->allow)
		return false;
	/* What cannot be compared is decided against the request. */
	return !see_loosely(s) || fits_one_path(m->loose, m->npaths, s->loose, s->loose_head);
}

/* ---- parameters */

/* Values of one name. There may be thousands of them and of rules, and each value is read for each
 * rule. */
#define VALUES_MAX 256

/* Keeps large buffers out of the stack frames of callers that do not need them. */
#define APART __attribute__((noinline))

/* The next "name=value" between any of the separators, both still encoded. False at the end. */
static bool next_item(const char **rest, const char *separators, struct http1_span *ret_name,
		      struct http1_span *ret_value)
{
	size_t n, name;

	*rest += strspn(*rest, separators);
	n = strcspn(*rest, separators);
	if (n == 0)
		return false;
	name = strcspn(*rest, "=");
	name = name < n ? name : n;
	*ret_name = (struct http1_span){ *rest, name };
	*ret_value = name < n ? (struct http1_span){ *rest + name + 1, n - name - 1 }
			      : (struct http1_span){ "", 0 };
	*rest += n;
	return true;
}

/* Encoded: without an escape it is as long as its folded form. */
static bool may_be(struct http1_span name, const char *folded)
{
	if (name.n == strlen(folded))
		return true;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] == '%' || name.p[i] == '+' || name.p[i] == '[')
			return true;
	return false;
}

/* What a rule requires of one parameter: a pattern for its value, or one of a list of words. */
struct wanted {
	const char *name, *folded, *glob;
	const char *const *words;
	size_t nwords;
	bool allow;
};

static bool fits_words(const struct wanted *w, const char *text)
{
	for (size_t i = 0; i < w->nwords; i++)
		if (strcasecmp(w->words[i], text) == 0)
			return true;
	return false;
}

/* Names that fold to the same are the same. A rule that allows needs all values to match, and one
 * with exactly this name; a rule that denies needs one value that matches. */
static APART bool fits_items(const struct wanted *w, const char *query, const char *separators)
{
	struct http1_span name, value;
	char text[PATH_NORMAL_MAX];
	size_t all = 0, exact = 0;

	while (next_item(&query, separators, &name, &value)) {
		bool fits;
		int n;

		if (!may_be(name, w->folded))
			continue;
		n = url_decode_form(name, text, sizeof(text));
		if (n >= 0) {
			exact += strcmp(text, w->name) == 0;
			fold_parameter(text);
			if (strcmp(text, w->folded) != 0)
				continue;
			n = url_decode_form(value, text, sizeof(text));
		}
		/* What cannot be compared is decided against the request. */
		if (n < 0 || all++ == VALUES_MAX)
			return !w->allow;
		fits = w->glob != NULL ? glob_fits(w->glob, text, (size_t)n, false)
				       : fits_words(w, text);
		if (fits != w->allow)
			return fits;
	}
	return w->allow && exact > 0;
}

/* Some servers read ';' as '&'. A rule that allows does not match such a query, a rule that denies
 * reads it both ways. */
static bool fits_parameter(const struct wanted *w, const char *query)
{
	if (query == NULL)
		return false;
	if (strchr(query, ';') == NULL)
		return fits_items(w, query, "&");
	return !w->allow && (fits_items(w, query, "&") || fits_items(w, query, "&;"));
}

/* ---- methods */

static const struct wanted override = { .name = "_method", .folded = "_method", .glob = "*" };

/* Frameworks take the method from a parameter of this name: both must be methods of the rule. */
static bool fits_method(const struct policy_match *m, const struct policy_seen *s)
{
	struct wanted w = override;
	bool fits = m->nmethods == 0;

	for (size_t i = 0; i < m->nmethods && !fits; i++)
		fits = strcmp(m->methods[i], s->request->method) == 0;
	if (m->nmethods == 0 || !s->overridden || fits != m->allow)
		return fits;
	w.glob = NULL;
	w.words = m->methods;
	w.nwords = m->nmethods;
	w.allow = m->allow;
	return fits_parameter(&w, s->request->query);
}

void policy_request_see(const struct policy_request *q, struct policy_seen *ret)
{
	*ret = (struct policy_seen){ .request = q };
	load_head(q->path, strnlen(q->path, sizeof(ret->head)), ret->head);
	ret->overridden = q->query != NULL && fits_parameter(&override, q->query);
}

void policy_request_forget(struct policy_seen *s)
{
	free(s->loose);
}

/* ---- headers */

/* Compares each element of a list, unless the pattern is about the whole value. */
static bool fits_value(const struct policy_match *m, const char *glob, const struct http1_header *h)
{
	const char *p = h->value.n > 0 ? h->value.p : "", *end = p + h->value.n;
	bool whole = glob_fits(glob, p, h->value.n, false), any = false, all = true;

	if (strchr(glob, ',') != NULL || memchr(p, ',', h->value.n) == NULL ||
	    !fold_is_list(h->name))
		return whole;
	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma != NULL ? comma : end, *next = stop;

		while (p < stop && (*p == ' ' || *p == '\t'))
			p++;
		while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t'))
			stop--;
		if (stop > p) {
			bool fits = glob_fits(glob, p, (size_t)(stop - p), false);

			any |= fits;
			all &= fits;
		}
		p = next < end ? next + 1 : end;
	}
	return m->allow ? all && (any || whole) : any || whole;
}

/* If a name occurs several times, a rule that allows must match each. Names that a server may take
 * for this one count, too, but the exact name must be there. */
static bool fits_header(const struct policy_match *m, const struct policy_pair *pair,
			const struct policy_request *q)
{
	size_t exact = 0;

	for (size_t i = 0; i < q->nheaders; i++) {
		const struct http1_header *h = &q->headers[i];

		if (!fold_same_header(h->name, pair->name))
			continue;
		exact += http1_span_is_nocase(h->name, pair->name);
		if (fits_value(m, pair->glob, h) != m->allow)
			return !m->allow;
	}
	return m->allow && exact > 0;
}

bool policy_compares(const struct policy_rule *r, struct http1_span header)
{
	const struct policy_match *m = r->match;

	for (size_t i = 0; i < m->nheaders; i++)
		if (http1_span_is_nocase(header, m->headers[i].name))
			return true;
	return false;
}

bool policy_request_fits(const struct policy_match *m, struct policy_seen *s)
{
	const struct policy_request *q = s->request;

	if (!fits_method(m, s) || !fits_path(m, s))
		return false;
	for (size_t i = 0; i < m->nquery; i++) {
		const struct policy_pair *pair = &m->query[i];
		const struct wanted w = { .name = pair->name,
					  .folded = pair->folded,
					  .glob = pair->glob,
					  .allow = m->allow };

		if (!fits_parameter(&w, q->query))
			return false;
	}
	for (size_t i = 0; i < m->nheaders; i++)
		if (!fits_header(m, &m->headers[i], q))
			return false;
	return true;
}
