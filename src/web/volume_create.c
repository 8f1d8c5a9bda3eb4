/* volume_create.c - see volume_create.h. */
#include "volume_create.h"

#include "json_members.h"

struct making {
	struct volume_making volume;
	const struct volume_create *how;
};

static void release(struct request *r, bool answered)
{
	struct making *m = r->state;

	(void)answered;
	completion_cancel(&m->volume.done);
}

static void on_made(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	const struct making *m = r->state;
	const struct volume_create *how = m->how;
	struct store_volume row = m->volume.row; /* the state ends with the answer */

	if (e != NULL)
		how->failed(r, e);
	else
		how->made(r, &row);
}

void volume_create_body(struct request *r, const struct volume_create *how, const uint8_t *body,
			size_t len)
{
	struct making *m = request_state(r, sizeof(*m), release);
	struct volume_spec spec = { 0 };
	struct err e = { 0 };
	json_t *root;
	int making = -1;

	if (m == NULL)
		return;
	m->how = how;
	m->volume.done = (struct completion){ .on_done = on_made, .arg = r };
	root = json_members_parse(body, len, &e);
	if (root != NULL && how->read(root, &spec, &e) == 0)
		making = volume_create(r->core, r->tenant, &spec, request_actor(r), &m->volume, &e);
	json_decref(root);
	if (making < 0)
		how->failed(r, &e);
}
