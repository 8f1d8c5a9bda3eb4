/* session_capture.c - see session_capture.h.
 *
 * The steps: mark the row, freeze, ask the keeper and cordon-storage at once (they share a pipe),
 * thaw when no process can write to the pipe any more, write the row of the layer when
 * cordon-storage has it on disk. The writer has read all files when it exits, whatever is still in
 * the pipe; that is what the second descriptor of the reading end is for, which cordond watches and
 * never reads. What decides is the answer of cordon-storage: a keeper or a writer that fails closes
 * its end of the pipe, and then the archive has no last record.
 *
 * The files of a virtual machine are read by a built-in of its agent (guest_reader.h), which stops
 * the guest's programs instead of a keeper. It is read by cordon-storage as it comes, with a bound
 * for the time without a byte, because the guest is not trusted to go on.
 *
 * A capture has a process of the keeper and one of cordon-storage for as long as it takes. So few
 * run at a time, and fewer of one tenant; the others wait, neither frozen nor counted. */
#include "session_capture.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "capture_values.h"
#include "core_private.h"
#include "guest_reader.h"
#include "io.h"
#include "keeper_link.h"
#include "layers.h"
#include "list.h"
#include "live_cell.h"
#include "log.h"
#include "quota.h"
#include "session_cold.h"
#include "session_pause.h"
#include "session_spec.h"
#include "session_stop.h"
#include "store_layer.h"
#include "template_stack.h"

#define CAPTURE_MS 600000      /* for all of it */
#define SPARE_BYTES (1U << 20) /* directories and metadata beside the content */
#define ENTRIES_SPARE 1024
#define PIPE_BYTES (1 << 20)
#define RUNNING_MAX 6 /* at a time; diff_reader.c and storage_queue.c have room for these */
#define RUNNING_TENANT_MAX 3
#define GUESTS_MAX 4	       /* of these: a guest decides how long its capture takes */
#define GUEST_MS 300000	       /* for all of it */
#define GUEST_SILENCE_MS 60000 /* without a byte; emulated guests are slow */

struct capturing {
	struct capturing *next, **link; /* list.h: of the core, the newest first */
	struct session *session;
	struct session_capture *to; /* NULL: cancelled */
	struct layer_writing layer;
	struct storage_job job;
	struct keeper_call *call;    /* CAPTURE */
	struct guest_reader *reader; /* owned; NULL: a keeper reads */
	struct completion ready;     /* of the reader */
	char kind[STORE_LAYER_KIND_MAX];
	bool waiting; /* for others to end */
	bool froze;   /* the cell was running before */
	bool unsure;  /* the keeper refused to freeze it, and may refuse to thaw it */
	bool keep_frozen;
	bool has_row; /* of the layer, which is held until the owner takes it */
	bool thaw_asked, thawing, unpacking;
	struct loop_fd writers; /* the pipe's end that is watched until no process writes to it */
	int pipe;		/* owned: that end; -1 */
	struct err why;		/* code ERR_NONE: it worked so far */
};

/* Captures that wait are started from the loop: one that is refused at once ends its owner, and the
 * caller may stand in the middle of a list of owners. */
static void start_soon(struct core *c)
{
	loop_defer(c->loop, &c->next_capture);
}

/* ---- the end */

/* The programs of a guest go on, unless they are to stand still. */
static void free_reader(struct capturing *k)
{
	struct session *s = k->session;

	if (k->keep_frozen && k->why.code == ERR_NONE && k->to != NULL && s->still == NULL)
		s->still = k->reader;
	else
		guest_reader_free(k->reader);
	k->reader = NULL;
}

static void let_go(struct core *c, const char *layer)
{
	struct err e;

	if (store_layer_unuse(c->store, STORE_LAYER_HELD, layer, &e) < 0)
		log_warn("a layer stays held until the next start", "layer=%s error=%s", layer,
			 e.msg);
	layers_collect(&c->layers, false, NULL);
}

static void finish(struct capturing *k)
{
	struct session *s = k->session;
	struct core *c = s->core;
	struct session_capture *to = k->to;
	struct err why = k->why;

	if (k->thawing || k->unpacking)
		return; /* the other of the two is to come */
	s->capturing = NULL;
	LIST_REMOVE(k);
	layers_settle(&s->core->layers, &k->layer, why.code == ERR_NONE);
	free_reader(k);
	if (to != NULL)
		to->under_way = NULL;
	else if (k->has_row) /* cancelled after it was written: no owner takes it */
		let_go(c, k->layer.id);
	free(k);
	if (to != NULL)
		completion_end(&to->done, why.code == ERR_NONE ? NULL : &why);
	/* A client has used it meanwhile. */
	if (s->row.state == SESSION_PAUSED && s->when_running.first != NULL && !s->cooling)
		session_resume(s, &s->waker, NULL);
	start_soon(c);
}

static void fail(struct capturing *k, const struct err *e)
{
	if (k->why.code == ERR_NONE)
		k->why = *e;
}

/* Also for one that was not begun. cordon-storage is now the only reader: a writer that it does not
 * read from any more ends. */
static void unwatch(struct capturing *k)
{
	if (k->pipe < 0)
		return;
	loop_remove(k->session->core->loop, &k->writers);
	io_close_all(&k->pipe, 1);
}

/* ---- freezing and thawing */

static void mark(struct session *s, uint32_t cold)
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

	(void)reply;
	(void)fd;
	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, false, on_thawed); /* of another keeper */
		return;
	}
	if (e != NULL && (s->capturing == NULL || !s->capturing->unsure)) {
		session_stop(s, SESSION_CRASHED, "the cell could not be thawed");
		return;
	}
	cell->frozen = false;
	if (s->row.cold == COLD_CAPTURING)
		mark(s, COLD_NO);
	if (s->capturing != NULL) {
		s->capturing->thawing = false;
		finish(s->capturing);
	}
}

static void thaw(struct capturing *k)
{
	if (!k->froze || k->thaw_asked ||
	    (k->keep_frozen && k->why.code == ERR_NONE && k->to != NULL))
		return;
	k->thaw_asked = k->thawing = true;
	session_ask_freeze(k->session, false, on_thawed);
}

/* ---- the stream */

static int write_row(struct capturing *k, const struct storage_reply *r, struct err *e)
{
	struct store_layer row = { .bytes = r->bytes,
				   .entries = r->entries,
				   .created_ms = core_now_ms() };

	memcpy(row.id, k->layer.id, sizeof(row.id));
	memcpy(row.kind, k->kind, sizeof(row.kind));
	memcpy(row.tenant, k->layer.tenant, sizeof(row.tenant));
	return store_layer_insert_held(k->session->core->store, &row, e);
}

/* A layer that would take more than was left is refused for that reason. */
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
	fail(k, &why);
}

static void on_unpacked(struct completion *c, const struct err *e)
{
	struct capturing *k = c->arg;
	const struct storage_reply *r = &k->job.reply;
	struct err why;

	k->unpacking = false;
	unwatch(k);
	if (k->call != NULL)
		keeper_link_cancel(k->call);
	k->call = NULL;
	if (e != NULL)
		fail_unpack(k, e);
	if (k->to == NULL) {
		(void)err_set(&why, ERR_CONFLICT, "the capture was cancelled");
		fail(k, &why);
	}
	thaw(k);
	if (k->why.code == ERR_NONE && write_row(k, r, &why) < 0)
		fail(k, &why);
	else
		k->has_row = k->why.code == ERR_NONE;
	if (k->why.code == ERR_NONE && k->to != NULL) {
		memcpy(k->to->layer, k->layer.id, sizeof(k->to->layer));
		k->to->bytes = r->bytes;
		k->to->entries = r->entries;
	}
	finish(k);
}

/* The keeper has started the writer, or refused. */
static void on_captured(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct capturing *k = arg;
	OWN_FD unused = fd;

	(void)unused;
	(void)reply;
	k->call = NULL;
	if (e != NULL)
		fail(k, e); /* cordon-storage sees the end of the pipe */
}

/* No process can write to the pipe any more: the files of the cell are read. */
static void on_read(struct loop_fd *f, uint32_t events)
{
	struct capturing *k = f->arg;

	(void)events;
	unwatch(k);
	thaw(k);
}

/* Without this the cell is thawed when the layer is on disk. */
static void watch(struct capturing *k, int pipe)
{
	struct err e;

	k->pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 0);
	k->writers = (struct loop_fd){ .fd = -1, .on_ready = on_read, .arg = k };
	if (k->pipe >= 0 &&
	    loop_add(k->session->core->loop, &k->writers, k->pipe, EPOLLHUP, &e) < 0)
		io_close_all(&k->pipe, 1);
}

static void unpack(struct capturing *k, struct storage_unpack *r, int from, int values)
{
	struct session *s = k->session;

	r->format = STORAGE_CAPTURE;
	r->head.deadline_ms = k->reader != NULL ? GUEST_MS : CAPTURE_MS;
	r->bytes_max = k->layer.bytes;
	r->entries_max = s->row.limits.inodes + ENTRIES_SPARE;
	if (r->entries_max > k->layer.entries)
		r->entries_max = k->layer.entries;
	(void)snprintf(r->layer, sizeof(r->layer), "%s", k->layer.id);
	k->unpacking = true;
	k->job.done = (struct completion){ .on_done = on_unpacked, .arg = k };
	k->job.tenant = k->layer.tenant;
	storage_link_unpack_searched(&s->core->storage, &k->job, r, from, values);
}

/* Of a guest: it has one file system, and layers of the host template have several places. */
static int unpack_guest(struct capturing *k, struct err *e)
{
	struct session *s = k->session;
	struct core *c = s->core;
	struct storage_unpack r = { .silence_ms = GUEST_SILENCE_MS };
	struct template_stack stack;
	int from, looked_for;

	if (session_spec_stack(s->template, &s->row, s->own, &stack, NULL, e) < 0 ||
	    capture_values(s, k->kind, &looked_for, e) < 0)
		return -1;
	OWN_FD values = looked_for;
	for (uint32_t i = 1;
	     stack.base == TEMPLATE_BASE_HOST && i < c->o.host.nlayers && i < STORAGE_HOST_MAX; i++)
		(void)snprintf(r.at[i], sizeof(r.at[i]), "%.15s", c->o.host.layers[i].at + 1);
	from = guest_reader_take(k->reader);
	if (fcntl(from, F_SETFL, 0) < 0) { /* cordon-storage waits for each byte */
		io_close_all(&from, 1);
		return err_sys(e, "pipe");
	}
	unpack(k, &r, from, TAKE_FD(values));
	return 0;
}

static void on_reader_ready(struct completion *done, const struct err *e)
{
	struct capturing *k = done->arg;
	struct err why;

	k->unpacking = false;
	if (e == NULL && unpack_guest(k, &why) == 0)
		return;
	fail(k, e != NULL ? e : &why);
	finish(k);
}

static int start_stream(struct capturing *k, struct err *e)
{
	struct session *s = k->session;
	struct keeper_create plan;
	struct storage_unpack r = { 0 };
	struct keeper_diff ask;
	int ends[2], looked_for;

	if (guest_reader_is_needed(s)) {
		k->unpacking = true; /* its end is to come */
		k->ready = (struct completion){ .on_done = on_reader_ready, .arg = k };
		k->reader = guest_reader_new(s, "capture", &k->ready);
		return 0;
	}
	if (session_spec_plan(s->core, s->template, &s->row, s->own, &plan, e) < 0 ||
	    capture_values(s, k->kind, &looked_for, e) < 0)
		return -1;
	OWN_FD values = looked_for;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	(void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES); /* faster; a smaller one works as well */
	watch(k, ends[0]);
	session_diff_request(s, KEEPER_CAPTURE, &plan, &ask);
	k->call = keeper_link_ask(&s->core->cells.keeper, &ask, sizeof(ask), ends[1], KEEPER_URGENT,
				  on_captured, k);
	unpack(k, &r, ends[0], TAKE_FD(values));
	return 0;
}

static void begin_stream(struct capturing *k)
{
	struct err e;

	if (start_stream(k, &e) == 0)
		return;
	fail(k, &e);
	thaw(k);
	finish(k);
}

static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *cell = arg;
	struct session *s = session_freeze_answered(cell, e == NULL);

	(void)reply;
	(void)fd;
	if (s == NULL)
		return;
	if (e != NULL && e->reason == REASON_PEER_DIED) {
		session_ask_freeze(s, true, on_frozen);
		return;
	}
	cell->frozen = true; /* maybe */
	if (e == NULL) {
		begin_stream(s->capturing);
		return;
	}
	s->capturing->unsure = true;
	fail(s->capturing, e);
	thaw(s->capturing);
	finish(s->capturing);
}

/* ---- the beginning */

static int check_state(const struct session *s, struct err *e)
{
	if ((s->row.state == SESSION_RUNNING || s->row.state == SESSION_PAUSED ||
	     s->row.state == SESSION_PAUSING) &&
	    s->cell != NULL && s->cell->call == NULL && !session_is_cold(&s->row))
		return 0;
	return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id, session_shown_name(&s->row));
}

static int check(const struct session *s, struct err *e)
{
	if (session_level_check(s, CELL_CAN_DIFF, "snapshot", e) < 0)
		return -1;
	if (!guest_reader_is_needed(s) && s->core->cells.keeper.restrictions.freezer == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "snapshots need cgroup v2, which this machine does not have");
	if (s->capturing != NULL)
		return err_set(e, ERR_CONFLICT, "session %s is being captured already", s->row.id);
	if (check_state(s, e) < 0)
		return -1;
	if (s->own != NULL && s->own->nlayers >= TEMPLATE_STACK_MAX)
		return err_set(e, ERR_LIMIT, "session %s has %zu layers, the most there can be",
			       s->row.id, s->own->nlayers);
	return 0;
}

/* What the disk holds is what PID 1 says, which may be taken over: it counts up to the limit. */
static int admit(struct capturing *k, struct err *e)
{
	struct session *s = k->session;
	uint64_t size = s->row.limits.disk_bytes, held = s->cell->disk_bytes;
	struct quota_limits limits;

	quota_limits(s->core, s->tenant, &limits);
	return layers_admit(&s->core->layers, &k->layer, s->row.tenant, limits.stored,
			    held < size ? held : size, size + SPARE_BYTES, e);
}

static int start(struct capturing *k, struct err *e)
{
	struct session *s = k->session;

	if (check_state(s, e) < 0 || admit(k, e) < 0)
		return -1;
	k->froze = !s->cell->frozen && !guest_reader_is_needed(s);
	if (!k->froze) {
		begin_stream(k);
		return 0;
	}
	if (s->row.state == SESSION_RUNNING)
		mark(s, COLD_CAPTURING);
	session_ask_freeze(s, true, on_frozen);
	return 0;
}

static bool has_room(const struct capturing *k)
{
	bool guest = guest_reader_is_needed(k->session);
	unsigned all = 0, own = 0, guests = 0;

	for (const struct capturing *o = k->session->core->captures; o != NULL; o = o->next) {
		all += !o->waiting;
		own += !o->waiting && o->session->tenant == k->session->tenant;
		guests += !o->waiting && guest_reader_is_needed(o->session);
	}
	return all < RUNNING_MAX && own < RUNNING_TENANT_MAX && (!guest || guests < GUESTS_MAX);
}

/* The one that waits longest, of those whose tenant may have one more. */
static struct capturing *find_next(const struct core *c)
{
	struct capturing *found = NULL;

	for (struct capturing *k = c->captures; k != NULL; k = k->next)
		if (k->waiting && has_room(k))
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
	start_soon(c); /* until there is none */
	k->waiting = false;
	if (start(k, &e) < 0) {
		fail(k, &e);
		finish(k);
	}
}

static int begin(struct session *s, const char *kind, bool keep_frozen, struct session_capture *to,
		 struct err *e)
{
	struct capturing *k;

	if (check(s, e) < 0)
		return -1;
	k = calloc(1, sizeof(*k));
	assert(k != NULL);
	k->session = s;
	k->to = to;
	k->job.fd = k->pipe = -1;
	k->keep_frozen = keep_frozen;
	(void)snprintf(k->kind, sizeof(k->kind), "%s", kind);
	k->waiting = !has_room(k);
	LIST_PUSH(&s->core->captures, k);
	s->capturing = to->under_way = k;
	if (k->waiting || start(k, e) == 0)
		return 0;
	s->capturing = to->under_way = NULL;
	LIST_REMOVE(k);
	free(k);
	return -1;
}

void session_capture(struct session *s, const char *kind, bool keep_frozen,
		     struct session_capture *k)
{
	struct err e;

	k->under_way = NULL;
	completion_begin(&k->done, s->core->loop, NULL);
	if (begin(s, kind, keep_frozen, k, &e) < 0)
		completion_end(&k->done, &e);
}

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
	fail(c, &e);
	finish(c);
}

void session_capture_release(struct core *c, struct session_capture *k)
{
	if (k->layer[0] == '\0')
		return;
	let_go(c, k->layer);
	k->layer[0] = '\0';
}

void session_capture_lost(struct session *s, const struct err *why)
{
	struct capturing *k = s->capturing;
	struct session_capture *to;

	if (k == NULL)
		return;
	to = k->to;
	s->capturing = NULL;
	unwatch(k);
	LIST_REMOVE(k);
	if (k->call != NULL)
		keeper_link_cancel(k->call);
	guest_reader_free(k->reader);
	storage_link_cancel(&s->core->storage, &k->job);
	layers_settle(&s->core->layers, &k->layer, false);
	if (k->has_row)
		let_go(s->core, k->layer.id);
	free(k);
	start_soon(s->core);
	if (to != NULL) {
		to->under_way = NULL;
		to->layer[0] = '\0';
		completion_end(&to->done, why);
	}
}

void session_capture_recover(struct session *s)
{
	if (s->row.cold == COLD_CAPTURING)
		session_ask_freeze(s, false, on_thawed);
}
