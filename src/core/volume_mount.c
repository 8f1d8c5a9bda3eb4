#include "volume_mount.h"

#include <stdio.h>
#include <string.h>

#include "core_private.h"

int volume_mount_plan(const struct core *c, const char *source, struct cell_source *ret,
		      struct err *e)
{
	struct store_volume v;
	char id[STORE_ID_MAX];

	if (!c->o.has_volumes)
		return err_set(e, ERR_UNSUPPORTED, "volumes: not available on this server");
	if (!volume_line_id(source, id))
		return err_set(e, ERR_INVALID, "mounts: malformed record");
	if (store_volume_get(c->store, id, &v, e) < 0)
		return -1;
	if (v.state != STORE_VOLUME_READY)
		return err_set(e, ERR_NOT_FOUND, "volume '%s' not found", v.name);
	ret->root = c->o.volume_root;
	(void)snprintf(ret->path, sizeof(ret->path),
		       v.kind == VOLUME_IMAGE ? "%s/image" : "%s/data", v.id);
	return 0;
}

int volume_mount_add_uses(const struct core *c, const struct store_session *row, struct err *e)
{
	const char *at = row->mounts;
	struct volume_line m;

	while (volume_line_next(&at, &m))
		if (store_volume_add_use(c->store, m.id, row->id, e) < 0)
			return e->code == ERR_NOT_FOUND
				       ? err_set(e, ERR_NOT_FOUND, "volume '%s' not found", m.name)
				       : -1;
	return 0;
}
