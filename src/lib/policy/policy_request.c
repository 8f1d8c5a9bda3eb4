/* policy_request.c - theory of operation
 *
 * Compares a request with the methods, paths, query and headers of a rule. Called by
 * policy_decide.c. If a name occurs several times, also in another spelling (fold.h), servers
 * differ in which one they use. So a rule that allows matches only if all of them match, and a rule
 * that denies matches if any does. A rule that denies also compares the path as a lenient server
 * would read it (fold_path()). A rule that allows compares it exactly. If a comparison fails (out
 * of memory, a text is too long, too much work), the decision goes against the request.
 *
 * The query is decoded once per request. Work is counted over all rules, since one request must not
 * stop the others of its process. */
#include "lib/policy/policy_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/http/url.h"
#include "lib/policy/fold.h"
#include "lib/policy/glob.h"
#include "lib/policy/path.h"

/* Load the first bytes of a text, padded with zeroes. */
static void load_head(const char *text, size_t n, uint64_t ret[POLICY_HEAD_WORDS])
{
	size_t size = POLICY_HEAD_WORDS * sizeof(ret[0]);

	memset(ret, 0, size);
	memcpy(ret, text, n < size ? n : size);
}

/* Bytes behind the first star are not masked in. Without a star the NUL is, so a longer path
 * differs. */
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

/* Fold the path once per request, when the first rule needs it. False: out of memory. */
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
	/* Without the folded path, decide against the request. */
	return !see_loosely(s) || fits_one_path(m->loose, m->npaths, s->loose, s->loose_head);
}

/* ---- work */

/* Count work. False: it is too much, decide against the request. */
static bool policy_request_spend(struct policy_seen *s, size_t n)
{
	s->work += n;
	if (s->work <= POLICY_WORK_MAX)
		return true;
	s->against = "comparing the request with the rules takes too long";
	return false;
}

/* The work of one glob_fits(). A slow pattern is compiled, and walks over the text. */
static size_t glob_work(const char *glob, size_t n)
{
	return glob_is_slow(glob) ? 64 + n : 1;
}

/* ---- parameters */

/* Parameters of a query, in one reading of its separators. */
#define PARAMETERS_MAX 256
#define READINGS 2

/* Keeps large buffers out of the stack frames of callers that do not need them. */
#define APART __attribute__((noinline))

static const char method_name[] = "_method";

/* The next "name=value" between separators, with both parts still encoded. False at the end. */
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

/* May the encoded name be this one? Without an escape it is as long as its folded form. */
static bool may_be(struct http1_span name, const char *folded)
{
	if (name.n == strlen(folded))
		return true;
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] == '%' || name.p[i] == '+' || name.p[i] == '[')
			return true;
	return false;
}

static uint32_t hash_of(const char *text)
{
	uint32_t h = 2166136261U;

	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 16777619U;
	return h;
}

/* Add the parameters of one reading. only: with this name, NULL: all. text: room for all. Returns
 * the rest of it. */
static char *read_items(const char *query, const char *separators, const char *only, char *text,
			struct policy_items *ret)
{
	struct http1_span name, value;
	size_t n = 0;

	while (ret->why == NULL && next_item(&query, separators, &name, &value)) {
		struct policy_item *one = &ret->at[ret->n];
		int len;

		if (only != NULL && !may_be(name, only))
			continue;
		if (n == PARAMETERS_MAX) {
			ret->why = "the query has more than 256 parameters";
			break;
		}
		len = url_decode_form(name, text, name.n + 1);
		if (len < 0) {
			ret->why = "a name in the query cannot be decoded";
			break;
		}
		one->name = text;
		text += len + 1;
		memcpy(text, one->name, (size_t)len + 1);
		fold_parameter(text);
		if (only != NULL && strcmp(text, only) != 0)
			continue;
		one->folded = text;
		one->hash = hash_of(text);
		text += len + 1;
		len = url_decode_form(value, text, value.n + 1);
		one->value = len < 0 ? NULL : text;
		one->n = len < 0 ? 0 : (size_t)len;
		text += value.n + 1;
		ret->n++;
		n++;
	}
	return text;
}

/* Some servers read ';' as '&', so such a query is read both ways. */
static APART void read_query(const struct policy_seen *s, const char *only,
			     struct policy_items *ret)
{
	const char *query = s->request->query;
	size_t room = (strlen(query) + 2) * 2 * 3;
	char *text;

	*ret = (struct policy_items){ .is_read = true };
	ret->at = calloc((size_t)PARAMETERS_MAX * READINGS, sizeof(*ret->at));
	ret->text = text = malloc(room * READINGS);
	if (ret->at == NULL || text == NULL) {
		ret->why = "out of memory";
		return;
	}
	text = read_items(query, "&", only, text, ret);
	if (s->has_semicolon)
		(void)read_items(query, "&;", only, text, ret);
}

/* A rule's condition for one parameter: a pattern for its value, or a list of words. */
struct policy_wanted {
	const char *name, *folded, *glob;
	const char *const *words;
	size_t nwords;
	uint32_t hash;
	bool allow;
};

static bool fits_words(const struct policy_wanted *w, const char *text)
{
	for (size_t i = 0; i < w->nwords; i++)
		if (strcasecmp(w->words[i], text) == 0)
			return true;
	return false;
}

/* Names with the same folded form are the same parameter. A rule that allows needs all values to
 * match, and one with exactly this name. A rule that denies needs one value that matches. */
static bool fits_items(const struct policy_wanted *w, const struct policy_items *items,
		       struct policy_seen *s)
{
	size_t exact = 0;

	if (!policy_request_spend(s, 1 + items->n / 16))
		return !w->allow;
	for (size_t i = 0; i < items->n; i++) {
		const struct policy_item *one = &items->at[i];
		bool fits;

		if (one->hash != w->hash || strcmp(one->folded, w->folded) != 0)
			continue;
		exact += strcmp(one->name, w->name) == 0;
		/* A value that cannot be compared counts against the request. */
		if (one->value == NULL ||
		    !policy_request_spend(s,
					  w->glob != NULL ? glob_work(w->glob, one->n) : w->nwords))
			return !w->allow;
		fits = w->glob != NULL ? glob_fits(w->glob, one->value, one->n, false)
				       : fits_words(w, one->value);
		if (fits != w->allow)
			return fits;
	}
	return w->allow && exact > 0;
}

/* A rule that allows does not match a query with ';'. */
static bool fits_parameter(const struct policy_wanted *w, const struct policy_items *items,
			   struct policy_seen *s)
{
	if (s->request->query == NULL || (w->allow && s->has_semicolon))
		return false;
	if (items->why == NULL)
		return fits_items(w, items, s);
	s->against = items->why;
	return !w->allow;
}

static bool fits_pair(const struct policy_match *m, const struct policy_pair *pair,
		      struct policy_seen *s)
{
	const struct policy_wanted w = { .name = pair->name,
					 .folded = pair->folded,
					 .glob = pair->glob,
					 .hash = hash_of(pair->folded),
					 .allow = m->allow };

	if (s->request->query != NULL && !s->parameters.is_read)
		read_query(s, NULL, &s->parameters);
	return fits_parameter(&w, &s->parameters, s);
}

/* ---- methods */

/* Frameworks take the method from a parameter with this name, so both methods must fit the rule.
 * Some servers read methods without case. A rule that denies does, too. */
static bool fits_method(const struct policy_match *m, struct policy_seen *s)
{
	const struct policy_wanted w = { .name = method_name,
					 .folded = method_name,
					 .words = m->methods,
					 .nwords = m->nmethods,
					 .hash = hash_of(method_name),
					 .allow = m->allow };
	bool fits = m->nmethods == 0;

	for (size_t i = 0; i < m->nmethods && !fits; i++)
		fits = (m->allow ? strcmp : strcasecmp)(m->methods[i], s->request->method) == 0;
	if (m->nmethods == 0 || !s->overridden || fits != m->allow)
		return fits;
	return fits_parameter(&w, &s->methods, s);
}

void policy_request_see(const struct policy_request *q, struct policy_seen *ret)
{
	*ret = (struct policy_seen){ .request = q };
	load_head(q->path, strnlen(q->path, sizeof(ret->head)), ret->head);
	if (q->query == NULL)
		return;
	ret->has_semicolon = strchr(q->query, ';') != NULL;
	read_query(ret, method_name, &ret->methods);
	ret->overridden = ret->methods.n > 0 || ret->methods.why != NULL;
}

static void forget_items(struct policy_items *items)
{
	free(items->at);
	free(items->text);
}

void policy_request_forget(struct policy_seen *s)
{
	forget_items(&s->parameters);
	forget_items(&s->methods);
	free(s->loose);
}

/* ---- headers */

/* Compare each element of a list, unless the pattern is about the whole value. */
static bool fits_value(const struct policy_match *m, const char *glob, const struct http1_header *h,
		       struct policy_seen *s)
{
	const char *p = h->value.n > 0 ? h->value.p : "", *end = p + h->value.n;
	bool whole, any = false, all = true;

	if (!policy_request_spend(s, glob_work(glob, h->value.n)))
		return !m->allow;
	whole = glob_fits(glob, p, h->value.n, false);
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
			bool fits;

			if (!policy_request_spend(s, glob_work(glob, (size_t)(stop - p))))
				return !m->allow;
			fits = glob_fits(glob, p, (size_t)(stop - p), false);
			any |= fits;
			all &= fits;
		}
		p = next < end ? next + 1 : end;
	}
	return m->allow ? all && (any || whole) : any || whole;
}

/* If a name occurs several times, a rule that allows must match each. Names that a server may
 * confuse with this one count, too, but the exact name must be present. */
static bool fits_header(const struct policy_match *m, const struct policy_pair *pair,
			struct policy_seen *s)
{
	const struct policy_request *q = s->request;
	size_t exact = 0;

	if (!policy_request_spend(s, 1 + q->nheaders / 8))
		return !m->allow;
	for (size_t i = 0; i < q->nheaders; i++) {
		const struct http1_header *h = &q->headers[i];

		if (!fold_same_header(h->name, pair->name))
			continue;
		exact += http1_span_is_nocase(h->name, pair->name);
		if (fits_value(m, pair->glob, h, s) != m->allow)
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
	if (!fits_method(m, s) || !fits_path(m, s))
		return false;
	for (size_t i = 0; i < m->nquery; i++)
		if (!fits_pair(m, &m->query[i], s))
			return false;
	for (size_t i = 0; i < m->nheaders; i++)
		if (!fits_header(m, &m->headers[i], s))
			return false;
	return true;
}
