#include "volume_open.h"

#include <stdio.h>

#include "core_private.h"
#include "io.h"

/* Ends exactly once: keeper_link calls it once, or not after keeper_link_cancel(). */
static void on_answer(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct volume_open *o = arg;
	struct err none;

	(void)reply;
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
	o->call = keeper_link_ask(&c->cells.keeper, &r, sizeof(r), -1, KEEPER_URGENT, on_answer, o);
}

void volume_open_cancel(struct volume_open *o)
{
	if (o->call != NULL)
		keeper_link_cancel(o->call);
	o->call = NULL;
}
