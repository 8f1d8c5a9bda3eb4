/* lock_npm.c - package-lock.json and npm-shrinkwrap.json: "packages" of versions 2 and 3, with one
 * entry for each place in node_modules, or "dependencies" of version 1, nested. */
#include <string.h>

#include "json_read.h"
#include "lock_out.h"

#define DEPTH_MAX 128 /* of the document; each level of nested dependencies has two */

struct npm {
	struct lock_out *o;
	const char *at; /* the line of this byte is `line` */
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

static bool has_flag(struct json_value entry, const char *name)
{
	return json_read_member(entry, name).kind == JSON_READ_TRUE;
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

static int take_rest(struct npm *r, unsigned line, struct json_value entry)
{
	struct json_value integrity = json_read_member(entry, "integrity");
	struct json_value resolved = json_read_member(entry, "resolved");
	struct text t = { "", 0 };

	if (has_flag(entry, "link") || has_flag(entry, "inBundle") || has_flag(entry, "bundled"))
		lock_skip(r->o);
	if (resolved.kind == JSON_READ_TEXT && take_text(r, resolved, &t) == 0 &&
	    (starts_with(t, "git") || starts_with(t, "file:")))
		lock_skip(r->o);
	if (take_version(r, line, json_read_member(entry, "version")) < 0)
		return -1;
	if (integrity.kind == JSON_READ_NONE) {
		if (!is_of_registry(r, resolved))
			lock_skip(r->o);
		return 0;
	}
	return take_text(r, integrity, &t) < 0 ? -1 : lock_sri(r->o, line, t.p, t.n);
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

static int read_package(struct npm *r, struct json_value key, struct json_value entry)
{
	unsigned line = line_of(r, key.p);
	struct json_value own = json_read_member(entry, "name");
	struct text t = { "", 0 };

	if (take_text(r, key, &t) < 0)
		return -1;
	if (!name_of_place(&t))
		return 0;
	if (own.kind != JSON_READ_NONE && take_text(r, own, &t) < 0)
		return -1;
	if (lock_begin(r->o, ECO_NPM, line) < 0 || lock_name(r->o, line, t.p, t.n) < 0)
		return -1;
	return take_rest(r, line, entry);
}

static int read_packages(struct npm *r, struct json_value packages)
{
	struct json_value key, entry;
	const char *at = NULL;

	while (json_read_next(packages, &at, &key, &entry))
		if (read_package(r, key, entry) < 0)
			return -1;
	return 0;
}

/* The depth of the document bounds the recursion. */
static int read_dependencies(struct npm *r, struct json_value dependencies)
{
	struct json_value key, entry;
	const char *at = NULL;
	struct text t = { "", 0 };

	while (json_read_next(dependencies, &at, &key, &entry)) {
		unsigned line = line_of(r, key.p);

		if (take_text(r, key, &t) < 0 || lock_begin(r->o, ECO_NPM, line) < 0 ||
		    lock_name(r->o, line, t.p, t.n) < 0 || take_rest(r, line, entry) < 0)
			return -1;
		if (read_dependencies(r, json_read_member(entry, "dependencies")) < 0)
			return -1;
	}
	return 0;
}

int lock_read_npm(struct lock_out *o, const char *text, size_t len)
{
	struct npm r = { .o = o, .at = text, .line = 1 };
	struct json_value all, packages;

	if (json_read(text, len, DEPTH_MAX, &all, o->e) < 0)
		return err_wrap(o->e, "%.60s", o->file);
	if (json_read_member(all, "lockfileVersion").kind != JSON_READ_NUMBER)
		return lock_fail(o, 1, "there is no lockfileVersion");
	packages = json_read_member(all, "packages");
	if (packages.kind == JSON_READ_OBJECT)
		return read_packages(&r, packages);
	return read_dependencies(&r, json_read_member(all, "dependencies"));
}
