/* session_memory.c - see session_memory.h. */
#include "daemon/guest/session_memory.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "daemon/guest/memory_images.h"
#include "daemon/guest/session_guest.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_op.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/layer_origin.h"
#include "daemon/tenant/image_charge.h"
#include "daemon/tenant/quota.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define WAIT_MS 660000
#define DEVICES_MAX (16ULL << 20) /* bytes of the state of devices: 12 KiB */
#define MIB (1ULL << 20)

/* NULL is allowed. */
static struct session_memory *memory_of(struct session_op *op)
{
	return (struct session_memory *)op;
}

/* ---- ends */

static void memory_detach(struct session_memory *m)
{
	live_guest_cancel(&m->call);
	storage_link_cancel(&m->core->storage, &m->job);
	layers_settle(&m->core->layers, &m->writing, m->layer[0] != '\0');
	session_op_end(&m->op);
}

static void drop_image(struct session_memory *m)
{
	io_close_all(m->image, LIVE_GUEST_IMAGE);
	io_close_all(&m->base, 1);
	image_charge_unuse(m->core, m->held);
	image_charge_unuse(m->core, m->base_held);
	m->held[0] = m->base_held[0] = '\0';
	session_memory_give_back(m->core, m->lender);
}

static void memory_fail(struct session_memory *m, const struct err *e)
{
	struct session *s = m->op.session;
	bool stopped = m->stopped;
	struct err why = *e;

	memory_detach(m);
	drop_image(m);
	if (stopped && s != NULL)
		session_memory_go_on(s);
	completion_end(&m->done, &why);
}

void session_memory_release(struct session_memory *m)
{
	struct session *s = m->op.session; /* not NULL: in progress, or past its time */
	bool stopped = m->stopped;

	if (m->core == NULL)
		return;
	completion_cancel(&m->done);
	memory_detach(m);
	if (stopped && s != NULL)
		session_memory_go_on(s);
	drop_image(m);
	if (m->layer[0] != '\0')
		layers_unhold(&m->core->layers, m->layer);
	m->layer[0] = '\0';
	m->core = NULL;
}

struct session_memory *session_memory_new(completion_fn *on_done, void *arg)
{
	struct session_memory *m = calloc(1, sizeof(*m));

	assert(m != NULL);
	*m = (struct session_memory){ .done = { .on_done = on_done, .arg = arg },
				      .image = { -1, -1 },
				      .base = -1,
				      .job.fd = -1 };
	return m;
}

void session_memory_free(struct session_memory **m)
{
	if (*m == NULL)
		return;
	session_memory_release(*m);
	free(*m);
	*m = NULL;
}

static void on_lost(struct session_op *op, const struct err *why)
{
	struct session_memory *m = memory_of(op);

	m->stopped = false;
	memory_fail(m, why);
}

static const struct session_op_calls memory_calls = { .kind = SESSION_OP_MEMORY,
						      .on_lost = on_lost,
						      .on_free = on_lost };

/* ---- steps */

/* The layer's row is held until the caller has a use of its own. */
static int write_row(struct session_memory *m, struct err *e)
{
	struct store_layer row = layers_row(&m->writing, &m->job.reply, m->kind);
	char origin[LAYER_ORIGIN_MAX];

	layer_origin_of_session(m->op.session, m->root, origin);
	row.origin = origin;
	return store_layer_insert_held(m->core->store, &row, e);
}

static void memory_succeed(struct session_memory *m)
{
	memory_detach(m);
	completion_end(&m->done, NULL);
}

static void on_saved(struct completion *done, const struct err *e)
{
	struct session_memory *m = done->arg;
	struct err why;

	if (e != NULL || write_row(m, &why) < 0) {
		memory_fail(m, e != NULL ? e : &why);
		return;
	}
	memcpy(m->layer, m->writing.id, sizeof(m->layer));
	m->bytes = m->job.reply.bytes;
	memory_succeed(m);
}

/* on_saved() follows. m->bytes becomes the bytes on disk then. */
static int memory_save(struct session_memory *m, struct err *e)
{
	struct session *s = m->op.session;

	m->bytes = memory_image_bytes(m->image);
	m->job.done = (struct completion){ .on_done = on_saved, .arg = m };
	return memory_image_save(m->core, s->row.tenant, m->bytes, m->image, &m->writing, &m->job,
				 e);
}

static void on_copied(struct completion *done, const struct err *e)
{
	struct session_memory *m = done->arg;

	if (e != NULL)
		memory_fail(m, e);
	else
		memory_succeed(m);
}

/* The image counts from here on, and the cell's memory file is closed after the copy. */
static int memory_copy(struct session_memory *m, struct err *e)
{
	struct session *s = m->op.session;
	int from[LIVE_GUEST_IMAGE], to[LIVE_GUEST_IMAGE];

	m->bytes = memory_image_bytes(m->image);
	if (quota_memory_fits(m->core, s->tenant, m->bytes, e) < 0)
		return -1;
	memcpy(from, m->image, sizeof(from));
	if (memory_image_make_empty(m->image, to, e) < 0) {
		io_close_all(from, LIVE_GUEST_IMAGE);
		return -1;
	}
	image_charge_name(m->held);
	image_charge_use(m->core, s->tenant, m->held, m->bytes);
	m->job.done = (struct completion){ .on_done = on_copied, .arg = m };
	m->job.tenant = s->row.tenant;
	storage_link_memory_copy(&m->core->storage, &m->job, m->bytes, from, to);
	return 0;
}

/* For each child a copy of the changes, if these are less than one image for all. */
static uint64_t changes_max(const struct session *s, unsigned children)
{
	int base = live_guest_base(s->cell);
	struct stat st;

	if (children == 0 || base < 0 || fstat(base, &st) < 0)
		return 0;
	return children == 1 ? s->row.limits.memory_bytes
			     : (uint64_t)st.st_blocks * 512 / (children - 1);
}

/* The changes count from here on, and the image below them for one more. */
static int keep_changes(struct session_memory *m, struct err *e)
{
	struct session *s = m->op.session;

	m->bytes = memory_image_bytes(m->image);
	if (quota_memory_fits(m->core, s->tenant, m->bytes, e) < 0)
		return -1;
	m->base = fcntl(live_guest_base(s->cell), F_DUPFD_CLOEXEC, 0);
	if (m->base < 0)
		return err_sys(e, "memory of a guest");
	image_charge_name(m->held);
	image_charge_use(m->core, s->tenant, m->held, m->bytes);
	memcpy(m->base_held, s->row.image, sizeof(m->base_held));
	m->base_bytes = s->row.image_bytes;
	image_charge_use(m->core, s->tenant, m->base_held, m->base_bytes);
	memcpy(m->lender, s->row.id, sizeof(m->lender));
	s->guest.shares_pages = true;
	memory_succeed(m);
	return 0;
}

/* PID 1 of the cell is not trusted: its file must be as large as the guest's memory. */
static int check_image(const struct session_memory *m, struct err *e)
{
	uint64_t memory = m->op.session->row.limits.memory_bytes / MIB * MIB;
	struct stat ram, devices;

	if (fstat(m->image[0], &ram) < 0 || fstat(m->image[1], &devices) < 0)
		return err_sys(e, "memory of a guest");
	if (m->call.only_changes && (uint64_t)ram.st_blocks * 512 > m->call.changes_max)
		return err_set(e, ERR_INVALID, "the changes of a guest are more than %llu bytes",
			       (unsigned long long)m->call.changes_max);
	if ((uint64_t)ram.st_size == memory && (uint64_t)devices.st_size <= DEVICES_MAX)
		return 0;
	return err_set(e, ERR_INVALID, "the memory of the guest has %lld bytes, not %llu",
		       (long long)ram.st_size, (unsigned long long)memory);
}

/* Its callers have asked before the guest was told to stop. Data sent to it until then, such as the
 * secret of a newly begun execution, is in the memory, too. */
static int check_others(const struct session_memory *m, struct err *e)
{
	if ((m->how & SESSION_MEMORY_STAY) != 0) /* the session itself continues with it */
		return 0;
	return session_parts_check_memory(m->op.session, m->children > 0, e);
}

static int use_image(struct session_memory *m, struct err *e)
{
	if (m->call.only_changes)
		return keep_changes(m, e);
	return (m->how & SESSION_MEMORY_SAVE) != 0 ? memory_save(m, e) : memory_copy(m, e);
}

static void on_snapshot(struct live_guest_call *k, int *image, const struct err *e)
{
	struct session_memory *m = k->arg;
	struct err why;

	if (e != NULL) {
		memory_fail(m, e);
		return;
	}
	m->stopped = (m->how & SESSION_MEMORY_STAY) != 0;
	memcpy(m->image, image, sizeof(m->image));
	if (check_image(m, &why) < 0 || check_others(m, &why) < 0 || use_image(m, &why) < 0)
		memory_fail(m, &why);
}

static int check_runs(const struct session *s, struct err *e)
{
	if (s->cell == NULL || s->cell->state != LIVE_UP || s->cell->call != NULL ||
	    session_op_find(s, SESSION_OP_CAPTURE) != NULL)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       session_shown_name(&s->row));
	return 0;
}

static int memory_check(const struct session *s, struct err *e)
{
	if (session_level_check(s, CELL_CAN_KEEP_MEMORY, "memory", e) < 0)
		return -1;
	if (session_op_find(s, SESSION_OP_MEMORY) != NULL)
		return err_set(e, ERR_CONFLICT, "session %s is being saved", s->row.id);
	return check_runs(s, e);
}

static void memory_begin(struct session_memory *m)
{
	struct session *s = m->op.session;

	m->call = (struct live_guest_call){ .on_done = on_snapshot,
					    .arg = m,
					    .changes_max = changes_max(s, m->children) };
	live_guest_snapshot(s->cell, (m->how & SESSION_MEMORY_STAY) != 0, &m->call);
}

/* Let the next memory file begin. */
void session_memory_give_back(struct core *c, char lender[STORE_ID_MAX])
{
	struct session *s = lender[0] == '\0' ? NULL : session_by_id(c, lender);
	struct session_memory *next =
		s == NULL ? NULL : memory_of(session_op_find(s, SESSION_OP_MEMORY));
	struct err e;

	lender[0] = '\0';
	if (s != NULL)
		s->guest.shares_pages = false;
	if (next == NULL || !next->waits)
		return;
	next->waits = false;
	if (check_runs(s, &e) < 0)
		memory_fail(next, &e);
	else
		memory_begin(next);
}

void session_memory(struct session *s, const char *kind, unsigned how, unsigned children,
		    struct session_memory *m)
{
	struct completion done = m->done;
	struct err e;

	*m = (struct session_memory){ .done = done,
				      .core = s->core,
				      .how = how,
				      .children = children,
				      .waits = s->guest.shares_pages,
				      .image = { -1, -1 },
				      .base = -1,
				      .job.fd = -1 };
	str_copy(m->kind, kind);
	completion_begin(&m->done, s->core->loop, NULL);
	completion_set_deadline(&m->done, WAIT_MS, "memory of a guest");
	if (memory_check(s, &e) < 0 || session_guest_root(s, m->root, &e) < 0) {
		completion_end(&m->done, &e);
		return;
	}
	session_op_begin(&m->op, s, &memory_calls);
	if (!m->waits)
		memory_begin(m);
}

bool session_memory_gives_changes(const struct session_memory *m)
{
	return m->op.session != NULL && m->call.cell != NULL &&
	       m->call.changes_max >= m->op.session->row.limits.memory_bytes;
}

/* ---- a stopped guest */

static void on_resumed(struct live_guest_call *k, int *image, const struct err *e)
{
	struct session *s = k->arg;

	if (e != NULL && e->code != ERR_CONFLICT)
		log_warn("a guest could not be let run", "session_id=%s error=%s", s->row.id,
			 e->msg);
}

void session_memory_go_on(struct session *s)
{
	struct boot_request r;

	if (s->cell == NULL)
		return;
	session_guest_request(s, &r);
	live_guest_cancel(&s->guest.go_on);
	s->guest.go_on = (struct live_guest_call){ .on_done = on_resumed, .arg = s };
	live_guest_resume(s->cell, &r, &s->guest.go_on);
}
