/* lock_python.c - reads lockfiles of Python in TOML: poetry.lock, uv.lock, pylock.toml (PEP 751).
 * Each has an array of packages with names, versions, sources and the hashes of files. */
#include <string.h>

#include "lib/packages/lock_toml.h"
#include "lib/packages/package_file_name.h"

struct python {
	struct toml toml;
	struct lock_out *o;
	const char *packages;	     /* the name of the array */
	char file[PACKAGE_FILE_MAX]; /* of an old poetry.lock: the file of the next hash */
};

static bool lock_python_is(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* The key below the package array, in any spelling. NULL: another table's key. */
static const char *member_of(const struct python *r, const struct toml_event *v, char *ret)
{
	size_t n = strlen(r->packages), len = strlen(v->table);

	if (strncmp(v->table, r->packages, n) != 0 || (len > n && v->table[n] != '.'))
		return NULL;
	if (len == n)
		return v->key;
	(void)memcpy(ret, v->table + n + 1, len - n - 1);
	ret[len - n - 1] = '.';
	memcpy(ret + len - n, v->key, strlen(v->key) + 1);
	return ret;
}

/* Begin another package, or end the last one. */
static int on_table(struct python *r, const struct toml_event *v)
{
	size_t n = strlen(r->packages);

	if (v->kind == TOML_ARRAY_TABLE && lock_python_is(v->table, r->packages))
		return lock_begin(r->o, ECO_PYPI, v->line);
	if (strncmp(v->table, r->packages, n) == 0 && v->table[n] == '.')
		return 0;
	return lock_end(r->o);
}

/* Members that all three formats have. */
static int take_common(struct python *r, const struct toml_event *v, const char *key)
{
	if (lock_python_is(key, "name"))
		return lock_name(r->o, v->line, v->p, v->n);
	return lock_python_is(key, "version") ? lock_version(r->o, v->line, v->p, v->n) : 0;
}

static bool is_text(const struct toml_event *v, const char *text)
{
	return v->n == strlen(text) && memcmp(v->p, text, v->n) == 0;
}

/* Read [metadata.files] of an old poetry.lock: NAME = [{file = "...", hash = "..."}]. The version
 * comes from the name of the file. */
static int take_old_file(struct python *r, const struct toml_event *v)
{
	size_t n = strlen(v->key);
	struct package_request f = { .ecosystem = ECO_PYPI };

	if (n > 5 && lock_python_is(v->key + n - 5, ".file") && v->n < sizeof(r->file)) {
		memcpy(r->file, v->p, v->n);
		r->file[v->n] = '\0';
	}
	if (n <= 5 || !lock_python_is(v->key + n - 5, ".hash"))
		return 0;
	if (!package_take_file((struct package_span){ r->file, strlen(r->file) }, &f) ||
	    !package_file_pypi(&f))
		return 0; /* no request for such a file could be understood, either */
	if (lock_begin(r->o, ECO_PYPI, v->line) < 0 ||
	    lock_name(r->o, v->line, f.name, strlen(f.name)) < 0 ||
	    lock_version(r->o, v->line, f.version, strlen(f.version)) < 0 ||
	    lock_digest(r->o, v->line, v->p, v->n) < 0)
		return -1;
	return lock_end(r->o);
}

/* Entries without hashes are no pins: they come from no registry. */
static int lock_python_begin(struct lock_out *o, const char *packages,
			     int (*on_event)(void *arg, const struct toml_event *event))
{
	struct python *r = o->state;

	o->need_digest = true;
	r->o = o;
	r->packages = packages;
	toml_begin(&r->toml, o, on_event, r);
	return 0;
}

static int lock_python_step(struct lock_out *o)
{
	struct python *r = o->state;

	return toml_step(&r->toml);
}

/* Sources other than "legacy" (a private index) are no registries. */
static int on_poetry(void *arg, const struct toml_event *v)
{
	struct python *r = arg;
	char path[2 * TOML_PATH_MAX];
	const char *key;

	if (v->kind != TOML_VALUE)
		return on_table(r, v);
	if (lock_python_is(v->table, "metadata.files"))
		return take_old_file(r, v);
	key = member_of(r, v, path);
	if (key == NULL || !v->text)
		return 0;
	if (lock_python_is(key, "files.hash"))
		return lock_digest(r->o, v->line, v->p, v->n);
	if (lock_python_is(key, "source.type") && !is_text(v, "legacy"))
		lock_skip(r->o);
	return take_common(r, v, key);
}

static int begin_poetry(struct lock_out *o)
{
	return lock_python_begin(o, "package", on_poetry);
}

const struct lock_format lock_poetry = { .start = "poetry.lock",
					 .end = "",
					 .state = sizeof(struct python),
					 .begin = begin_poetry,
					 .step = lock_python_step };

/* Only source.registry names a registry. */
static int on_uv(void *arg, const struct toml_event *v)
{
	struct python *r = arg;
	char path[2 * TOML_PATH_MAX];
	const char *key;

	if (v->kind != TOML_VALUE)
		return on_table(r, v);
	key = member_of(r, v, path);
	if (key == NULL || !v->text)
		return 0;
	if (lock_python_is(key, "sdist.hash") || lock_python_is(key, "wheels.hash"))
		return lock_digest(r->o, v->line, v->p, v->n);
	if (strncmp(key, "source.", 7) == 0 && !lock_python_is(key, "source.registry"))
		lock_skip(r->o);
	return take_common(r, v, key);
}

static int begin_uv(struct lock_out *o)
{
	return lock_python_begin(o, "package", on_uv);
}

const struct lock_format lock_uv = { .start = "uv.lock",
				     .end = "",
				     .state = sizeof(struct python),
				     .begin = begin_uv,
				     .step = lock_python_step };

/* Read "wheels.hashes.sha256" and similar keys. Unknown algorithms are skipped. */
static int take_hash(struct python *r, const struct toml_event *v, const char *name)
{
	for (enum digest_alg alg = DIGEST_SHA1; alg < DIGEST_H1; alg++)
		if (lock_python_is(name, digest_alg_name(alg)))
			return lock_hex(r->o, v->line, alg, v->p, v->n);
	return 0;
}

/* Members of a package that tell another origin make it no pin. */
static int on_pylock(void *arg, const struct toml_event *v)
{
	struct python *r = arg;
	char path[2 * TOML_PATH_MAX];
	const char *key, *hashes;

	if (v->kind != TOML_VALUE)
		return on_table(r, v);
	key = member_of(r, v, path);
	if (key == NULL || !v->text)
		return 0;
	hashes = strstr(key, ".hashes.");
	if (hashes != NULL)
		return take_hash(r, v, hashes + strlen(".hashes."));
	if (strncmp(key, "vcs.", 4) == 0 || strncmp(key, "directory.", 10) == 0 ||
	    strncmp(key, "archive.", 8) == 0)
		lock_skip(r->o);
	return take_common(r, v, key);
}

static int begin_pylock(struct lock_out *o)
{
	return lock_python_begin(o, "packages", on_pylock);
}

const struct lock_format lock_pylock = { .start = "pylock.toml",
					 .end = "",
					 .state = sizeof(struct python),
					 .begin = begin_pylock,
					 .step = lock_python_step };

const struct lock_format lock_pylock_named = { .start = "pylock.",
					       .end = ".toml",
					       .state = sizeof(struct python),
					       .begin = begin_pylock,
					       .step = lock_python_step };
