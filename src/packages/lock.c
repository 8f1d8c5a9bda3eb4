/* lock.c - which reader a lockfile has, and the pin that is being read. */
#include "lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lock_out.h"
#include "package_chars.h"

#define NEAR 64 /* digests of a version that are compared for duplicates */

struct format {
	const char *start, *end; /* of the file's name */
	int (*read)(struct lock_out *o, const char *text, size_t len);
	bool lines; /* one thing a line: a long line is none that a tool wrote */
};

static const struct format formats[] = {
	{ "package-lock.json", "", lock_read_npm },
	{ "npm-shrinkwrap.json", "", lock_read_npm },
	{ "yarn.lock", "", lock_read_yarn, true },
	{ "pnpm-lock.yaml", "", lock_read_pnpm, true },
	{ "requirements", ".txt", lock_read_requirements, true },
	{ "poetry.lock", "", lock_read_poetry },
	{ "uv.lock", "", lock_read_uv },
	{ "pylock.toml", "", lock_read_pylock },
	{ "pylock.", ".toml", lock_read_pylock },
	{ "Cargo.lock", "", lock_read_cargo },
	{ "go.sum", "", lock_read_go, true },
	{ "Gemfile.lock", "", lock_read_gem, true },
};

static const char *base_of(const char *name)
{
	const char *slash = strrchr(name, '/');

	return slash == NULL ? name : slash + 1;
}

static const struct format *format_of(const char *name)
{
	const char *base = base_of(name);
	size_t n = strlen(base);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t start = strlen(formats[i].start), end = strlen(formats[i].end);

		if (n < start + end || (end == 0 && n != start))
			continue;
		if (memcmp(base, formats[i].start, start) == 0 &&
		    memcmp(base + n - end, formats[i].end, end) == 0)
			return &formats[i];
	}
	return NULL;
}

bool lock_knows(const char *name)
{
	return format_of(name) != NULL;
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

/* Of many digests the last ones are compared, so that their number does not make the work grow. One
 * that comes twice at a distance counts twice, which changes no set. */
static bool has(const struct lock_out *o, const struct digest *d)
{
	for (size_t i = o->ndigests > NEAR ? o->ndigests - NEAR : 0; i < o->ndigests; i++)
		if (digest_equal(&o->digests[i], d))
			return true;
	return false;
}

static int add(struct lock_out *o, unsigned line, const struct digest *d)
{
	if (o->all_digests++ == LOCK_ALL_DIGESTS_MAX)
		return err_set(o->e, ERR_LIMIT, "%.60s: more than %d digests", o->file,
			       LOCK_ALL_DIGESTS_MAX);
	if (has(o, d))
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
	return add(o, line, &d);
}

int lock_hex(struct lock_out *o, unsigned line, enum digest_alg alg, const char *p, size_t n)
{
	struct digest d;

	if (!digest_read_hex(alg, p, n, &d))
		return lock_fail(o, line, "this is not a digest");
	return add(o, line, &d);
}

int lock_sri(struct lock_out *o, unsigned line, const char *p, size_t n)
{
	struct digest d;

	if (!digest_read_sri(p, n, &d))
		return lock_fail(o, line, "this is not an integrity value");
	return add(o, line, &d);
}

static bool take_end(const char *p, size_t *n, const char *end)
{
	if (!package_ends_with(p, *n, end))
		return false;
	*n -= strlen(end);
	return true;
}

/* ".../-/BASE-VERSION.tgz", before a '#' or '?' */
bool lock_is_registry_url(const struct lock_out *o, const char *p, size_t n)
{
	const char *slash = strchr(o->name, '/');
	size_t m = 0;

	while (m < n && p[m] != '#' && p[m] != '?')
		m++;
	return take_end(p, &m, ".tgz") && take_end(p, &m, o->version) && take_end(p, &m, "-") &&
	       take_end(p, &m, slash == NULL ? o->name : slash + 1) && take_end(p, &m, "/-/");
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

/* Before anything else is done with the text. */
static int check_lines(struct lock_out *o, const char *text, size_t len)
{
	struct lock_lines l = { .at = text, .end = text + len };

	while (lock_next_line(&l))
		if (l.n > LOCK_LINE_MAX)
			return lock_fail(o, l.line, "a line of more than %u bytes", LOCK_LINE_MAX);
	return 0;
}

int lock_read(const char *name, const char *text, size_t len,
	      int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e), void *arg,
	      struct err *e)
{
	const struct format *format = format_of(name);
	OWN_MEM struct lock_out *o = NULL;

	if (format == NULL)
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not the name of a lockfile that is known",
			       base_of(name));
	if (len > LOCK_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "%.60s: more than %u bytes", base_of(name),
			       LOCK_TEXT_MAX);
	if (len > 0 && memchr(text, '\0', len) != NULL)
		return err_set(e, ERR_INVALID, "%.60s: a NUL byte", base_of(name));
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return err_set(e, ERR_SYSTEM, "no memory to read a lockfile");
	o->file = base_of(name);
	o->on_pin = on_pin;
	o->arg = arg;
	o->e = e;
	if (format->lines && check_lines(o, text, len) < 0)
		return -1;
	if (format->read(o, text, len) < 0)
		return -1;
	return lock_end(o);
}
