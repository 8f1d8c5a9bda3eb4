/* session_disk.c - see session_disk.h.
 *
 * Requests to cordon-storage are repeated if it dies (REASON_PEER_DIED): making, checking and
 * removing an image are idempotent.
 */
#include "daemon/session/session_disk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/disk/disk_calls.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_states.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

/* How often and how long to ask for a disk still in use. */
#define USED_TRIES 300
#define USED_MS 100
#define LIST "disks.list"
#define LIST_MAX (16U << 20)

/* A session waiting for its disk. */
struct disk_boot {
	struct session_op op; /* first */
	struct storage_job job;
	session_disk_fn *on_ready;
	struct loop_timer again;
	unsigned tries;
	struct keeper_create plan;
};

/* An image in removal. It outlives its session. */
struct disk_removal {
	struct disk_removal *next, **link; /* list.h */
	struct core *core;
	struct storage_job job;
	char id[STORE_ID_MAX], tenant[STORE_ID_MAX];
};

/* ---- the start */

static void on_boot_lost(struct session_op *op, const struct err *why)
{
	struct disk_boot *b = (struct disk_boot *)op;
	struct core *c = b->op.session->core;

	storage_link_cancel(&c->storage, &b->job);
	loop_timer_cancel(c->loop, &b->again);
	session_op_end(&b->op);
	free(b);
}

static const struct session_op_calls disk_boot_calls = { .kind = SESSION_OP_DISK_BOOT,
							 .on_lost = on_boot_lost,
							 .on_free = on_boot_lost };

/* A session without an earlier cell gets a new image, and so does one after a reset. */
static void disk_ask(struct disk_boot *b)
{
	const struct store_session *row = &b->op.session->row;
	struct storage_link *link = &b->op.session->core->storage;

	if (row->state == SESSION_CREATING || row->cold == COLD_BLANK)
		disk_call_make(link, &b->job, row->id, row->limits.disk_bytes, row->limits.inodes,
			       row->keep_ms > 0);
	else
		disk_call_check(link, &b->job, row->id);
}

static void on_again(struct loop_timer *t)
{
	disk_ask(t->arg);
}

static void on_disk(struct completion *done, const struct err *e)
{
	struct disk_boot *b = done->arg;
	struct session *s = b->op.session;

	if (e != NULL && e->reason == REASON_PEER_DIED) {
		disk_ask(b); /* the next cordon-storage */
		return;
	}
	/* The keeper still unmounts a cell of an earlier daemon. */
	if (e != NULL && e->code == ERR_CONFLICT && b->tries++ < USED_TRIES) {
		loop_timer_set(s->core->loop, &b->again, clock_now_ns() + USED_MS * CLOCK_MS);
		return;
	}
	session_op_end(&b->op);
	b->on_ready(s, &b->plan, e);
	free(b);
}

void session_disk_prepare(struct session *s, const struct keeper_create *plan,
			  session_disk_fn *on_ready)
{
	struct disk_boot *b;

	if (s->row.storage != SESSION_DISK) {
		on_ready(s, plan, NULL);
		return;
	}
	b = calloc(1, sizeof(*b));
	assert(b != NULL);
	b->plan = *plan;
	b->on_ready = on_ready;
	b->job.fd = -1;
	b->job.tenant = s->row.tenant;
	b->again = (struct loop_timer){ .on_expire = on_again, .arg = b };
	b->job.done = (struct completion){ .on_done = on_disk, .arg = b };
	session_op_begin(&b->op, s, &disk_boot_calls);
	disk_ask(b);
}

/* ---- the end */

/* A failed removal is only logged: session_disk_collect() finds the image again. */
static void on_removed(struct completion *done, const struct err *e)
{
	struct disk_removal *r = done->arg;

	if (e != NULL && e->reason == REASON_PEER_DIED) {
		disk_call_remove(&r->core->storage, &r->job, r->id);
		return;
	}
	if (e != NULL)
		log_warn("the disk of a session could not be removed; tried again in some minutes",
			 "session_id=%s error=%s", r->id, e->msg);
	LIST_REMOVE(r);
	free(r);
}

/* tenant "": not known any more. */
static void remove_image(struct core *c, const char *id, const char *tenant)
{
	struct disk_removal *r = calloc(1, sizeof(*r));

	assert(r != NULL);
	r->core = c;
	r->job.fd = -1;
	r->job.done = (struct completion){ .on_done = on_removed, .arg = r };
	memcpy(r->id, id, strnlen(id, sizeof(r->id) - 1));
	memcpy(r->tenant, tenant, strnlen(tenant, sizeof(r->tenant) - 1));
	r->job.tenant = r->tenant;
	LIST_PUSH(&c->disk_removals, r);
	disk_call_remove(&c->storage, &r->job, r->id);
}

void session_disk_free(struct session *s)
{
	if (s->row.storage != SESSION_DISK || s->row.state != SESSION_ENDED || s->disk_removed)
		return;
	s->disk_removed = true;
	remove_image(s->core, s->row.id, s->row.tenant);
}

/* ---- after recovery, and at intervals */

/* The list is complete: cordon-storage has answered without error. */
static void remove_unknown(struct core *c, int list)
{
	OWN_MEM char *text = malloc(LIST_MAX + 1);
	ssize_t n;
	unsigned removed = 0;

	assert(text != NULL);
	n = pread(list, text, LIST_MAX, 0);
	for (ssize_t at = 0; n > 0 && at < n;) {
		text[n] = '\0';
		const char *id = text + at;

		at += (ssize_t)strlen(id) + 1;
		if (session_by_id(c, id) != NULL)
			continue;
		remove_image(c, id, "");
		removed++;
	}
	if (removed > 0)
		log_info("disks without a session are removed", "disks=%u", removed);
}

static void list_images(struct core *c);

static void on_listed(struct completion *done, const struct err *e)
{
	struct core *c = done->arg;

	if (e == NULL)
		remove_unknown(c, c->disk_list_fd);
	io_close_all(&c->disk_list_fd, 1);
	if (e != NULL && e->reason == REASON_PEER_DIED)
		list_images(c);
	else if (e != NULL)
		log_warn("disks cannot be listed", "error=%s", e->msg);
}

static void list_images(struct core *c)
{
	int copy = -1;

	/* A file without a name, written by cordon-storage. */
	c->disk_list_fd = openat(c->o.state_fd, LIST, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (c->disk_list_fd >= 0)
		copy = fcntl(c->disk_list_fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0) {
		log_warn("disks cannot be listed", "error=%s", strerror(errno));
		io_close_all(&c->disk_list_fd, 1);
		return;
	}
	(void)unlinkat(c->o.state_fd, LIST, 0);
	c->disk_list.done = (struct completion){ .on_done = on_listed, .arg = c };
	disk_call_list(&c->storage, &c->disk_list, copy);
}

void session_disk_collect(struct core *c)
{
	if (c->o.has_storage && c->disk_list_fd < 0)
		list_images(c);
}

void session_disk_collect_end(struct core *c)
{
	storage_link_cancel(&c->storage, &c->disk_list);
	io_close_all(&c->disk_list_fd, 1);
	while (c->disk_removals != NULL) {
		struct disk_removal *r = c->disk_removals;

		storage_link_cancel(&c->storage, &r->job);
		LIST_REMOVE(r);
		free(r);
	}
}
