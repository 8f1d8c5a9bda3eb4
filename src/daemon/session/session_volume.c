/* session_volume.c - the mounts of volumes: see session_volume.h. */
#include "daemon/session/session_volume.h"

#include <stdio.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "lib/base/err_missing.h"
#include "lib/base/io.h"

/* Ends exactly once: keeper_link calls it once, or not after keeper_link_cancel(). */
static void on_answer(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct volume_open *o = arg;
	struct err none;

	o->call = NULL;
	if (e == NULL && fd < 0) {
		(void)err_set(&none, ERR_SYSTEM, "the keeper sent no mount");
		e = &none;
	}
	if (e != NULL)
		io_close_all(&fd, 1);
	o->on_done(o, e == NULL ? fd : -1, e);
}

void volume_open_start(struct core *c, const struct store_volume *v, struct volume_open *o)
{
	struct keeper_volume r = { .op = KEEPER_VOLUME, .from.root = c->o.volume_root };

	(void)snprintf(r.from.path, sizeof(r.from.path), "%s/image", v->id);
	o->call = keeper_link_ask(&c->cells.keeper, v->tenant, &r, sizeof(r), -1, KEEPER_URGENT,
				  on_answer, o);
}

void volume_open_cancel(struct volume_open *o)
{
	if (o->call != NULL)
		keeper_link_cancel(o->call);
	o->call = NULL;
}

/* A volume may be removed between the create and the next cell of its session. */
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
		return err_missing(e, "volume", v.name);
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
			return e->code == ERR_NOT_FOUND ? err_missing(e, "volume", m.name) : -1;
	return 0;
}
