/* policy_request.c - theory of operation
 *
 * Does a request fit what a rule says of methods, paths, query and headers? Where a name is there
 * several times, servers differ in which one counts: a rule that allows fits only if all do, a rule
 * that denies fits if any does. A rule that denies also sees the path as a lenient server would:
 * slashes merged, escaped ones undone, parameters behind ';' gone. */
#include "policy_inside.h"

#include <string.h>
#include <strings.h>

#include "glob.h"
#include "path.h"
#include "url.h"

static bool fits_method(const struct policy_match *m, const char *method)
{
	for (size_t i = 0; i < m->nmethods; i++)
		if (strcmp(m->methods[i], method) == 0)
			return true;
	return m->nmethods == 0;
}

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

void policy_request_see(const struct policy_request *q, struct policy_seen *ret)
{
	ret->request = q;
	load_head(q->path, strnlen(q->path, sizeof(ret->head)), ret->head);
}

static bool fits_one_path(const struct policy_match *m, const char *path,
			  const uint64_t head[POLICY_HEAD_WORDS])
{
	for (size_t i = 0; i < m->npaths; i++) {
		const struct policy_path *p = &m->paths[i];
		uint64_t differs = 0;

		for (size_t w = 0; w < POLICY_HEAD_WORDS; w++)
			differs |= (head[w] & p->mask[w]) ^ p->want[w];
		if (differs == 0 && path_fits(p->text, path))
			return true;
	}
	return m->npaths == 0;
}

/* At p: an escape that lenient servers undo before they look for segments; 0: none. */
static char undone(const char *p)
{
	if (strncmp(p, "%2F", 3) == 0)
		return '/';
	if (strncmp(p, "%2B", 3) == 0)
		return '+';
	return strncmp(p, "%3B", 3) == 0 ? ';' : '\0';
}

static void loosen(const char *path, char *ret, size_t cap)
{
	bool parameters = false;
	size_t n = 0;

	while (*path != '\0' && n + 1 < cap) {
		char c = undone(path);

		path += c != '\0' ? 3 : 1;
		if (c == '\0')
			c = path[-1];
		if (c == '/')
			parameters = false;
		parameters |= c == ';';
		if (!parameters && (c != '/' || n == 0 || ret[n - 1] != '/'))
			ret[n++] = c;
	}
	ret[n] = '\0';
}

/* Both have large buffers, which who does not need them should not pay for. */
#define APART __attribute__((noinline))

static APART bool fits_path_loosely(const struct policy_match *m, const char *path)
{
	char loose[PATH_NORMAL_MAX];
	uint64_t head[POLICY_HEAD_WORDS];

	loosen(path, loose, sizeof(loose));
	load_head(loose, strnlen(loose, sizeof(head)), head);
	return fits_one_path(m, loose, head);
}

static bool fits_path(const struct policy_match *m, const struct policy_seen *s)
{
	const char *path = s->request->path;

	if (m->npaths == 0 || fits_one_path(m, path, s->head))
		return true;
	return !m->allow && (strpbrk(path, "%;") != NULL || strstr(path, "//") != NULL) &&
	       fits_path_loosely(m, path);
}

/* What is left of several values: 1 all fit, 0 some do not. */
struct tally {
	size_t fit, all;
};

static bool tally_says(const struct policy_match *m, struct tally t)
{
	return m->allow ? t.all > 0 && t.fit == t.all : t.fit > 0;
}

/* Of one name. There may be thousands of them and of rules, and each value is read for each rule.
 */
#define VALUES_MAX 256

/* As it is sent: without an escape it is as long as what it stands for. */
static bool may_be(struct http1_span name, const char *wanted)
{
	return name.n == strlen(wanted) ||
	       (name.n > 0 && (memchr(name.p, '%', name.n) || memchr(name.p, '+', name.n)));
}

static APART bool fits_parameter(const struct policy_match *m, const struct policy_pair *pair,
				 const char *query)
{
	struct http1_span rest = { query, query == NULL ? 0 : strlen(query) }, name, value;
	char text[PATH_NORMAL_MAX];
	size_t all = 0;

	while (url_query_next(&rest, &name, &value)) {
		bool fits;
		int n;

		if (!may_be(name, pair->name))
			continue;
		n = url_decode_form(name, text, sizeof(text));
		if (n >= 0 && strcmp(text, pair->name) != 0)
			continue;
		if (n >= 0)
			n = url_decode_form(value, text, sizeof(text));
		/* What cannot be known is never in favour. */
		fits = n < 0 || all++ == VALUES_MAX ? !m->allow
						    : glob_fits(pair->glob, text, (size_t)n, false);
		if (fits != m->allow) /* one that does not fit, or does, is enough */
			return fits;
	}
	return m->allow && all > 0;
}

static bool fits_header(const struct policy_match *m, const struct policy_pair *pair,
			const struct policy_request *q)
{
	struct tally t = { 0 };

	for (size_t i = 0; i < q->nheaders; i++) {
		const struct http1_header *h = &q->headers[i];

		if (!http1_span_is_nocase(h->name, pair->name))
			continue;
		t.all++;
		t.fit += glob_fits(pair->glob, h->value.n > 0 ? h->value.p : "", h->value.n, false);
	}
	return tally_says(m, t);
}

bool policy_request_fits(const struct policy_match *m, const struct policy_seen *s)
{
	const struct policy_request *q = s->request;

	if (!fits_method(m, q->method) || !fits_path(m, s))
		return false;
	for (size_t i = 0; i < m->nquery; i++)
		if (!fits_parameter(m, &m->query[i], q->query))
			return false;
	for (size_t i = 0; i < m->nheaders; i++)
		if (!fits_header(m, &m->headers[i], q))
			return false;
	return true;
}
