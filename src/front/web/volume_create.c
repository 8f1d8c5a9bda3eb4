#include "front/web/volume_create.h"

#include "daemon/volumes/volume.h"
#include "front/web/json_members.h"
#include "front/web/spec_session.h"

/* ---- volumes by name
 *
 * The volumes of a new session: from their names to the core's form. Apart from the pure
 * spec_session.c. */

int spec_volumes_find(struct spec_session *s, struct core *c, const struct tenant *t, struct err *e)
{
	struct store_volume v;

	for (unsigned i = s->first_volume; i < s->spec.nmounts; i++) {
		if (volume_find(c, t, s->spec.mounts[i].source, &v, e) < 0)
			return -1;
		volume_line_write(&v, s->sources[i]);
		s->spec.mounts[i].source = s->sources[i];
	}
	return 0;
}

/* The state of a creation. */
struct volume_request_making {
	struct volume_making volume;
	const struct volume_create *how;
};

static void volume_create_release(struct request *r, bool answered)
{
	struct volume_request_making *m = r->state;

	completion_cancel(&m->volume.done);
}

static void on_made(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	const struct volume_request_making *m = r->state;
	const struct volume_create *how = m->how;
	struct store_volume row = m->volume.row; /* the state ends with the answer */

	if (e != NULL)
		how->failed(r, e);
	else
		how->made(r, &row);
}

/* The answer comes by how, once. */
void volume_create_body(struct request *r, const struct volume_create *how, const uint8_t *body,
			size_t len)
{
	struct volume_request_making *m = request_state(r, sizeof(*m), volume_create_release);
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
