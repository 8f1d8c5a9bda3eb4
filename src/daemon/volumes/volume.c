/* volume.c - see volume.h. */
#include "daemon/volumes/volume.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/layers.h"
#include "daemon/session/session_volume.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/quota.h"
#include "daemon/tenant/tenant.h"
#include "daemon/volumes/volume_state.h"
#include "lib/base/clock.h"
#include "lib/base/err_missing.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

#define MAKE_MS 120000
#define BYTES_MIN (8U << 20)
#define ROOM_LEAST (1U << 20) /* on the disk, for an empty volume */

/* ---- removal
 *
 * Volumes marked for removal in their rows are removed one after the other, each when the last
 * session that mounted it has ended. cordon-storage removes the files, then the row is deleted.
 * After a kill in between the next daemon finds the row and does it again. */

#define REMOVE_MS 600000
#define RETRY_MS 1000

static void volume_removal_next(struct volume_node *n);

static int note_first(const struct store_volume *row, void *cookie)
{
	struct store_volume *first = cookie;

	if (row->state != STORE_VOLUME_DYING)
		return 0;
	*first = *row;
	return 1;
}

static void on_removed(struct completion *done, const struct err *why)
{
	struct volume_node *n = done->arg;
	struct err e = { 0 };

	if (why != NULL)
		e = *why;
	else
		IGNORED(store_volume_delete(core_store(n->core), n->removing, &e), "logged below");
	if (e.code != ERR_NONE) {
		log_warn("a volume could not be removed; tried again", "volume=%s error=%s",
			 n->removing, e.msg);
		n->retry_ns = clock_now_ns() + RETRY_MS * CLOCK_MS;
	}
	n->removing[0] = '\0';
	volume_removal_next(n);
}

static void volume_removal_next(struct volume_node *n)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_REMOVE,
					      .deadline_ms = REMOVE_MS } };
	struct store_volume first = { 0 };
	struct err e;

	if (n->removing[0] != '\0' || clock_now_ns() < n->retry_ns ||
	    !storage_link_is_ready(n->storage))
		return;
	if (store_volume_each_unready(core_store(n->core), "", 0, note_first, &first, &e) < 0) {
		log_error("volumes to be removed could not be read", "error=%s", e.msg);
		n->retry_ns = clock_now_ns() + RETRY_MS * CLOCK_MS;
		return;
	}
	if (first.id[0] == '\0')
		return;
	memcpy(n->removing, first.id, sizeof(n->removing));
	str_copy(r.volume, first.id);
	r.image = first.kind == VOLUME_IMAGE;
	n->removal.done = (struct completion){ .on_done = on_removed, .arg = n };
	storage_link_ask(n->storage, &n->removal, &r, sizeof(r), NULL, 0);
}

static void volume_removal_release(struct volume_node *n)
{
	storage_link_cancel(n->storage, &n->removal);
}

/* ---- volumes */

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
	IGNORED(err_missing(e, "volume", which), "sanitized first");
	err_sanitize(e);
	return -1;
}

/* Write a change of the row and its event, both or none. */
static int volume_save(struct core *c, const struct store_actor *who,
		       const struct store_volume *row, const char *event,
		       int (*how)(struct store *s, const char *id, struct err *e), struct err *e)
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

/* The creation of a volume. */
struct volume_file_making {
	struct volume_node *node;
	struct completion tried; /* the trial of the node: then its kind is known */
	struct storage_job job;
	struct volume_open open;
	struct completions waiter; /* the owner's completion, or none any more */
	struct store_volume row;
	struct store_actor actor;
};

static void volume_finish(struct volume_file_making *m, const struct err *why)
{
	struct core *c = m->node->core;
	struct err e = { 0 }, ignored;

	const struct tenant *t = tenant_find(c, m->row.tenant);

	if (why != NULL)
		e = *why;
	else if (t == NULL || tenant_row(t)->disabled) /* its volumes are removed already */
		IGNORED(err_set(&e, ERR_CONFLICT, "the tenant was removed"), "below");
	else if (volume_save(c, &m->actor, &m->row, "volume.created", store_volume_set_ready, &e) ==
		 0)
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

static void on_opened(struct volume_open *o, int fd, const struct err *e)
{
	OWN_FD mount = fd;

	volume_finish(o->arg, e);
}

/* Mount an image once before the answer, so that a volume reported as made can be used. */
static void on_made(struct completion *done, const struct err *why)
{
	struct volume_file_making *m = done->arg;

	if (why != NULL || m->row.kind != VOLUME_IMAGE) {
		volume_finish(m, why);
		return;
	}
	m->open = (struct volume_open){ .on_done = on_opened, .arg = m };
	volume_open_start(m->node->core, &m->row, &m->open);
}

static void ask_storage(struct volume_file_making *m)
{
	struct storage_volume r = { .head = { .op = STORAGE_VOLUME_MAKE, .deadline_ms = MAKE_MS },
				    .image = m->row.kind == VOLUME_IMAGE,
				    .bytes = m->row.bytes };

	str_copy(r.volume, m->row.id);
	m->job = (struct storage_job){ .done = { .on_done = on_made, .arg = m },
				       .fd = -1,
				       .tenant = m->row.tenant };
	storage_link_ask(m->node->storage, &m->job, &r, sizeof(r), NULL, 0);
}

static void on_tried(struct completion *done, const struct err *why)
{
	struct volume_file_making *m = done->arg;
	struct err e;

	if (why == NULL && m->node->no_images && m->row.kind == VOLUME_IMAGE) {
		m->row.kind = VOLUME_DIRECTORY;
		if (store_volume_set_kind(core_store(m->node->core), m->row.id, m->row.kind, &e) <
		    0)
			why = &e;
	}
	if (why != NULL)
		volume_finish(m, why);
	else
		ask_storage(m);
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
		return err_set(e, ERR_INVALID, "size: must be %s to %s (volume_size_max)",
			       limit_text("disk", BYTES_MIN).s,
			       limit_text("disk", g->volume_size_max).s);
	if (spec->ttl_ms > 0)
		row->expires_ms = row->created_ms + spec->ttl_ms;
	make_id(row->id);
	str_copy(row->tenant, tenant_row(t)->id);
	str_copy(row->name, spec->name);
	return check_quota(c, t, row->bytes, e);
}

int volume_create(struct core *c, struct tenant *t, const struct volume_spec *spec,
		  const struct store_actor *who, struct volume_making *ret, struct err *e)
{
	struct volume_file_making *m;

	if (!core_options(c)->has_volumes)
		return err_set(e, ERR_UNSUPPORTED, "volumes: not available on this server");
	/* Sizes are promises, so the disk's free space of now counts. */
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
	m->tried = (struct completion){ .on_done = on_tried, .arg = m };
	if (m->node->trial.decided)
		ask_storage(m);
	else
		volume_trial_wait(m->node, &m->tried);
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
	if (volume_save(c, who, row, "volume.deleted", store_volume_set_dying, e) < 0)
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

struct volume_some {
	struct store_volume rows[16];
	unsigned n;
};

static int volume_note(const struct store_volume *row, void *cookie)
{
	struct volume_some *s = cookie;

	s->rows[s->n++] = *row;
	return s->n == COUNT(s->rows);
}

/* Volumes that an earlier daemon was making have no client that waits. */
static int drop_unmade(struct core *c, struct err *e)
{
	char after[STORE_ID_MAX] = "";
	struct volume_some s;

	do {
		s.n = 0;
		if (store_volume_each_unready(core_store(c), after, COUNT(s.rows), volume_note, &s,
					      e) < 0)
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

static int volume_setup(struct core *c, struct err *e)
{
	struct volume_node *n = calloc(1, sizeof(*n));

	assert(n != NULL);
	*session_parts_of_core(c, &volume_part) = n;
	n->core = c;
	n->removal.fd = n->trial.job.fd = -1;
	n->storage = core_storage(c);
	volume_trial_setup(n);
	return drop_unmade(c, e);
}

static void volume_release(struct core *c)
{
	struct volume_node *n = volume_node(c);

	if (n == NULL)
		return;
	volume_removal_release(n);
	volume_trial_release(n);
	free(n);
	*session_parts_of_core(c, &volume_part) = NULL;
}

/* Those that a session mounts live until it has ended. */
static void volume_expire(struct volume_node *n)
{
	struct volume_some s = { .n = 0 };
	struct err e = { 0 };
	int done;

	done = store_volume_expired(core_store(n->core), core_now_ms(), COUNT(s.rows), volume_note,
				    &s, &e);
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
		volume_expire(n);
	}
	volume_removal_next(n);
	volume_trial_second(n);
}

static bool delete_one(struct core *c, struct tenant *t)
{
	struct volume_some s = { .n = 0 };
	struct err e;

	if (store_volume_list(core_store(c), tenant_row(t)->id, "", 1, volume_note, &s, &e) == 0 &&
	    (s.n == 0 || delete_row(c, &s.rows[0], NULL, &e) == 0))
		return s.n > 0;
	log_error("a volume could not be removed", "tenant=%s error=%s", tenant_row(t)->id, e.msg);
	return false;
}

const struct session_part volume_part = {
	.name = "volumes",
	.setup = volume_setup,
	.release = volume_release,
	.on_second = on_second,
	.delete_one = delete_one,
};
