/* lock_npm.c - reads package-lock.json and npm-shrinkwrap.json: "packages" of versions 2 and 3,
 * with one entry for each place in node_modules, or "dependencies" of version 1, nested. One walk
 * reads all entries, whatever their depth, a value at a time. */
#include <string.h>

#include "lib/json/json_read.h"
#include "lib/packages/lock_out.h"

#define DEPTH_MAX 128 /* of the document. Each level of nested dependencies takes two */

/* One entry, with its members as written. */
struct lock_npm_entry {
	struct json_value key, name, version, resolved, integrity;
	bool skip; /* a link, or a part of another package */
	unsigned line;
};

struct npm {
	struct lock_out *o;
	const char *at; /* the byte whose line is `line` */
	unsigned line;
	const char *p, *end; /* the walk over the entries */
	bool nested;	     /* reading "dependencies" of version 1 */
	enum { AT_ENTRY, AT_MEMBER, BEHIND_ENTRY, AT_END } state;
	unsigned skipped;		       /* brackets of a skipped value */
	unsigned depth;			       /* entries around this one */
	struct lock_npm_entry open[DEPTH_MAX]; /* this one, and those around it */
};

struct lock_npm_text {
	const char *p;
	size_t n;
};

/* The line of a byte. Entries are read in order, so lines are counted once. */
static unsigned line_of(struct npm *r, const char *p)
{
	for (; r->at < p; r->at++)
		r->line += *r->at == '\n';
	return r->line;
}

/* Read a text without escapes. Names, versions and digests have nothing to escape. */
static int take_text(struct npm *r, struct json_value v, struct lock_npm_text *ret)
{
	if (v.kind != JSON_READ_TEXT || memchr(v.p, '\\', v.n) != NULL)
		return lock_fail(r->o, line_of(r, v.p), "a text without escapes must stand here");
	*ret = (struct lock_npm_text){ v.p + 1, v.n - 2 };
	return 0;
}

static bool starts_with(struct lock_npm_text t, const char *start)
{
	return t.n >= strlen(start) && memcmp(t.p, start, strlen(start)) == 0;
}

/* Is it a place instead of a version: a directory, a repository, a URL? */
static bool is_place(struct lock_npm_text version)
{
	return memchr(version.p, ':', version.n) != NULL && !starts_with(version, "npm:");
}

/* Read "npm:NAME@VERSION", an alias: the package has another name than its entry. */
static int take_alias(struct npm *r, unsigned line, struct lock_npm_text t)
{
	const char *at = memrchr(t.p, '@', t.n);

	if (at == NULL || at < t.p + 5)
		return lock_fail(r->o, line, "an alias without a version");
	if (lock_name(r->o, line, t.p + 4, (size_t)(at - t.p) - 4) < 0)
		return -1;
	return lock_version(r->o, line, at + 1, t.n - (size_t)(at + 1 - t.p));
}

static int take_version(struct npm *r, unsigned line, struct json_value v)
{
	struct lock_npm_text t = { "", 0 };

	if (v.kind == JSON_READ_NONE) {
		lock_skip(r->o);
		return 0;
	}
	if (take_text(r, v, &t) < 0)
		return -1;
	if (is_place(t)) {
		lock_skip(r->o);
		return 0;
	}
	return starts_with(t, "npm:") ? take_alias(r, line, t) : lock_version(r->o, line, t.p, t.n);
}

/* Does the entry come from a registry? Without a URL it does: npm can be told to leave registries
 * out of lockfiles. */
static bool is_of_registry(struct npm *r, struct json_value resolved)
{
	return resolved.kind == JSON_READ_NONE ||
	       (resolved.kind == JSON_READ_TEXT &&
		lock_is_registry_url(r->o, resolved.p + 1, resolved.n - 2));
}

/* An entry without a digest counts only if it comes from a registry. */
static int take_rest(struct npm *r, const struct lock_npm_entry *x)
{
	struct lock_npm_text t = { "", 0 };

	if (x->skip)
		lock_skip(r->o);
	if (x->resolved.kind == JSON_READ_TEXT && take_text(r, x->resolved, &t) == 0 &&
	    (starts_with(t, "git") || starts_with(t, "file:")))
		lock_skip(r->o);
	if (take_version(r, x->line, x->version) < 0)
		return -1;
	if (x->integrity.kind == JSON_READ_NONE) {
		if (!is_of_registry(r, x->resolved))
			lock_skip(r->o);
		return 0;
	}
	return take_text(r, x->integrity, &t) < 0 ? -1 : lock_sri(r->o, x->line, t.p, t.n);
}

/* "node_modules/a/node_modules/@s/b" has the name "@s/b". False: a directory of the project. */
static bool name_of_place(struct lock_npm_text *t)
{
	static const char dir[] = "node_modules/";
	const size_t n = sizeof(dir) - 1;

	for (size_t i = t->n; i >= n; i--)
		if (memcmp(t->p + i - n, dir, n) == 0 && (i == n || t->p[i - n - 1] == '/')) {
			*t = (struct lock_npm_text){ t->p + i, t->n - i };
			return true;
		}
	return false;
}

/* Take an entry after it was read whole. With "dependencies", nested entries come before the outer
 * one. */
static int take_entry(struct npm *r, const struct lock_npm_entry *x)
{
	struct lock_npm_text t = { "", 0 };

	if (take_text(r, x->key, &t) < 0)
		return -1;
	if (!r->nested) {
		if (!name_of_place(&t))
			return 0;
		if (x->name.kind != JSON_READ_NONE && take_text(r, x->name, &t) < 0)
			return -1;
	}
	if (lock_begin(r->o, ECO_NPM, x->line) < 0 || lock_name(r->o, x->line, t.p, t.n) < 0)
		return -1;
	return take_rest(r, x);
}

static void lock_npm_next(struct npm *r, struct json_value *ret)
{
	if (!json_read_step(&r->p, r->end, ret))
		*ret = (struct json_value){ 0 };
}

static bool lock_npm_opens(struct json_value v)
{
	return v.kind == JSON_READ_OBJECT || v.kind == JSON_READ_ARRAY;
}

/* Keep a member of interest. The first of equal names counts. */
static void take_member(struct lock_npm_entry *x, struct json_value key, struct json_value v)
{
	struct {
		const char *name;
		struct json_value *to;
	} const members[] = { { "name", &x->name },
			      { "version", &x->version },
			      { "resolved", &x->resolved },
			      { "integrity", &x->integrity } };

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		if (members[i].to->kind == JSON_READ_NONE && json_read_is(key, members[i].name))
			*members[i].to = v;
	x->skip |= v.kind == JSON_READ_TRUE &&
		   (json_read_is(key, "link") || json_read_is(key, "inBundle") ||
		    json_read_is(key, "bundled"));
}

/* Behind the opening bracket of the entries, or behind an entry. */
static void read_entry(struct npm *r)
{
	struct lock_npm_entry *x = &r->open[r->depth];
	struct json_value v;

	*x = (struct lock_npm_entry){ 0 };
	lock_npm_next(r, &x->key);
	if (x->key.kind == JSON_READ_NONE) {
		/* The object was a member of the entry around it. */
		r->state = r->depth == 0 ? AT_END : AT_MEMBER;
		r->depth -= r->depth > 0;
		return;
	}
	x->line = line_of(r, x->key.p);
	lock_npm_next(r, &v);
	r->state = v.kind == JSON_READ_OBJECT ? AT_MEMBER : BEHIND_ENTRY;
	r->skipped = v.kind == JSON_READ_ARRAY;
}

/* Read an entry's member. The document's depth bounds that of the entries. */
static void read_member(struct npm *r)
{
	struct lock_npm_entry *x = &r->open[r->depth];
	struct json_value key, v;

	lock_npm_next(r, &key);
	if (key.kind == JSON_READ_NONE) {
		r->state = BEHIND_ENTRY;
		return;
	}
	lock_npm_next(r, &v);
	take_member(x, key, v);
	if (r->nested && v.kind == JSON_READ_OBJECT && json_read_is(key, "dependencies") &&
	    r->depth + 1 < DEPTH_MAX) {
		r->depth++;
		r->state = AT_ENTRY;
	} else {
		r->skipped = lock_npm_opens(v);
	}
}

/* Move towards the bracket that closes the container opened last. */
static void skip_value(struct npm *r)
{
	struct json_value v;

	lock_npm_next(r, &v);
	r->skipped += lock_npm_opens(v);
	r->skipped -= v.kind == JSON_READ_NONE;
}

static int lock_npm_step(struct lock_out *o)
{
	struct npm *r = o->state;

	if (r->skipped > 0) {
		skip_value(r);
	} else if (r->state == AT_ENTRY) {
		read_entry(r);
	} else if (r->state == AT_MEMBER) {
		read_member(r);
	} else if (r->state == BEHIND_ENTRY) {
		r->state = AT_ENTRY;
		if (take_entry(r, &r->open[r->depth]) < 0)
			return -1;
	}
	if (r->p != NULL)
		o->at = r->p;
	return r->state != AT_END;
}

static int lock_npm_begin(struct lock_out *o)
{
	struct npm *r = o->state;
	struct json_value all, entries;

	*r = (struct npm){ .o = o, .at = o->text, .line = 1, .state = AT_END };
	if (json_read(o->text, (size_t)(o->end - o->text), DEPTH_MAX, &all, o->e) < 0)
		return err_wrap(o->e, "%.60s", o->file);
	if (json_read_member(all, "lockfileVersion").kind != JSON_READ_NUMBER)
		return lock_fail(o, 1, "there is no lockfileVersion");
	entries = json_read_member(all, "packages");
	if (entries.kind != JSON_READ_OBJECT) {
		entries = json_read_member(all, "dependencies");
		r->nested = true;
	}
	if (entries.kind != JSON_READ_OBJECT)
		return 0;
	r->p = entries.p + 1;
	r->end = entries.p + entries.n;
	r->state = AT_ENTRY;
	return 0;
}

const struct lock_format lock_npm = { .start = "package-lock.json",
				      .end = "",
				      .state = sizeof(struct npm),
				      .begin = lock_npm_begin,
				      .step = lock_npm_step };
const struct lock_format lock_shrinkwrap = { .start = "npm-shrinkwrap.json",
					     .end = "",
					     .state = sizeof(struct npm),
					     .begin = lock_npm_begin,
					     .step = lock_npm_step };
