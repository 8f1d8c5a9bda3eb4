/* volume.c - see volume.h. */
#include "volume.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "event_log.h"
#include "layers.h"
#include "log.h"
#include "rand.h"
#include "tenant.h"
#include "volume_open.h"
#include "volume_state.h"

#define MAKE_MS 120000
#define BYTES_MIN (8U << 20)
#define ROOM_LEAST (1U << 20) /* on the disk, for an empty volume */

struct volume_node *volume_node(struct core *c)
{
	return *session_parts_of_core(c, &volume_part);
}

/* A random UUID, of version 4. */
static void make_id(char ret[STORE_ID_MAX])
{
	uint8_t b[16];

	rand_bytes(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0fU) | 0x40U);
	b[8] = (uint8_t)((b[8] & 0x3fU) | 0x80U);
	(void)snprintf(ret, STORE_ID_MAX,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		       b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		       b[13], b[14], b[15]);
}

int volume_find(struct core *c, const struct tenant *t, const char *which, struct store_volume *ret,
		struct err *e)
{
	int found = -1;

	e->code = ERR_NOT_FOUND;
	if (volume_line_is_name(which))
		found = store_volume_get_by_name(core_store(c), tenant_row(t)->id, which, ret, e);
	if (found < 0 && e->code == ERR_NOT_FOUND)
		found = store_volume_get(core_store(c), which, ret, e);
	if (found < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (found == 0 && strcmp(ret->tenant, tenant_row(t)->id) == 0 &&
	    ret->state == STORE_VOLUME_READY)
		return 0;
	*e = (struct err){ 0 };
	(void)err_set(e, ERR_NOT_FOUND, "no volume %.64s", which);
	err_sanitize(e);
	return -1;
}

/* Writes a change of the row and its event, both or none. */
static int save(struct core *c, const struct store_actor *who, const struct store_volume *row,
		const char *event, int (*how)(struct store *s, const char *id, struct err *e),
		struct err *e)
{
	if (store_begin(core_store(c), e) == 0 && how(core_store(c), row->id, e) == 0 &&
	    event_log_append(c, who, row->tenant, "", "", event, e, "name\t%s\nid\t%s\n", row->name,
			     row->id) == 0 &&
	    store_commit(core_store(c), e) == 0)
		return 0;
	store_rollback(core_store(c));
	return -1;
}

/* ---- made */

/* A volume that is being made. */
struct making {
	struct volume_node *node;
	struct storage_job job;
	struct volume_open open;
	struct completions waiter; /* the owner's completion, or none any more */
	struct store_volume row;
	struct store_actor actor;
};

static void finish(struct making *m, const struct err *why)
{
	struct core *c = m->node->core;
	struct err e = { 0 }, ignored;

	const struct tenant *t = tenant_find(c, m->row.tenant);

	if (why != NULL)
		e = *why;
	else if (t == NULL || tenant_row(t)->disabled) /* its volumes are removed already */
		IGNORED(err_set(&e, ERR_CONFLICT, "the tenant was removed"), "below");
	else if (save(c, &m->actor, &m->row, "volume.created", store_volume_set_ready, &e) == 0)
		e.code = ERR_NONE;
	if (e.code != ERR_NONE) {
		IGNORED(store_volume_set_dying(core_store(c), m->row.id, &ignored),
			"the next daemon does it");
		volume_removal_next(m->node);
	}
	if (m->waiter.first != NULL)
		((struct volume_making *)m->waiter.first)->row.kind = m->row.kind;
	completions_end_all(&m->waiter, e.code == ERR_NONE ? NULL : &e);
	free(m);
}

#define IMAGES_WORK "volume_images" /* a fact of the store: a volume was made as an image here */

/* Is there no other way than a directory? Not where images have worked before, and not because the
 * machine is short of something now: a directory has no limit of its size. */
static bool are_images_impossible(const struct making *m, const struct err *why)
{
	return why->code == ERR_UNSUPPORTED && !m->node->images_work && why->sys != EMFILE &&
	       why->sys != ENFILE && why->sys != EBUSY && why->sys != EAGAIN;
}

static void images_work(struct volume_node *n)
{
	struct err e;

	if (n->images_work)
		return;
	n->images_work = true;
	if (store_meta_set(core_store(n->core), IMAGES_WORK, "1", &e) < 0)
		log_warn("that volumes are images could not be noted", "error=%s", e.msg);
}

static void on_made(struct completion *done, const struct err *why);

static void ask_storage(struct making *m)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_MAKE, .deadline_ms = MAKE_MS },
				    .image = m->row.kind == VOLUME_IMAGE,
				    .bytes = m->row.bytes };

	(void)snprintf(r.volume, sizeof(r.volume), "%s", m->row.id);
	m->job = (struct storage_job){ .done = { .on_done = on_made, .arg = m },
				       .fd = -1,
				       .tenant = m->row.tenant };
	storage_link_ask(m->node->storage, &m->job, &r, sizeof(r), NULL, 0);
}

/* An image cannot be made or mounted here: this volume and all that follow are directories. */
static void use_directory(struct making *m, const struct err *why)
{
	struct err e;

	log_warn("volumes are directories without a limit of their size", "reason=%s", why->msg);
	m->node->no_images = true;
	m->row.kind = VOLUME_DIRECTORY;
	if (store_volume_set_kind(core_store(m->node->core), m->row.id, m->row.kind, &e) < 0)
		finish(m, &e);
	else
		ask_storage(m);
}

static void on_opened(struct volume_open *o, int fd, const struct err *e)
{
	struct making *m = o->arg;
	OWN_FD mount = fd;

	if (e == NULL)
		images_work(m->node);
	if (e != NULL && are_images_impossible(m, e))
		use_directory(m, e);
	else
		finish(m, e);
}

/* An image is mounted once, to see whether this machine can do it. */
static void on_made(struct completion *done, const struct err *why)
{
	struct making *m = done->arg;

	if (m->row.kind != VOLUME_IMAGE || (why != NULL && !are_images_impossible(m, why))) {
		finish(m, why);
	} else if (why != NULL) {
		use_directory(m, why);
	} else {
		m->open = (struct volume_open){ .on_done = on_opened, .arg = m };
		volume_open_start(m->node->core, &m->row, &m->open);
	}
}

static int check_quota(struct core *c, const struct tenant *t, uint64_t bytes, struct err *e)
{
	const struct config *g = core_config(c);
	uint64_t count = 0, sum = 0, max = g->tenant_max_volume_bytes;

	if (max == 0)
		max = layers_tenant_share(core_layers(c));
	if (store_volume_sum(core_store(c), tenant_row(t)->id, &count, &sum, e) < 0)
		return -1;
	if (count >= g->tenant_max_volumes)
		return err_set_reason(e, REASON_QUOTA_VOLUMES,
				      "a tenant may have at most %llu volumes (tenant_max_volumes)",
				      (unsigned long long)g->tenant_max_volumes);
	if (sum + bytes > max)
		return err_set_reason(
			e, REASON_QUOTA_STORAGE,
			"the volumes of a tenant may have at most %llu bytes together "
			"(tenant_max_volume_bytes%s)",
			(unsigned long long)max,
			g->tenant_max_volume_bytes > 0
				? ""
				: "; it is not set: half of the file system of storage_dir");
	return 0;
}

static int fill_row(struct core *c, const struct tenant *t, const struct volume_spec *spec,
		    struct store_volume *row, struct err *e)
{
	const struct config *g = core_config(c);

	if (!volume_line_is_name(spec->name))
		return err_set(e, ERR_INVALID, "name: must be 1 to %d letters, digits, '_' and '-'",
			       VOLUME_NAME_MAX);
	*row = (struct store_volume){
		.kind = !volume_node(c)->no_images ? VOLUME_IMAGE : VOLUME_DIRECTORY,
		.state = STORE_VOLUME_MAKING,
		.bytes = spec->bytes == 0 ? g->volume_size_default : spec->bytes,
		.created_ms = core_now_ms(),
		.generation = rand_below(UINT32_MAX)
	};
	if (row->bytes < BYTES_MIN || row->bytes > g->volume_size_max)
		return err_set(e, ERR_INVALID, "size: must be %u to %llu bytes (volume_size_max)",
			       BYTES_MIN, (unsigned long long)g->volume_size_max);
	if (spec->ttl_ms > 0)
		row->expires_ms = row->created_ms + spec->ttl_ms;
	make_id(row->id);
	(void)snprintf(row->tenant, sizeof(row->tenant), "%s", tenant_row(t)->id);
	(void)snprintf(row->name, sizeof(row->name), "%s", spec->name);
	return check_quota(c, t, row->bytes, e);
}

int volume_create(struct core *c, struct tenant *t, const struct volume_spec *spec,
		  const struct store_actor *who, struct volume_making *ret, struct err *e)
{
	struct making *m;

	if (!core_options(c)->has_volumes)
		return err_set(e, ERR_UNSUPPORTED, "volumes: not available on this server");
	/* Sizes are promises, so what counts is what the disk has left now. */
	if (fill_row(c, t, spec, &ret->row, e) < 0 ||
	    layers_check_reserve(core_layers(c), ROOM_LEAST, e) < 0)
		return -1;
	if (store_volume_insert(core_store(c), &ret->row, e) < 0)
		return e->code == ERR_CONFLICT
			       ? err_set(e, ERR_CONFLICT, "Volume with name '%s' already exists",
					 spec->name)
			       : -1;
	m = calloc(1, sizeof(*m));
	assert(m != NULL);
	m->node = volume_node(c);
	m->row = ret->row;
	if (who != NULL)
		m->actor = *who;
	completion_begin(&ret->done, core_loop(c), &m->waiter);
	ask_storage(m);
	return 0;
}

/* ---- deleted */

static int delete_row(struct core *c, const struct store_volume *row, const struct store_actor *who,
		      struct err *e)
{
	uint64_t uses = 0;

	if (store_volume_uses(core_store(c), row->id, &uses, e) < 0)
		return -1;
	if (uses > 0)
		return err_set(e, ERR_CONFLICT, "volume %s: %llu %s it", row->name,
			       (unsigned long long)uses,
			       uses == 1 ? "session mounts" : "sessions mount");
	if (save(c, who, row, "volume.deleted", store_volume_set_dying, e) < 0)
		return -1;
	volume_removal_next(volume_node(c));
	return 0;
}

int volume_delete(struct core *c, const struct tenant *t, const char *which,
		  const struct store_actor *who, struct err *e)
{
	struct store_volume row;

	if (volume_find(c, t, which, &row, e) < 0)
		return -1;
	return delete_row(c, &row, who, e);
}

/* ---- as a part of the core */

struct some {
	struct store_volume rows[16];
	unsigned n;
};

static int note(const struct store_volume *row, void *cookie)
{
	struct some *s = cookie;

	s->rows[s->n++] = *row;
	return s->n == COUNT(s->rows);
}

/* Volumes that an earlier daemon was making have no client that waits. */
static int drop_unmade(struct core *c, struct err *e)
{
	char after[STORE_ID_MAX] = "";
	struct some s;

	do {
		s.n = 0;
		if (store_volume_each_unready(core_store(c), after, COUNT(s.rows), note, &s, e) < 0)
			return -1;
		for (unsigned i = 0; i < s.n; i++) {
			memcpy(after, s.rows[i].id, sizeof(after));
			if (s.rows[i].state == STORE_VOLUME_MAKING &&
			    store_volume_set_dying(core_store(c), s.rows[i].id, e) < 0)
				return -1;
		}
	} while (s.n == COUNT(s.rows));
	return 0;
}

static int setup(struct core *c, struct err *e)
{
	struct volume_node *n = calloc(1, sizeof(*n));
	char known[8];
	struct err unknown;

	assert(n != NULL);
	*session_parts_of_core(c, &volume_part) = n;
	n->core = c;
	n->removal.fd = -1;
	n->storage = core_storage(c);
	n->images_work =
		store_meta_get(core_store(c), IMAGES_WORK, known, sizeof(known), &unknown) == 0;
	return drop_unmade(c, e);
}

static void release(struct core *c)
{
	struct volume_node *n = volume_node(c);

	if (n == NULL)
		return;
	volume_removal_release(n);
	free(n);
	*session_parts_of_core(c, &volume_part) = NULL;
}

/* Those that a session mounts live until it has ended. */
static void expire(struct volume_node *n)
{
	struct some s = { .n = 0 };
	struct err e = { 0 };
	int done;

	done = store_volume_expired(core_store(n->core), core_now_ms(), COUNT(s.rows), note, &s,
				    &e);
	for (unsigned i = 0; done == 0 && i < s.n; i++)
		done = delete_row(n->core, &s.rows[i], NULL, &e);
	if (done < 0)
		log_error("expired volumes could not be removed", "error=%s", e.msg);
}

static void on_second(struct core *c)
{
	struct volume_node *n = volume_node(c);
	uint64_t now = clock_now_ns();

	if (!core_recovered(c))
		return;
	if (now >= n->expiry_ns) {
		n->expiry_ns = now + 2000 * CLOCK_MS;
		expire(n);
	}
	volume_removal_next(n);
}

static bool delete_one(struct core *c, struct tenant *t)
{
	struct some s = { .n = 0 };
	struct err e;

	if (store_volume_list(core_store(c), tenant_row(t)->id, "", 1, note, &s, &e) == 0 &&
	    (s.n == 0 || delete_row(c, &s.rows[0], NULL, &e) == 0))
		return s.n > 0;
	log_error("a volume could not be removed", "tenant=%s error=%s", tenant_row(t)->id, e.msg);
	return false;
}

const struct session_part volume_part = {
	.name = "volumes",
	.setup = setup,
	.release = release,
	.on_second = on_second,
	.delete_one = delete_one,
};
