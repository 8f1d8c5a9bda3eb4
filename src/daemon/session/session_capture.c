/* session_capture.c - see session_capture.h.
 *
 * The steps: mark the row, freeze, ask the keeper and cordon-storage at once (they share a pipe),
 * thaw when no process can write to the pipe any more, write the row when the layer is on disk. The
 * writer has read all files when it exits. cordond sees its exit by a second descriptor of the
 * pipe. The answer of cordon-storage decides: without a writer, the archive has no last record.
 *
 * A built-in of the guest's agent reads the files of a virtual machine (guest_reader.h) and stops
 * the guest's programs. The guest is not trusted to send all of them: the time without a byte is
 * bounded.
 *
 * A capture needs a keeper process and a cordon-storage process. So few run at a time, and fewer of
 * one tenant. Some more may run for tenants without one, since two tenants can have all the others
 * for minutes. The rest waits, neither frozen nor charged.
 *
 * The time in which a cell is frozen counts for none of the timeouts of its executions: cordond
 * adds it to captured_ms, and PID 1 is told by PAUSED before it runs again. If cordond dies
 * meanwhile, the next one does not know since when, and this time counts. It counts in a virtual
 * machine, too: the shim, which keeps time there, is not frozen.
 *
 * A struct capturing is freed when unpacking and thawing have both ended (capture_finish()), or at
 * once when the session is lost (on_lost()).
 */
#include "daemon/session/session_capture.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/cells/keeper_link.h"
#include "daemon/cells/live_cell.h"
#include "daemon/disk/layers.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_op.h"
#include "daemon/session/session_pause.h"
#include "daemon/session/session_spec.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"
#include "daemon/session/session_suspend.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_stack.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/wire/storage_msg.h"

#define CAPTURE_MS 600000      /* for the whole capture */
#define SPARE_BYTES (1U << 20) /* directories and metadata beside the content */
#define ENTRIES_SPARE 1024
#define PIPE_BYTES (1 << 20)
#define GUEST_MS 300000	       /* for the whole capture of a guest */
#define GUEST_SILENCE_MS 60000 /* without a byte: emulated guests are slow */

/* At a time. diff_reader.c and storage_link.c have room for these. The second: those of guests
 * among them. A guest decides how long its capture takes. */
static const struct lanes_room running_room = STORAGE_CAPTURES_ROOM, guests_room = { 4, 3, 4 };

struct capturing {
	struct session_op op;		/* first */
	struct capturing *next, **link; /* list.h: all captures of the core, the newest first */
	struct session_capture *to;	/* NULL: cancelled */
	struct layer_writing layer;
	struct storage_job job;
	struct keeper_call *call;    /* CAPTURE */
	struct guest_reader *reader; /* owned. NULL: a keeper reads */
	struct completion ready;     /* of the reader */
	char kind[STORE_LAYER_KIND_MAX];
	bool waiting, short_of; /* for other captures to end. short_of: those of the tenant hold its
				   quota */
	bool counted, is_guest; /* capture_count() */
	bool froze;		/* the cell was running before */
	bool unsure;		/* the keeper refused to freeze it, and may refuse to thaw it */
	bool keep_frozen;
	uint64_t still_ns; /* since when its programs stand still for this. 0: they do not */
	bool has_row;	   /* of the layer, held until the owner takes it */
	bool thaw_asked, thawing, unpacking;
	struct loop_fd writers; /* an end of the pipe, watched until no process writes to it */
	int pipe;		/* owned: that end, or -1 */
	struct capture_values search;
	struct err why; /* code ERR_NONE: no step has failed */
};

static struct capturing *capture_find(const struct session *s)
{
	return (struct capturing *)session_op_find(s, SESSION_OP_CAPTURE);
}

/* The capture runs, or does not run any more. Repeatable. */
static void capture_count(struct capturing *k, bool runs)
{
	struct core *c = k->op.session->core;
	unsigned one = runs ? 1 : -1U;

	if (k->counted == runs)
		return;
	if (runs)
		k->is_guest = guest_reader_is_needed(k->op.session);
	k->counted = runs;
	c->captures_running += one;
	c->guest_captures += k->is_guest ? one : 0;
	k->op.session->tenant->captures += one;
}

/* Waiting captures are started from the loop. A capture refused at once ends its owner, and the
 * caller may be in the middle of a list of owners. */
static void start_soon(struct core *c)
{
	loop_defer(c->loop, &c->next_capture);
}

/* ---- the time in which the programs stand still */

/* Called before the programs run again. Repeatable. */
static void still_end(struct capturing *k)
{
	struct session *s = k->op.session;
	uint64_t ms = k->still_ns == 0 ? 0 : (clock_now_ns() - k->still_ns) / CLOCK_MS;
	struct err e;

	k->still_ns = 0;
	s->captured_ms += ms;
	if (ms == 0 || !s->cell->connected)
		return;
	if (ms < AGENT_TIME_MAX_MS && agent_send_paused(&s->cell->agent, ms, &e) == 0) {
		live_cell_lease_renew_deadline(s->cell);
		live_cell_flush(s->cell);
	}
}

/* ---- the end */

/* Continue the guest's programs, unless they must stay stopped (keep_frozen). */
static void free_reader(struct capturing *k, struct session *s)
{
	if (k->keep_frozen && k->why.code == ERR_NONE && k->to != NULL && s->guest.still == NULL)
		s->guest.still = k->reader;
	else
		guest_reader_free(k->reader);
	k->reader = NULL;
}

/* End the capture once both its halves have ended. The owner is called last: it may start the next
 * capture or end the session. */
static void capture_finish(struct capturing *k)
{
	struct session *s = k->op.session;
	struct core *c = s->core;
	struct session_capture *to = k->to;
	struct err why = k->why;
	char id[STORE_ID_MAX];

	if (k->thawing || k->unpacking)
		return; /* the other of the two has not ended */
	capture_count(k, false);
	session_op_end(&k->op);
	LIST_REMOVE(k);
	layers_settle(&s->core->layers, &k->layer, why.code == ERR_NONE);
	free_reader(k, s);
	capture_values_release(&k->search);
	if (to != NULL)
		to->under_way = NULL;
	else if (k->has_row) /* cancelled after it was written: no owner takes it */
		layers_let_go(&c->layers, k->layer.id);
	free(k);
	memcpy(id, s->row.id, sizeof(id));
	if (to != NULL) {
		completion_end(&to->done, why.code == ERR_NONE ? NULL : &why);
		s = session_find(c, id); /* the owner may have ended it */
	}
	/* A client has used the session during the capture. */
	if (s != NULL && s->row.state == SESSION_PAUSED && s->when_running.first != NULL &&
	    session_op_find(s, SESSION_OP_SUSPEND) == NULL)
		session_resume(s, &s->waker, NULL);
	start_soon(c);
}

/* The first failure is the cause. Later ones only follow from it. */
static void capture_fail(struct capturing *k, const struct err *e)
{
	if (k->why.code == ERR_NONE)
		k->why = *e;
}

/* Close the second read end. Also for an unstarted capture. cordon-storage is then the only reader,
 * so a writer ends as soon as cordon-storage stops reading. */
static void capture_unwatch(struct capturing *k)
{
	if (k->pipe < 0)
		return;
	loop_remove(k->op.session->core->loop, &k->writers);
	io_close_all(&k->pipe, 1);
}

/* ---- freezing and thawing */

/* The mark in the row lets the next daemon thaw the cell if this one dies. */
static void capture_mark(struct session *s, uint32_t cold)
{
	struct err e;

	s->row.cold = cold;
	if (store_session_update_state(s->core->store, &s->row, &e) < 0)
		log_warn("mark of a capture could not be written", "session_id=%s error=%s",
			 s->row.id, e.msg);
}

static void on_thawed(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *cell = arg;
	struct session *s = session_freeze_answered(cell, e != NULL);
	struct capturing *k = s == NULL ? NULL : capture_find(s);

	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, false, on_thawed); /* from another keeper */
		return;
	}
	/* A cell that stays frozen is useless and would never end by itself. Only if the keeper had
	 * refused to freeze it is a refused thaw harmless. */
	if (e != NULL && (k == NULL || !k->unsure)) {
		session_stop(s, SESSION_CRASHED, "the cell could not be thawed");
		return;
	}
	cell->frozen = false;
	if (s->row.cold == COLD_CAPTURING)
		capture_mark(s, COLD_NO);
	if (k != NULL) {
		k->thawing = false;
		capture_finish(k);
	}
}

static void capture_thaw(struct capturing *k)
{
	if (!k->froze || k->thaw_asked ||
	    (k->keep_frozen && k->why.code == ERR_NONE && k->to != NULL))
		return;
	k->thaw_asked = k->thawing = true;
	still_end(k);
	session_ask_freeze(k->op.session, false, on_thawed);
}

/* ---- the stream */

static int write_row(struct capturing *k, const struct storage_reply *r, struct err *e)
{
	struct store_layer row = layers_row(&k->layer, r, k->kind);

	return store_layer_insert_held(k->op.session->core->store, &row, e);
}

/* Name the quota as the reason if the layer needs more than was left of it. */
static void fail_unpack(struct capturing *k, const struct err *e)
{
	struct err why = *e;

	if (why.code == ERR_LIMIT && why.reason == REASON_NONE &&
	    k->layer.short_of == REASON_QUOTA_STORED)
		(void)err_set_reason(&why, REASON_QUOTA_STORED,
				     "the tenant's stored bytes are used up (tenant_max_stored): "
				     "there is room for %llu more",
				     (unsigned long long)k->layer.bytes);
	else if (why.code == ERR_LIMIT && why.reason == REASON_NONE &&
		 k->layer.short_of == REASON_STORAGE_FULL)
		(void)err_set_reason(&why, REASON_STORAGE_FULL,
				     "the disk of the storage folder is nearly full "
				     "(storage_reserve): there is room for %llu bytes",
				     (unsigned long long)k->layer.bytes);
	capture_fail(k, &why);
}

static int take_found(struct capturing *k, struct err *e)
{
	struct session_capture_found found = { 0 };

	if (capture_values_take(&k->search, k->op.session, k->kind, &found, e) < 0)
		return -1;
	if (k->to != NULL)
		k->to->found = found;
	return 0;
}

/* cordon-storage has ended, with or without a layer. The row is written before the owner learns of
 * the layer, so that a daemon that dies in between removes it. */
static void on_unpacked(struct completion *c, const struct err *e)
{
	struct capturing *k = c->arg;
	const struct storage_reply *r = &k->job.reply;
	struct err why;

	k->unpacking = false;
	capture_unwatch(k);
	if (k->call != NULL)
		keeper_link_cancel(k->call);
	k->call = NULL;
	if (e != NULL)
		fail_unpack(k, e);
	if (k->to == NULL) {
		(void)err_set(&why, ERR_CONFLICT, "the capture was cancelled");
		capture_fail(k, &why);
	}
	capture_thaw(k);
	if (k->why.code == ERR_NONE &&
	    (take_found(k, &why) < 0 ||
	     session_parts_keep_values(k->op.session, k->layer.id, k->kind, &why) < 0 ||
	     write_row(k, r, &why) < 0))
		capture_fail(k, &why);
	else
		k->has_row = k->why.code == ERR_NONE;
	if (k->why.code == ERR_NONE && k->to != NULL) {
		memcpy(k->to->layer, k->layer.id, sizeof(k->to->layer));
		k->to->bytes = r->bytes;
		k->to->entries = r->entries;
	}
	capture_finish(k);
}

/* The keeper has started the writer, or refused. */
static void on_captured(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct capturing *k = arg;
	OWN_FD unused = fd;

	k->call = NULL;
	if (e != NULL)
		capture_fail(k, e); /* cordon-storage sees the end of the pipe */
}

/* No process can write to the pipe any more, so all files of the cell are read and it may run
 * again. */
static void on_read(struct loop_fd *f, uint32_t events)
{
	struct capturing *k = f->arg;

	capture_unwatch(k);
	capture_thaw(k);
}

/* Watch for the end of the writer. Without this the cell is thawed only when the layer is on disk.
 */
static void capture_watch(struct capturing *k, int pipe)
{
	struct err e;

	k->pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 0);
	k->writers = (struct loop_fd){ .fd = -1, .on_ready = on_read, .arg = k };
	if (k->pipe >= 0 &&
	    loop_add(k->op.session->core->loop, &k->writers, k->pipe, EPOLLHUP, &e) < 0)
		io_close_all(&k->pipe, 1);
}

/* from is taken over. */
static void capture_unpack(struct capturing *k, struct storage_unpack *r, int from)
{
	struct session *s = k->op.session;
	int values, found;

	r->format = STORAGE_CAPTURE;
	r->reserve_percent = (uint32_t)s->core->layers.reserve_percent;
	r->head.deadline_ms = k->reader != NULL ? GUEST_MS : CAPTURE_MS;
	r->bytes_max = k->layer.bytes;
	r->entries_max = s->row.limits.inodes + ENTRIES_SPARE;
	if (r->entries_max > k->layer.entries)
		r->entries_max = k->layer.entries;
	str_copy(r->layer, k->layer.id);
	k->unpacking = true;
	k->job.done = (struct completion){ .on_done = on_unpacked, .arg = k };
	k->job.tenant = k->layer.tenant;
	capture_values_give(&k->search, &values, &found);
	storage_link_unpack_searched(&s->core->storage, &k->job, r, from, values, found);
}

/* A guest has one file system, but the layers of the host template are mounted at several
 * directories. So cordon-storage gets these directories to split the archive. */
static int unpack_guest(struct capturing *k, struct err *e)
{
	struct session *s = k->op.session;
	struct core *c = s->core;
	struct storage_unpack r = { .silence_ms = GUEST_SILENCE_MS };
	struct template_stack stack;
	int from;

	if (session_spec_stack(s->template, &s->row, s->own, &stack, NULL, e) < 0 ||
	    capture_values_find(&k->search, s, k->kind, e) < 0)
		return -1;
	for (uint32_t i = 1;
	     stack.base == TEMPLATE_BASE_HOST && i < c->o.host.nlayers && i < STORAGE_HOST_MAX; i++)
		(void)snprintf(r.at[i], sizeof(r.at[i]), "%.15s", c->o.host.layers[i].at + 1);
	from = guest_reader_take(k->reader);
	if (fcntl(from, F_SETFL, 0) < 0) { /* cordon-storage waits for each byte */
		io_close_all(&from, 1);
		return err_sys(e, "pipe");
	}
	capture_unpack(k, &r, from);
	return 0;
}

static void on_reader_ready(struct completion *done, const struct err *e)
{
	struct capturing *k = done->arg;
	struct err why;

	k->unpacking = false;
	if (e == NULL && unpack_guest(k, &why) == 0)
		return;
	capture_fail(k, e != NULL ? e : &why);
	capture_finish(k);
}

static int start_stream(struct capturing *k, struct err *e)
{
	struct session *s = k->op.session;
	struct keeper_create plan;
	struct storage_unpack r = { 0 };
	struct keeper_diff ask;
	int ends[2];

	if (guest_reader_is_needed(s)) {
		k->unpacking = true; /* on_reader_ready() ends it */
		k->ready = (struct completion){ .on_done = on_reader_ready, .arg = k };
		k->reader = guest_reader_new(s, "capture", &k->ready);
		return 0;
	}
	if (session_spec_plan(s->core, s->template, &s->row, s->own, &plan, e) < 0 ||
	    capture_values_find(&k->search, s, k->kind, e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES); /* faster. A smaller pipe works as well */
	capture_watch(k, ends[0]);
	session_diff_request(s, KEEPER_CAPTURE, &plan, &ask);
	k->call = keeper_link_ask(&s->core->cells.keeper, s->row.tenant, &ask, sizeof(ask), ends[1],
				  KEEPER_URGENT, on_captured, k);
	capture_unpack(k, &r, ends[0]);
	return 0;
}

static void begin_stream(struct capturing *k)
{
	struct err e;

	if (start_stream(k, &e) == 0)
		return;
	capture_fail(k, &e);
	capture_thaw(k);
	capture_finish(k);
}

static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *cell = arg;
	bool holds = live_cell_holds(cell, e);
	struct session *s = session_freeze_answered(cell, holds);
	struct capturing *k = s == NULL ? NULL : capture_find(s);
	struct err why;

	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, true, on_frozen);
		return;
	}
	cell->frozen = true; /* possibly, even after an error */
	if (e == NULL) {
		begin_stream(k);
		return;
	}
	if (holds)
		(void)err_set_reason(
			&why, REASON_NOT_FROZEN,
			"the files of session %s cannot be read: one of its programs does not come "
			"out of a system call (it writes much to a slow disk, or waits for a "
			"program that traces one of its threads): try again, or end that program",
			s->row.id);
	k->unsure = !holds;
	if (k->unsure)
		k->still_ns = 0; /* its programs ran */
	capture_fail(k, holds ? &why : e);
	capture_thaw(k);
	capture_finish(k);
}

/* ---- the start */

static int check_state(const struct session *s, struct err *e)
{
	if ((s->row.state == SESSION_RUNNING || s->row.state == SESSION_PAUSED ||
	     s->row.state == SESSION_PAUSING) &&
	    s->cell != NULL && s->cell->call == NULL && !session_is_cold(&s->row))
		return 0;
	return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id, session_shown_name(&s->row));
}

/* Whether a capture is possible at all. Room and quota are checked when it is its turn. */
static int capture_check(const struct session *s, struct err *e)
{
	if (session_level_check(s, CELL_CAN_DIFF, "snapshot", e) < 0)
		return -1;
	if (!guest_reader_is_needed(s) && s->core->cells.keeper.restrictions.freezer == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "snapshots need cgroup v2, which this machine does not have");
	if (capture_find(s) != NULL)
		return err_set(e, ERR_CONFLICT, "session %s is being captured already", s->row.id);
	if (check_state(s, e) < 0)
		return -1;
	if (s->own != NULL && s->own->nlayers >= TEMPLATE_STACK_MAX)
		return err_set(e, ERR_LIMIT, "session %s has %zu layers, the most there can be",
			       s->row.id, s->own->nlayers);
	return 0;
}

/* Reserve room for the layer. PID 1 reports how much the disk holds, and may be under the tenant's
 * control, so the report counts only up to the limit. */
static int capture_admit(struct capturing *k, struct err *e)
{
	struct session *s = k->op.session;
	uint64_t size = s->row.limits.disk_bytes, held = s->cell->disk_bytes;

	return layers_admit(&s->core->layers, &k->layer, s->row.tenant,
			    quota_stored(s->core, s->tenant), held < size ? held : size,
			    size + SPARE_BYTES, e);
}

static int capture_start(struct capturing *k, struct err *e)
{
	struct session *s = k->op.session;

	k->waiting = k->short_of = false;
	capture_count(k, true);
	if (check_state(s, e) < 0 || capture_admit(k, e) < 0)
		return -1;
	k->froze = !s->cell->frozen && !guest_reader_is_needed(s);
	if (!k->froze && (!s->cell->in_call || guest_reader_is_needed(s))) {
		begin_stream(k);
		return 0;
	}
	if (s->row.state == SESSION_RUNNING)
		capture_mark(s, COLD_CAPTURING);
	if (k->froze)
		k->still_ns = clock_now_ns();
	session_ask_freeze(s, true, on_frozen);
	return 0;
}

/* May this capture run beside the others? One short of quota runs only when it is the tenant's only
 * one, because it needs their reservations. */
static bool has_room(const struct capturing *k)
{
	const struct core *c = k->op.session->core;
	unsigned own = k->op.session->tenant->captures;

	return (own == 0 || !k->short_of) && own < lanes_most(&running_room, c->captures_running) &&
	       (!guest_reader_is_needed(k->op.session) ||
		own < lanes_most(&guests_room, c->guest_captures));
}

/* The capture was refused, but others of the tenant have reserved all that their disks may hold.
 * The quota may have room when those have ended. */
static bool waits_for_quota(struct capturing *k, const struct err *e)
{
	capture_count(k, false);
	k->waiting = k->short_of =
		e->reason == REASON_QUOTA_STORED && k->op.session->tenant->captures > 0;
	return k->waiting;
}

/* Find the waiting capture of the tenant with the fewest running ones that may run one more, and
 * of several captures the one waiting longest. */
static struct capturing *find_next(const struct core *c)
{
	struct capturing *found = NULL;

	for (struct capturing *k = c->captures; k != NULL; k = k->next)
		if (k->waiting && has_room(k) &&
		    (found == NULL ||
		     k->op.session->tenant->captures <= found->op.session->tenant->captures))
			found = k;
	return found;
}

void session_capture_start_next(struct loop_task *t)
{
	struct core *c = t->arg;
	struct capturing *k = c->draining ? NULL : find_next(c);
	struct err e;

	if (k == NULL)
		return;
	start_soon(c); /* repeat until none is left */
	if (capture_start(k, &e) < 0 && !waits_for_quota(k, &e)) {
		capture_fail(k, &e);
		capture_finish(k);
	}
}

/* Unlike a cancel, this frees the capture at once: there is no cell left to thaw. */
static void on_lost(struct session_op *op, const struct err *why)
{
	struct capturing *k = (struct capturing *)op;
	struct session_capture *to = k->to;
	struct core *c = op->session->core;

	capture_unwatch(k);
	capture_count(k, false);
	session_op_end(op);
	LIST_REMOVE(k);
	if (k->call != NULL)
		keeper_link_cancel(k->call);
	guest_reader_free(k->reader);
	storage_link_cancel(&c->storage, &k->job);
	layers_settle(&c->layers, &k->layer, false);
	if (k->has_row)
		layers_let_go(&c->layers, k->layer.id);
	capture_values_release(&k->search);
	free(k);
	start_soon(c);
	if (to != NULL) {
		to->under_way = NULL;
		to->layer[0] = '\0';
		completion_end(&to->done, why);
	}
}

static const struct session_op_calls capture_calls = { .kind = SESSION_OP_CAPTURE,
						       .on_lost = on_lost,
						       .on_free = on_lost };

static int capture_begin(struct session *s, const char *kind, bool keep_frozen,
			 struct session_capture *to, struct err *e)
{
	struct capturing *k;

	if (capture_check(s, e) < 0)
		return -1;
	k = calloc(1, sizeof(*k));
	assert(k != NULL);
	session_op_begin(&k->op, s, &capture_calls);
	k->to = to;
	k->job.fd = k->pipe = -1;
	k->search = (struct capture_values){ .values = -1, .found = -1 };
	k->keep_frozen = keep_frozen;
	str_copy(k->kind, kind);
	k->waiting = !has_room(k);
	LIST_PUSH(&s->core->captures, k);
	to->under_way = k;
	if (k->waiting || capture_start(k, e) == 0 || waits_for_quota(k, e))
		return 0;
	to->under_way = NULL;
	capture_count(k, false);
	session_op_end(&k->op);
	LIST_REMOVE(k);
	capture_values_release(&k->search);
	free(k);
	return -1;
}

void session_capture(struct session *s, const char *kind, bool keep_frozen,
		     struct session_capture *k)
{
	struct err e;

	k->under_way = NULL;
	completion_begin(&k->done, s->core->loop, NULL);
	if (capture_begin(s, kind, keep_frozen, k, &e) < 0)
		completion_end(&k->done, &e);
}

/* A running capture cannot be stopped halfway: the cell must be thawed and the pipe drained. It
 * continues without an owner, and its layer is dropped at the end. */
void session_capture_cancel(struct session_capture *k)
{
	struct capturing *c = k->under_way;
	struct err e;

	completion_cancel(&k->done);
	k->under_way = NULL;
	if (c == NULL)
		return;
	c->to = NULL;
	if (!c->waiting)
		return;
	(void)err_set(&e, ERR_CONFLICT, "the capture was cancelled");
	capture_fail(c, &e);
	capture_finish(c);
}

void session_capture_release(struct core *c, struct session_capture *k)
{
	if (k->layer[0] == '\0')
		return;
	layers_let_go(&c->layers, k->layer);
	k->layer[0] = '\0';
}

void session_capture_recover(struct session *s)
{
	if (s->row.cold == COLD_CAPTURING)
		session_ask_freeze(s, false, on_thawed);
}
