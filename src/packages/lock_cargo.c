/* lock_cargo.c - Cargo.lock, versions 1 to 4. A package without a source is the project itself.
 * Version 1 has the checksums at its end: "checksum NAME VERSION (SOURCE)" = "HEX". */
#include <string.h>

#include "lock_toml.h"

static bool starts_with(const struct toml_event *v, const char *start)
{
	return v->n >= strlen(start) && memcmp(v->p, start, strlen(start)) == 0;
}

static int take_checksum(struct lock_out *o, const struct toml_event *v)
{
	return lock_hex(o, v->line, DIGEST_SHA256, v->p, v->n);
}

/* The key is "checksum NAME VERSION (SOURCE)". */
static int take_old(struct lock_out *o, const struct toml_event *v)
{
	static const char start[] = "checksum ";
	const char *name = v->key + sizeof(start) - 1, *version, *source;

	if (strncmp(v->key, start, sizeof(start) - 1) != 0 || starts_with(v, "<none>"))
		return 0;
	version = strchr(name, ' ');
	source = version == NULL ? NULL : strchr(version + 1, ' ');
	if (source == NULL)
		return lock_fail(o, v->line, "a checksum without a version");
	if (lock_begin(o, ECO_CARGO, v->line) < 0 ||
	    lock_name(o, v->line, name, (size_t)(version - name)) < 0 ||
	    lock_version(o, v->line, version + 1, (size_t)(source - version - 1)) < 0 ||
	    take_checksum(o, v) < 0)
		return -1;
	return lock_end(o);
}

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
		return take_old(o, v);
	if (strcmp(v->table, "package") != 0)
		return 0;
	if (strcmp(v->key, "name") == 0)
		return lock_name(o, v->line, v->p, v->n);
	if (strcmp(v->key, "version") == 0)
		return lock_version(o, v->line, v->p, v->n);
	if (strcmp(v->key, "source") == 0)
		o->skip = !starts_with(v, "registry+") && !starts_with(v, "sparse+");
	return strcmp(v->key, "checksum") == 0 ? take_checksum(o, v) : 0;
}

int lock_read_cargo(struct lock_out *o, const char *text, size_t len)
{
	o->need_digest = true; /* all of registries have one, if only at the end */
	return toml_read(o, text, len, on_event, o);
}
