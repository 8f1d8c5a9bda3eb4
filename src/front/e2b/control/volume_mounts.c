#include "front/e2b/control/volume_mounts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void volume_mounts_problem(struct volume_mounts *m, size_t i, const char *fmt, ...)
	PRINTF(3, 4);

/* All mounts are checked, and each problem is a line of one message. A message that is full stays
 * as it is. */
static void volume_mounts_problem(struct volume_mounts *m, size_t i, const char *fmt, ...)
{
	size_t len;
	va_list ap;

	if (m->problems[0] == '\0')
		(void)snprintf(m->problems, sizeof(m->problems), "invalid mounts:");
	len = strlen(m->problems);
	(void)snprintf(m->problems + len, sizeof(m->problems) - len,
		       "\n\t- volume mount #%zu: ", i);
	len = strlen(m->problems);
	va_start(ap, fmt);
	(void)vsnprintf(m->problems + len, sizeof(m->problems) - len, fmt, ap);
	va_end(ap);
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && strcmp(text + n - k, end) == 0;
}

/* NULL: it can be mounted at. */
static const char *path_problem(const char *path)
{
	if (path == NULL || *path == '\0')
		return "path is missing";
	if (*path != '/')
		return "path must be absolute";
	if (strstr(path, "/./") != NULL || strstr(path, "/../") != NULL || ends_in(path, "/.") ||
	    ends_in(path, "/.."))
		return "path must not contain any '.' or '..' components";
	for (const char *p = path; *p != '\0'; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return "path must not contain control characters";
	return path[1] == '\0' || !cell_is_place(path, CELL_PATH_MAX)
		       ? "path must be a clean path of a directory other than '/'"
		       : NULL;
}

/* Two mounts at one place would hide one another. */
static bool is_used(const struct session_spec *spec, const char *path)
{
	for (unsigned i = 0; i < spec->nmounts; i++)
		if (strcmp(spec->mounts[i].target, path) == 0)
			return true;
	return false;
}

/* Either a mount is added to the spec, or a problem to the message. */
static void read_one(struct request *r, const json_t *value, size_t i, struct session_spec *spec,
		     struct volume_mounts *m)
{
	const char *name = json_string_value(json_object_get(value, "name"));
	const char *path = json_string_value(json_object_get(value, "path"));
	const char *why = path_problem(path);
	unsigned n = spec->nmounts;
	struct store_volume v;
	struct err e = { 0 };

	if (name == NULL || !volume_line_is_name(name) ||
	    volume_find(r->core, r->tenant, name, &v, &e) < 0) {
		volume_mounts_problem(m, i, "volume '%.64s' not found",
				      name == NULL || strpbrk(name, "\n\t") != NULL ? "" : name);
		return;
	}
	if (why == NULL && is_used(spec, path))
		why = "path is already used by another mount";
	if (why == NULL && n == CELL_MOUNTS_MAX)
		why = "a sandbox can have at most 8 mounts";
	if (why != NULL) {
		volume_mounts_problem(m, i, "%s", why);
		return;
	}
	volume_line_write(&v, m->sources[n]);
	spec->mounts[n].source = m->sources[n];
	spec->mounts[n].target = path;
	spec->mounts[n].writable = true;
	spec->nmounts++;
}

int volume_mounts_read(struct request *r, const json_t *list, struct session_spec *spec,
		       struct volume_mounts *ret)
{
	ret->problems[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++)
		read_one(r, json_array_get(list, i), i, spec, ret);
	return ret->problems[0] == '\0' ? 0 : -1;
}

/* Mounts of directories of the machine are left out: volume_line_next() gives volumes only. */
void volume_mounts_shape(struct json *j, const char *mounts)
{
	struct volume_line m;

	json_open(j, "volumeMounts", '[');
	while (volume_line_next(&mounts, &m)) {
		json_open(j, NULL, '{');
		json_text(j, "name", m.name);
		json_text(j, "path", m.target);
		json_close(j, '}');
	}
	json_close(j, ']');
}
