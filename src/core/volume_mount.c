#include "volume_mount.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"

#define PREFIX "volume:"

void volume_mount_write(const struct store_volume *v, char ret_source[VOLUME_MOUNT_SOURCE_MAX])
{
	(void)snprintf(ret_source, VOLUME_MOUNT_SOURCE_MAX, PREFIX "%s:%s", v->id, v->name);
}

bool volume_mount_is(const char *source)
{
	return strncmp(source, PREFIX, sizeof(PREFIX) - 1) == 0;
}

/* Copies what stands before one of the ends; NULL if it does not fit or is not followed by one. */
static const char *take(const char *at, const char *ends, char *ret, size_t cap)
{
	size_t n = strcspn(at, ends);

	if (at[n] == '\0' || n >= cap)
		return NULL;
	memcpy(ret, at, n);
	ret[n] = '\0';
	return at + n + 1;
}

/* One line; false if it is no volume. */
static bool read_line(const char *line, struct volume_mount *ret)
{
	char mode[4];

	if (!volume_mount_is(line) ||
	    (line = take(line + sizeof(PREFIX) - 1, ":", ret->id, sizeof(ret->id))) == NULL ||
	    (line = take(line, "\t", ret->name, sizeof(ret->name))) == NULL ||
	    (line = take(line, "\t", ret->target, sizeof(ret->target))) == NULL ||
	    take(line, "\n", mode, sizeof(mode)) == NULL)
		return false;
	ret->writable = strcmp(mode, "rw") == 0;
	return true;
}

bool volume_mount_next(const char **at, struct volume_mount *ret)
{
	while (*at != NULL && **at != '\0') {
		const char *line = *at, *end = strchr(line, '\n');

		*at = end == NULL ? line + strlen(line) : end + 1;
		if (read_line(line, ret))
			return true;
	}
	return false;
}

int volume_mount_plan(const struct core *c, const char *source, struct cell_source *ret,
		      struct err *e)
{
	struct store_volume v;
	char id[STORE_ID_MAX];

	if (!c->o.has_volumes)
		return err_set(e, ERR_UNSUPPORTED, "volumes: not available on this server");
	if (take(source + sizeof(PREFIX) - 1, ":", id, sizeof(id)) == NULL)
		return err_set(e, ERR_INVALID, "mounts: malformed record");
	if (store_volume_get(c->store, id, &v, e) < 0)
		return -1;
	if (v.state != STORE_VOLUME_READY)
		return err_set(e, ERR_NOT_FOUND, "volume '%s' not found", v.name);
	ret->root = c->o.volume_root;
	(void)snprintf(ret->path, sizeof(ret->path), v.kind == VOLUME_IMAGE ? "%s.img" : "%s/data",
		       v.id);
	return 0;
}

int volume_mount_add_uses(const struct core *c, const struct store_session *row, struct err *e)
{
	const char *at = row->mounts;
	struct volume_mount m;

	while (volume_mount_next(&at, &m))
		if (store_volume_add_use(c->store, m.id, row->id, e) < 0)
			return e->code == ERR_NOT_FOUND
				       ? err_set(e, ERR_NOT_FOUND, "volume '%s' not found", m.name)
				       : -1;
	return 0;
}
