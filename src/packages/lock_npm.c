/* lock_npm.c - package-lock.json and npm-shrinkwrap.json: "packages" of versions 2 and 3, with one
 * entry for each place in node_modules, or "dependencies" of version 1, nested. The entries are
 * walked over once, whatever their depth. */
#include <string.h>

#include "json_read.h"
#include "lock_out.h"

#define DEPTH_MAX 128 /* of the document; each level of nested dependencies has two */

struct npm {
	struct lock_out *o;
	const char *at; /* the line of this byte is `line` */
	unsigned line;
	const char *p, *end; /* the walk over the entries */
	bool nested;	     /* "dependencies" of version 1 */
};

/* One entry; its members are what stands in the text. */
struct entry {
	struct json_value key, name, version, resolved, integrity;
	bool skip; /* a link, or a part of another package */
	unsigned line;
};

struct text {
	const char *p;
	size_t n;
};

/* Entries are read in order, so lines are counted once. */
static unsigned line_of(struct npm *r, const char *p)
{
	for (; r->at < p; r->at++)
		r->line += *r->at == '\n';
	return r->line;
}

/* Names, versions and digests have nothing to escape. */
static int take_text(struct npm *r, struct json_value v, struct text *ret)
{
	if (v.kind != JSON_READ_TEXT || memchr(v.p, '\\', v.n) != NULL)
		return lock_fail(r->o, line_of(r, v.p), "a text without escapes must stand here");
	*ret = (struct text){ v.p + 1, v.n - 2 };
	return 0;
}

static bool starts_with(struct text t, const char *start)
{
	return t.n >= strlen(start) && memcmp(t.p, start, strlen(start)) == 0;
}

/* Not a version but a place: a directory, a repository, a URL. */
static bool is_place(struct text version)
{
	return memchr(version.p, ':', version.n) != NULL && !starts_with(version, "npm:");
}

/* "npm:NAME@VERSION": another name than the one of the entry. */
static int take_alias(struct npm *r, unsigned line, struct text t)
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
	struct text t = { "", 0 };

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

/* Registries that npm was told to leave out of lockfiles have no URL. */
static bool is_of_registry(struct npm *r, struct json_value resolved)
{
	return resolved.kind == JSON_READ_NONE ||
	       (resolved.kind == JSON_READ_TEXT &&
		lock_is_registry_url(r->o, resolved.p + 1, resolved.n - 2));
}

static int take_rest(struct npm *r, const struct entry *x)
{
	struct text t = { "", 0 };

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

/* The name of "node_modules/a/node_modules/@s/b" is "@s/b"; false: a directory of the project. */
static bool name_of_place(struct text *t)
{
	static const char dir[] = "node_modules/";
	const size_t n = sizeof(dir) - 1;

	for (size_t i = t->n; i >= n; i--)
		if (memcmp(t->p + i - n, dir, n) == 0 && (i == n || t->p[i - n - 1] == '/')) {
			*t = (struct text){ t->p + i, t->n - i };
			return true;
		}
	return false;
}

/* An entry that was read whole. Those of "dependencies" come behind the ones that stand in them. */
static int take_entry(struct npm *r, const struct entry *x)
{
	struct text t = { "", 0 };

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

static void next(struct npm *r, struct json_value *ret)
{
	if (!json_read_step(&r->p, r->end, ret))
		*ret = (struct json_value){ 0 };
}

static bool opens(struct json_value v)
{
	return v.kind == JSON_READ_OBJECT || v.kind == JSON_READ_ARRAY;
}

/* Behind the bracket that closes what was opened last. */
static void skip_rest(struct npm *r)
{
	struct json_value v;

	for (unsigned depth = 1; depth > 0;) {
		next(r, &v);
		depth += opens(v);
		depth -= v.kind == JSON_READ_NONE;
	}
}

/* Of members with the same name the first one counts. */
static void take_member(struct entry *x, struct json_value key, struct json_value v)
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

static int read_entries(struct npm *r);

/* The members of an entry, behind its bracket. */
static int read_members(struct npm *r, struct entry *x)
{
	for (;;) {
		struct json_value key, v;

		next(r, &key);
		if (key.kind == JSON_READ_NONE)
			return 0;
		next(r, &v);
		take_member(x, key, v);
		if (r->nested && v.kind == JSON_READ_OBJECT && json_read_is(key, "dependencies")) {
			if (read_entries(r) < 0)
				return -1;
		} else if (opens(v)) {
			skip_rest(r);
		}
	}
}

/* The entries of an object, behind its bracket. The depth of the document bounds the recursion. */
static int read_entries(struct npm *r)
{
	for (;;) {
		struct entry x = { 0 };
		struct json_value v;

		next(r, &x.key);
		if (x.key.kind == JSON_READ_NONE)
			return 0;
		x.line = line_of(r, x.key.p);
		next(r, &v);
		if (v.kind == JSON_READ_OBJECT && read_members(r, &x) < 0)
			return -1;
		if (v.kind == JSON_READ_ARRAY)
			skip_rest(r);
		if (take_entry(r, &x) < 0)
			return -1;
	}
}

int lock_read_npm(struct lock_out *o, const char *text, size_t len)
{
	struct npm r = { .o = o, .at = text, .line = 1 };
	struct json_value all, entries;

	if (json_read(text, len, DEPTH_MAX, &all, o->e) < 0)
		return err_wrap(o->e, "%.60s", o->file);
	if (json_read_member(all, "lockfileVersion").kind != JSON_READ_NUMBER)
		return lock_fail(o, 1, "there is no lockfileVersion");
	entries = json_read_member(all, "packages");
	if (entries.kind != JSON_READ_OBJECT) {
		entries = json_read_member(all, "dependencies");
		r.nested = true;
	}
	if (entries.kind != JSON_READ_OBJECT)
		return 0;
	r.p = entries.p + 1;
	r.end = entries.p + entries.n;
	return read_entries(&r);
}
