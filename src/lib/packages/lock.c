/* lock.c - selects the reader of a lockfile by its name, and builds the current pin for all
 * readers. */
#include "lib/packages/lock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/packages/lock_out.h"
#include "lib/packages/lock_toml.h"
#include "lib/packages/package_chars.h"

/* ---- reads Cargo.lock, versions 1 to 4. A package without a source is the project
 * itself. Version 1 has the checksums at its end: "checksum NAME VERSION (SOURCE)" = "HEX". */

static bool lock_cargo_starts_with(const struct toml_event *v, const char *start)
{
	return v->n >= strlen(start) && memcmp(v->p, start, strlen(start)) == 0;
}

static int lock_cargo_take_checksum(struct lock_out *o, const struct toml_event *v)
{
	return lock_hex(o, v->line, DIGEST_SHA256, v->p, v->n);
}

/* Read a checksum of version 1. The key is "checksum NAME VERSION (SOURCE)". */
static int lock_cargo_take_old(struct lock_out *o, const struct toml_event *v)
{
	static const char start[] = "checksum ";
	const char *name = v->key + sizeof(start) - 1, *version, *source;

	if (strncmp(v->key, start, sizeof(start) - 1) != 0 || lock_cargo_starts_with(v, "<none>"))
		return 0;
	version = strchr(name, ' ');
	source = version == NULL ? NULL : strchr(version + 1, ' ');
	if (source == NULL)
		return lock_fail(o, v->line, "a checksum without a version");
	if (lock_begin(o, ECO_CARGO, v->line) < 0 ||
	    lock_name(o, v->line, name, (size_t)(version - name)) < 0 ||
	    lock_version(o, v->line, version + 1, (size_t)(source - version - 1)) < 0 ||
	    lock_cargo_take_checksum(o, v) < 0)
		return -1;
	return lock_end(o);
}

/* An entry is skipped until its source turns out to be a registry. */
static int on_event(void *arg, const struct toml_event *v)
{
	struct lock_out *o = arg;

	if (v->kind != TOML_VALUE) {
		if (strcmp(v->table, "package") != 0)
			return lock_end(o);
		if (lock_begin(o, ECO_CARGO, v->line) < 0)
			return -1;
		lock_skip(o);
		return 0;
	}
	if (strcmp(v->table, "metadata") == 0)
		return lock_cargo_take_old(o, v);
	if (strcmp(v->table, "package") != 0)
		return 0;
	if (strcmp(v->key, "name") == 0)
		return lock_name(o, v->line, v->p, v->n);
	if (strcmp(v->key, "version") == 0)
		return lock_version(o, v->line, v->p, v->n);
	if (strcmp(v->key, "source") == 0)
		o->skip = !lock_cargo_starts_with(v, "registry+") &&
			  !lock_cargo_starts_with(v, "sparse+");
	return strcmp(v->key, "checksum") == 0 ? lock_cargo_take_checksum(o, v) : 0;
}

static int lock_cargo_begin(struct lock_out *o)
{
	o->need_digest = true; /* every package of a registry has one, version 1 at its end */
	toml_begin(o->state, o, on_event, o);
	return 0;
}

static int lock_cargo_step(struct lock_out *o)
{
	return toml_step(o->state);
}

const struct lock_format lock_cargo = { .start = "Cargo.lock",
					.end = "",
					.state = sizeof(struct toml),
					.begin = lock_cargo_begin,
					.step = lock_cargo_step };

/* ---- reads Gemfile.lock: CHECKSUMS, or without them the specs of GEM, with names and
 * versions only. "NAME (VERSION-PLATFORM) sha256=HEX": the digests of all platforms belong to the
 * pin of one version. */

struct lock_text {
	const char *p;
	size_t n;
};

static bool lock_gem_is(struct lock_text t, const char *text)
{
	return t.n == strlen(text) && memcmp(t.p, text, t.n) == 0;
}

/* Read "sha256=HEX,sha256=HEX". Each byte is read once, also in a line of blanks. */
static int lock_gem_read_digests(struct lock_out *o, unsigned line, struct lock_text t)
{
	while (t.n > 0) {
		size_t n = 0;

		while (n < t.n && t.p[n] != ' ' && t.p[n] != ',')
			n++;
		if (n > 0 && lock_digest(o, line, t.p, n) < 0)
			return -1;
		n += n < t.n;
		t = (struct lock_text){ t.p + n, t.n - n };
	}
	return 0;
}

/* Read "NAME (VERSION)" and the digests behind it. */
static int lock_gem_read_spec(struct lock_out *o, unsigned line, struct lock_text t)
{
	const char *open = memchr(t.p, ' ', t.n), *end = t.p + t.n, *close, *dash;

	if (open == NULL || end - open < 4 || open[1] != '(')
		return lock_fail(o, line, "an entry has a name and a version in brackets");
	close = memchr(open, ')', (size_t)(end - open));
	if (close == NULL)
		return lock_fail(o, line, "a bracket is not closed");
	dash = memchr(open, '-', (size_t)(close - open));
	if (lock_begin(o, ECO_GEM, line) < 0 || lock_name(o, line, t.p, (size_t)(open - t.p)) < 0 ||
	    lock_version(o, line, open + 2, (size_t)((dash == NULL ? close : dash) - open - 2)) < 0)
		return -1;
	return lock_gem_read_digests(o, line,
				     (struct lock_text){ close + 1, (size_t)(end - close - 1) });
}

struct gem {
	bool sums, inside;
};

/* CHECKSUMS comes behind GEM in the file, so it is looked for before the first line is read. */
static int lock_gem_begin(struct lock_out *o)
{
	struct gem *r = o->state;
	size_t len = (size_t)(o->end - o->text);

	r->sums = memmem(o->text, len, "\nCHECKSUMS\n", 11) != NULL ||
		  memmem(o->text, len, "\nCHECKSUMS\r\n", 12) != NULL;
	return 0;
}

/* Entries are indented by two blanks in CHECKSUMS, by four in GEM. Deeper lines are
 * dependencies. */
static int on_line(struct lock_out *o)
{
	struct gem *r = o->state;
	struct lock_text t = { o->lines.p, o->lines.n };
	size_t indent = r->sums ? 2 : 4, n = 0;

	while (n < t.n && t.p[n] == ' ')
		n++;
	if (n == 0 && t.n > 0)
		r->inside = lock_gem_is(t, r->sums ? "CHECKSUMS" : "GEM");
	else if (r->inside && n == indent && t.n > n)
		return lock_gem_read_spec(o, o->lines.line, (struct lock_text){ t.p + n, t.n - n });
	return 0;
}

const struct lock_format lock_gem = { .start = "Gemfile.lock",
				      .end = "",
				      .state = sizeof(struct gem),
				      .begin = lock_gem_begin,
				      .line = on_line };

/* ---- reads go.sum: "MODULE VERSION h1:BASE64" for the zip of a module, and
 * "VERSION/go.mod" for its go.mod alone, which does not allow the zip. */

static int lock_go_read_sum(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	static const char mod[] = "/go.mod";
	const char *space = memchr(p, ' ', n);
	const char *next =
		space == NULL ? NULL : memchr(space + 1, ' ', n - (size_t)(space + 1 - p));
	size_t version;

	if (next == NULL)
		return lock_fail(o, line, "a line has a module, a version and a hash");
	version = (size_t)(next - space - 1);
	if (lock_begin(o, ECO_GO, line) < 0 || lock_name(o, line, p, (size_t)(space - p)) < 0)
		return -1;
	if (version > sizeof(mod) && memcmp(next - 7, mod, 7) == 0) {
		if (version >= sizeof(o->version) ||
		    lock_version(o, line, space + 1, version - 7) < 0)
			return lock_fail(o, line, "this is not a version");
		/* lock_version() checked the version without its end, so the end is added again. */
		memcpy(o->version + version - 7, mod, sizeof(mod));
	} else if (lock_version(o, line, space + 1, version) < 0) {
		return -1;
	}
	return lock_digest(o, line, next + 1, n - (size_t)(next + 1 - p));
}

static int on_sum_line(struct lock_out *o)
{
	const struct lock_lines *l = &o->lines;

	return l->n == 0 ? 0 : lock_go_read_sum(o, l->line, l->p, l->n);
}

const struct lock_format lock_go = { .start = "go.sum", .end = "", .line = on_sum_line };

#define NEAR 64 /* compared for duplicates: the last digests of a version */

static const struct lock_format *const formats[] = {
	&lock_npm,	    &lock_shrinkwrap, &lock_yarn, &lock_pnpm,
	&lock_requirements, &lock_poetry,     &lock_uv,	  &lock_pylock,
	&lock_pylock_named, &lock_cargo,      &lock_go,	  &lock_gem,
};

/* A lockfile being read. */
struct lock_reader {
	struct lock_out out;
	const struct lock_format *format;
};

static const char *lock_base_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash == NULL ? name : slash + 1;
}

/* An empty end means that the name must match whole. */
static const struct lock_format *lock_format_of(const char *name)
{
	const char *base = lock_base_of(name);
	size_t n = strlen(base);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		const struct lock_format *f = formats[i];
		size_t start = strlen(f->start), end = strlen(f->end);

		if (n < start + end || (end == 0 && n != start))
			continue;
		if (memcmp(base, f->start, start) == 0 && memcmp(base + n - end, f->end, end) == 0)
			return f;
	}
	return NULL;
}

bool lock_knows(const char *name)
{
	return lock_format_of(name) != NULL;
}

int lock_fail(struct lock_out *o, unsigned line, const char *fmt, ...)
{
	char why[160];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	return err_set(o->e, ERR_INVALID, "%.60s: line %u: %s", o->file, line, why);
}

int lock_begin(struct lock_out *o, enum ecosystem eco, unsigned line)
{
	if (lock_end(o) < 0)
		return -1;
	o->open = true;
	o->skip = false;
	o->line = line;
	o->ecosystem = eco;
	o->name[0] = o->version[0] = '\0';
	o->ndigests = 0;
	return 0;
}

int lock_name(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	if (!package_name_normal(o->ecosystem, p, n, o->name))
		return lock_fail(o, line, "this is not the name of a package");
	return 0;
}

int lock_version(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	if (!package_version_ok(o->ecosystem, p, n))
		return lock_fail(o, line, "this is not a version");
	memcpy(o->version, p, n);
	o->version[n] = '\0';
	return 0;
}

/* Is the digest among the last ones? Older digests are not compared, so that their number does not
 * multiply the work. A digest repeated at a distance counts twice, which changes no set. */
static bool lock_has(const struct lock_out *o, const struct digest *d)
{
	for (size_t i = o->ndigests > NEAR ? o->ndigests - NEAR : 0; i < o->ndigests; i++)
		if (digest_equal(&o->digests[i], d))
			return true;
	return false;
}

/* Both bounds count: all digests of the file, and those of one version. */
static int lock_add(struct lock_out *o, unsigned line, const struct digest *d)
{
	if (o->all_digests++ == LOCK_ALL_DIGESTS_MAX)
		return err_set(o->e, ERR_LIMIT, "%.60s: more than %d digests", o->file,
			       LOCK_ALL_DIGESTS_MAX);
	if (lock_has(o, d))
		return 0;
	if (o->ndigests == LOCK_DIGESTS_MAX)
		return lock_fail(o, line, "a version has at most %d files", LOCK_DIGESTS_MAX);
	o->digests[o->ndigests++] = *d;
	return 0;
}

int lock_digest(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	struct digest d;

	if (n > 4 && memcmp(p, "md5:", 4) == 0)
		return 0;
	if (!digest_read(p, n, &d))
		return lock_fail(o, line, "this is not a digest");
	return lock_add(o, line, &d);
}

int lock_hex(struct lock_out *o, unsigned line, enum digest_alg alg, const char *p, size_t n)
{
	struct digest d;

	if (!digest_read_hex(alg, p, n, &d))
		return lock_fail(o, line, "this is not a digest");
	return lock_add(o, line, &d);
}

int lock_sri(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	struct digest d;

	if (!digest_read_sri(p, n, &d))
		return lock_fail(o, line, "this is not an integrity value");
	return lock_add(o, line, &d);
}

/* Cut the end off a text. False: the text has another end. *n is the length without the end. */
static bool lock_take_end(const char *p, size_t *n, const char *end)
{
	if (!package_ends_with(p, *n, end))
		return false;
	*n -= strlen(end);
	return true;
}

/* ".../-/BASE-VERSION.tgz", before a '#' or '?'. */
bool lock_is_registry_url(const struct lock_out *o, const char *p, size_t n)
{
	const char *slash = strchr(o->name, '/');
	size_t m = 0;

	while (m < n && p[m] != '#' && p[m] != '?')
		m++;
	return lock_take_end(p, &m, ".tgz") && lock_take_end(p, &m, o->version) &&
	       lock_take_end(p, &m, "-") &&
	       lock_take_end(p, &m, slash == NULL ? o->name : slash + 1) &&
	       lock_take_end(p, &m, "/-/");
}

void lock_skip(struct lock_out *o)
{
	o->skip = true;
}

int lock_end(struct lock_out *o)
{
	const struct lock_pin pin = { o->ecosystem, o->name, o->version, o->digests, o->ndigests };

	if (!o->open)
		return 0;
	o->open = false;
	if (o->skip || (o->need_digest && o->ndigests == 0))
		return 0;
	if (o->name[0] == '\0' || o->version[0] == '\0')
		return lock_fail(o, o->line, "an entry without a %s",
				 o->name[0] == '\0' ? "name" : "version");
	if (o->pins == LOCK_PINS_MAX)
		return err_set(o->e, ERR_LIMIT, "%.60s: more than %d packages", o->file,
			       LOCK_PINS_MAX);
	o->pins++;
	return o->on_pin(o->arg, &pin, o->e);
}

bool lock_next_line(struct lock_lines *l)
{
	const char *nl;

	if (l->at == l->end)
		return false;
	nl = memchr(l->at, '\n', (size_t)(l->end - l->at));
	l->p = l->at;
	l->n = (size_t)((nl == NULL ? l->end : nl) - l->at);
	l->at = nl == NULL ? l->end : nl + 1;
	if (l->n > 0 && l->p[l->n - 1] == '\r')
		l->n--;
	l->line++;
	return true;
}

/* Check the length of all lines before anything else is read. */
static int lock_check_lines(struct lock_out *o, const char *text, size_t len)
{
	struct lock_lines l = { .at = text, .end = text + len };

	while (lock_next_line(&l))
		if (l.n > LOCK_LINE_MAX)
			return lock_fail(o, l.line, "a line of more than %u bytes", LOCK_LINE_MAX);
	return 0;
}

/* 0, or -1 with the error set. */
static int lock_begin_one(struct lock_reader *r, const char *text, size_t len)
{
	struct lock_out *o = &r->out;

	o->text = o->at = text;
	o->end = text + len;
	o->lines = (struct lock_lines){ .at = text, .end = o->end };
	o->state = calloc(1, r->format->state + 1);
	if (o->state == NULL)
		return err_set(o->e, ERR_SYSTEM, "no memory to read a lockfile");
	if (r->format->line != NULL && lock_check_lines(o, text, len) < 0)
		return -1;
	return r->format->begin == NULL ? 0 : r->format->begin(o);
}

struct lock_reader *lock_reader_new(const char *name, const char *text, size_t len,
				    int (*on_pin)(void *arg, const struct lock_pin *pin,
						  struct err *e),
				    void *arg, struct err *e)
{
	const struct lock_format *format = lock_format_of(name);
	const char *fault = NULL;
	struct lock_reader *r;

	if (format == NULL) {
		(void)err_set(e, ERR_INVALID, "'%.80s' is not the name of a lockfile that is known",
			      lock_base_of(name));
		return NULL;
	}
	if (len > LOCK_TEXT_MAX) {
		(void)err_set(e, ERR_LIMIT, "%.60s: more than %u bytes", lock_base_of(name),
			      LOCK_TEXT_MAX);
		return NULL;
	}
	if (len > 0)
		fault = memchr(text, '\0', len);
	if (fault != NULL) {
		(void)err_set(e, ERR_INVALID, "%.60s: a NUL byte", lock_base_of(name));
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL) {
		(void)err_set(e, ERR_SYSTEM, "no memory to read a lockfile");
		return NULL;
	}
	r->format = format;
	r->out.file = lock_base_of(name);
	r->out.on_pin = on_pin;
	r->out.arg = arg;
	r->out.e = e;
	if (lock_begin_one(r, text, len) == 0)
		return r;
	lock_reader_free(r);
	return NULL;
}

/* 1: a line or a value was read. 0: the end. */
static int lock_step(struct lock_reader *r)
{
	struct lock_out *o = &r->out;

	if (r->format->step != NULL)
		return r->format->step(o);
	if (lock_next_line(&o->lines)) {
		o->at = o->lines.at;
		return r->format->line(o) < 0 ? -1 : 1;
	}
	return r->format->finish == NULL ? 0 : r->format->finish(o);
}

int lock_reader_step(struct lock_reader *r, struct err *e)
{
	struct lock_out *o = &r->out;
	const char *from = o->at;
	int more;

	o->e = e;
	do
		more = lock_step(r);
	while (more > 0 && o->at - from < (ptrdiff_t)LOCK_PIECE);
	return more == 0 ? lock_end(o) : more;
}

void lock_reader_free(struct lock_reader *r)
{
	if (r != NULL)
		free(r->out.state);
	free(r);
}

int lock_read(const char *name, const char *text, size_t len,
	      int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e), void *arg,
	      struct err *e)
{
	struct lock_reader *r = lock_reader_new(name, text, len, on_pin, arg, e);
	int more = r == NULL ? -1 : 1;

	while (more > 0)
		more = lock_reader_step(r, e);
	lock_reader_free(r);
	return more;
}
