/* lock_pnpm.c - reads pnpm-lock.yaml, lockfileVersion 5 to 9. It understands the part of YAML that
 * pnpm writes: sections at the margin, entries of "packages" at two spaces, their members at four,
 * "resolution" in braces or at six. The key of an entry has name and version:
 * 	5	/NAME/VERSION_PEERS
 * 	6	/NAME@VERSION(PEERS)
 * 	9	NAME@VERSION */
#include <string.h>

#include "lib/packages/lock_out.h"
#include "lib/packages/package_chars.h"

struct pnpm {
	struct lock_out *o;
	unsigned line;
	bool packages, resolution, slashes; /* slashes: version 5 */
};

struct lock_pnpm_text {
	const char *p;
	size_t n;
};

static bool lock_pnpm_is(struct lock_pnpm_text t, const char *text)
{
	return t.n == strlen(text) && memcmp(t.p, text, t.n) == 0;
}

static struct lock_pnpm_text lock_pnpm_unquoted(struct lock_pnpm_text t)
{
	if (t.n >= 2 && (t.p[0] == '\'' || t.p[0] == '"') && t.p[t.n - 1] == t.p[0])
		return (struct lock_pnpm_text){ t.p + 1, t.n - 2 };
	return t;
}

static struct lock_pnpm_text without_blanks(struct lock_pnpm_text t)
{
	size_t n = 0;

	while (n < t.n && t.p[n] == ' ')
		n++;
	return (struct lock_pnpm_text){ t.p + n, t.n - n };
}

/* Find the version: behind the last '@' that does not begin a scope, in version 5 behind the last
 * slash. 0: the key is a URL or a directory. */
static size_t version_at(struct lock_pnpm_text t, bool slashes)
{
	size_t found = 0;

	for (size_t i = 1; i + 1 < t.n; i++) {
		if (t.p[i] == '(' || (slashes && t.p[i] == '_' && found != 0))
			break;
		if (t.p[i] == (slashes ? '/' : '@'))
			found = i + 1;
	}
	return found;
}

/* The length of the version, without the peers behind it. */
static size_t version_length(struct lock_pnpm_text t, bool slashes)
{
	size_t n = 0;

	while (n < t.n && t.p[n] != '(' && !(slashes && t.p[n] == '_'))
		n++;
	return n;
}

static bool is_version(struct lock_pnpm_text t)
{
	return t.n > 0 && package_is_digit(t.p[0]) && memchr(t.p, ':', t.n) == NULL &&
	       memchr(t.p, '/', t.n) == NULL;
}

/* A key without a version (a URL or directory) is no pin. */
static int take_key(struct pnpm *r, struct lock_pnpm_text t)
{
	struct lock_pnpm_text version;
	size_t at;

	if (t.n > 0 && t.p[0] == '/')
		t = (struct lock_pnpm_text){ t.p + 1, t.n - 1 };
	at = version_at(t, r->slashes);
	version = (struct lock_pnpm_text){ t.p + at, t.n - at };
	version.n = version_length(version, r->slashes);
	if (at == 0 || !is_version(version)) {
		lock_skip(r->o);
		return 0;
	}
	if (lock_name(r->o, r->line, t.p, at - 1) < 0)
		return -1;
	return lock_version(r->o, r->line, version.p, version.n);
}

static int begin_entry(struct pnpm *r, struct lock_pnpm_text t)
{
	const char *colon = memrchr(t.p, ':', t.n);

	r->resolution = false;
	if (colon == NULL)
		return lock_fail(r->o, r->line, "an entry must have a colon");
	if (lock_begin(r->o, ECO_NPM, r->line) < 0)
		return -1;
	return take_key(r,
			lock_pnpm_unquoted((struct lock_pnpm_text){ t.p, (size_t)(colon - t.p) }));
}

/* Read one "key: value" of the resolution. */
static int take_part(struct pnpm *r, struct lock_pnpm_text t)
{
	const char *colon = memchr(t.p, ':', t.n);
	struct lock_pnpm_text key = { t.p, colon == NULL ? 0 : (size_t)(colon - t.p) }, value;

	if (colon == NULL)
		return 0;
	value = (struct lock_pnpm_text){ colon + 1, t.n - key.n - 1 };
	value = lock_pnpm_unquoted(without_blanks(value));
	if (lock_pnpm_is(key, "integrity"))
		return lock_sri(r->o, r->line, value.p, value.n);
	if (lock_pnpm_is(key, "directory") || lock_pnpm_is(key, "repo") ||
	    lock_pnpm_is(key, "commit"))
		lock_skip(r->o);
	return 0;
}

/* Read "{integrity: sha512-..., tarball: https://...}". */
static int take_braces(struct pnpm *r, struct lock_pnpm_text t)
{
	if (t.p[t.n - 1] != '}')
		return lock_fail(r->o, r->line, "a brace is not closed");
	t = (struct lock_pnpm_text){ t.p + 1, t.n - 2 };
	while (t.n > 0) {
		const char *comma = memchr(t.p, ',', t.n);
		size_t n = comma == NULL ? t.n : (size_t)(comma - t.p);

		if (take_part(r, without_blanks((struct lock_pnpm_text){ t.p, n })) < 0)
			return -1;
		n += comma != NULL;
		t = (struct lock_pnpm_text){ t.p + n, t.n - n };
	}
	return 0;
}

/* Only the resolution counts. "name:" and "version:" occur beside resolutions outside the
 * registry. */
static int read_member(struct pnpm *r, struct lock_pnpm_text t)
{
	static const char key[] = "resolution:";
	const size_t n = sizeof(key) - 1;

	r->resolution = false;
	if (t.n < n || memcmp(t.p, key, n) != 0)
		return 0;
	if (t.n == n) {
		r->resolution = true;
		return 0;
	}
	if (t.n < n + 3 || t.p[n] != ' ' || t.p[n + 1] != '{')
		return lock_fail(r->o, r->line, "a resolution must stand in braces");
	return take_braces(r, (struct lock_pnpm_text){ t.p + n + 1, t.n - n - 1 });
}

static int read_line(struct pnpm *r, struct lock_pnpm_text t)
{
	size_t indent = 0;

	while (indent < t.n && t.p[indent] == ' ')
		indent++;
	t = (struct lock_pnpm_text){ t.p + indent, t.n - indent };
	if (t.n == 0 || t.p[0] == '#')
		return 0;
	if (indent == 0) {
		r->packages = lock_pnpm_is(t, "packages:");
		return lock_end(r->o);
	}
	if (!r->packages)
		return 0;
	if (indent == 2)
		return begin_entry(r, t);
	if (indent == 4)
		return read_member(r, t);
	return indent == 6 && r->resolution ? take_part(r, t) : 0;
}

/* Read "lockfileVersion: 5.4" or "lockfileVersion: '9.0'". */
static int read_format(struct pnpm *r, const char *text, size_t len)
{
	static const char key[] = "lockfileVersion:";
	const char *p = memmem(text, len, key, sizeof(key) - 1), *end = text + len;

	if (p == NULL)
		return lock_fail(r->o, 1, "there is no lockfileVersion");
	p += sizeof(key) - 1;
	while (p < end && (*p == ' ' || *p == '\'' || *p == '"'))
		p++;
	if (p == end || *p < '5' || *p > '9')
		return lock_fail(r->o, 1, "this lockfileVersion is not known");
	r->slashes = *p == '5';
	return 0;
}

static int lock_pnpm_begin(struct lock_out *o)
{
	struct pnpm *r = o->state;

	r->o = o;
	return read_format(r, o->text, (size_t)(o->end - o->text));
}

static int on_line(struct lock_out *o)
{
	struct pnpm *r = o->state;

	r->line = o->lines.line;
	return read_line(r, (struct lock_pnpm_text){ o->lines.p, o->lines.n });
}

const struct lock_format lock_pnpm = { .start = "pnpm-lock.yaml",
				       .end = "",
				       .state = sizeof(struct pnpm),
				       .begin = lock_pnpm_begin,
				       .line = on_line };
