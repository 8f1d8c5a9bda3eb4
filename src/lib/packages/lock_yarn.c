/* lock_yarn.c - reads yarn.lock of version 1 and of later versions (YAML with the same shape):
 * entries at the margin, their members below.
 *
 * Later versions have "resolution: NAME@npm:VERSION" and a checksum of an archive that yarn itself
 * makes. It is no digest of the registry's file, so only name and version are taken. */
#include <string.h>

#include "lib/packages/lock_out.h"

struct yarn {
	struct lock_out *o;
	bool later;
	bool of_registry; /* "resolved" is a file of the registry */
	unsigned line;
};

struct lock_yarn_text {
	const char *p;
	size_t n;
};

static bool starts_with(struct lock_yarn_text t, const char *start)
{
	return t.n >= strlen(start) && memcmp(t.p, start, strlen(start)) == 0;
}

static struct lock_yarn_text lock_yarn_unquoted(struct lock_yarn_text t)
{
	if (t.n >= 2 && t.p[0] == '"' && t.p[t.n - 1] == '"')
		return (struct lock_yarn_text){ t.p + 1, t.n - 2 };
	return t;
}

/* The second '@' of "NAME@RANGE". */
static const char *range_of(struct lock_yarn_text t)
{
	return t.n < 2 ? NULL : memchr(t.p + 1, '@', t.n - 1);
}

/* Read the first pattern of an entry. All patterns have the same package. "ALIAS@npm:NAME@RANGE" is
 * the package NAME. */
static int take_pattern(struct yarn *r, struct lock_yarn_text t)
{
	const char *at, *comma = memchr(t.p, ',', t.n);

	if (comma != NULL)
		t.n = (size_t)(comma - t.p);
	/* A range may have a comma itself, so the pattern may end before its quote. */
	if (t.n > 0 && t.p[0] == '"')
		t = (struct lock_yarn_text){ t.p + 1, t.n - 1 };
	if (t.n > 0 && t.p[t.n - 1] == '"')
		t.n--;
	at = range_of(t);
	if (at == NULL)
		return lock_fail(r->o, r->line, "an entry without a range");
	if (starts_with((struct lock_yarn_text){ at + 1, t.n - (size_t)(at + 1 - t.p) }, "npm:") &&
	    range_of((struct lock_yarn_text){ at + 5, t.n - (size_t)(at + 5 - t.p) }) != NULL) {
		t = (struct lock_yarn_text){ at + 5, t.n - (size_t)(at + 5 - t.p) };
		at = range_of(t);
	}
	return lock_name(r->o, r->line, t.p, (size_t)(at - t.p));
}

/* End an entry. In version 1, an entry without a digest is a pin only if it comes from the
 * registry. */
static int end_entry(struct yarn *r)
{
	if (!r->later && r->o->ndigests == 0 && !r->of_registry && r->o->version[0] != '\0')
		lock_skip(r->o);
	return lock_end(r->o);
}

static int begin_entry(struct yarn *r, struct lock_yarn_text t)
{
	if (t.p[t.n - 1] != ':')
		return lock_fail(r->o, r->line, "an entry must end with a colon");
	t.n--;
	if (end_entry(r) < 0)
		return -1;
	if (starts_with(t, "__metadata")) {
		r->later = true;
		return 0;
	}
	if (lock_begin(r->o, ECO_NPM, r->line) < 0)
		return -1;
	r->of_registry = false;
	return r->later ? 0 : take_pattern(r, t);
}

/* Read "NAME@npm:VERSION", perhaps with "::" and parameters. Other resolutions are directories and
 * repositories. */
static int take_resolution(struct yarn *r, struct lock_yarn_text t)
{
	const char *at = range_of(t), *end;
	size_t n;

	if (at == NULL ||
	    !starts_with((struct lock_yarn_text){ at + 1, t.n - (size_t)(at + 1 - t.p) }, "npm:")) {
		lock_skip(r->o);
		return 0;
	}
	if (lock_name(r->o, r->line, t.p, (size_t)(at - t.p)) < 0)
		return -1;
	at += 5;
	n = t.n - (size_t)(at - t.p);
	end = memchr(at, ':', n);
	return lock_version(r->o, r->line, at, end == NULL ? n : (size_t)(end - at));
}

/* Read "https://.../a-1.0.0.tgz#SHA1". */
static int take_resolved(struct yarn *r, struct lock_yarn_text t)
{
	const char *hash = memchr(t.p, '#', t.n);
	struct digest d;
	size_t n;

	if (!starts_with(t, "http")) {
		lock_skip(r->o);
		return 0;
	}
	r->of_registry = lock_is_registry_url(r->o, t.p, t.n);
	if (hash == NULL)
		return 0;
	n = t.n - (size_t)(hash + 1 - t.p);
	if (n != 2 * digest_size(DIGEST_SHA1) || !digest_read_hex(DIGEST_SHA1, hash + 1, n, &d))
		return 0;
	r->o->digests[0] = d; /* only if no integrity follows */
	r->o->ndigests = 1;
	return 0;
}

static int take_member(struct yarn *r, struct lock_yarn_text key, struct lock_yarn_text value)
{
	if (!r->later && key.n == 7 && starts_with(key, "version"))
		return lock_version(r->o, r->line, value.p, value.n);
	if (!r->later && key.n == 8 && starts_with(key, "resolved"))
		return take_resolved(r, value);
	if (!r->later && key.n == 9 && starts_with(key, "integrity")) {
		r->o->ndigests = 0;
		return lock_sri(r->o, r->line, value.p, value.n);
	}
	if (r->later && key.n == 10 && starts_with(key, "resolution"))
		return take_resolution(r, value);
	return 0;
}

/* Read "key value" of version 1, "key: value" of later versions. Deeper lines are dependency
 * lists. */
static int read_member(struct yarn *r, struct lock_yarn_text t)
{
	const char *space = memchr(t.p, ' ', t.n);
	struct lock_yarn_text key = { t.p, space == NULL ? t.n : (size_t)(space - t.p) };

	if (space == NULL || !r->o->open)
		return 0;
	if (r->later && key.n > 0 && key.p[key.n - 1] == ':')
		key.n--;
	return take_member(r, key,
			   lock_yarn_unquoted((struct lock_yarn_text){
				   space + 1, t.n - (size_t)(space + 1 - t.p) }));
}

static int lock_yarn_begin(struct lock_out *o)
{
	((struct yarn *)o->state)->o = o;
	return 0;
}

static int on_line(struct lock_out *o)
{
	const struct lock_lines *l = &o->lines;
	struct yarn *r = o->state;

	r->line = l->line;
	if (l->n == 0 || l->p[0] == '#')
		return 0;
	if (l->p[0] != ' ')
		return begin_entry(r, (struct lock_yarn_text){ l->p, l->n });
	if (l->n > 2 && l->p[1] == ' ' && l->p[2] != ' ')
		return read_member(r, (struct lock_yarn_text){ l->p + 2, l->n - 2 });
	return 0;
}

static int lock_yarn_finish(struct lock_out *o)
{
	return end_entry(o->state);
}

const struct lock_format lock_yarn = { .start = "yarn.lock",
				       .end = "",
				       .state = sizeof(struct yarn),
				       .begin = lock_yarn_begin,
				       .line = on_line,
				       .finish = lock_yarn_finish };
