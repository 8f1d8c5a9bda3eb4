/* content_call.c - see content_call.h. */
#include "daemon/volumes/content_call.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/disk/layers.h"
#include "daemon/tenant/tenant.h"
#include "daemon/volumes/volume_state.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/str.h"

#define BUFFER 65536
#define PIECE_RECORDS 32 /* of an answer, in a piece of a turn */
#define CALL_MS 3600000	 /* of the whole operation, slow clients included */
#define TENANT_CALLS 16
#define ROOM_LEAST (1U << 20) /* on the disk, for any file */

static struct loop *loop_of(const struct content_call *c)
{
	return core_loop(c->node->core);
}

/* ---- the end */

/* Out of the node and the loop. Repeatable. */
static void content_call_detach(struct content_call *c)
{
	if (c->node == NULL)
		return;
	core_job_cancel(c->node->core, &c->step);
	loop_remove(loop_of(c), &c->watch_out);
	io_close_all(&c->out, 1);
	storage_feed_close(&c->feed);
	storage_link_cancel(c->node->storage, &c->job);
	volume_open_cancel(&c->open);
	io_close_all(c->its, 2);
	free(c->request);
	c->request = NULL;
	LIST_REMOVE(c);
	c->node->ncalls--;
	c->node = NULL;
	free(c->bytes);
	c->bytes = NULL;
}

void content_call_cancel(struct content_call *c)
{
	content_call_detach(c);
}

static void content_call_end(struct content_call *c, const struct err *e)
{
	const struct content_call_events *events = c->events;
	struct err copy = { 0 };

	if (e != NULL)
		copy = *e;
	content_call_detach(c);
	events->on_end(c, e == NULL ? NULL : &copy);
}

/* Entries are many, and each costs more than its bytes: calls take turns, tenant by tenant. */
static void step_soon(struct content_call *c)
{
	core_job_add(c->node->core, tenant_find(c->node->core, c->tenant), &c->step);
}

static void content_call_fail(struct content_call *c, const struct err *e)
{
	if (!c->failed)
		c->why = *e;
	c->failed = true;
}

/* ---- the answer */

static int take_record(struct content_call *c, const struct content_record *r, struct err *e)
{
	switch (r->kind) {
	case CONTENT_ERROR:
		*e = r->error;
		return -1;
	case CONTENT_ENTRY:
		return c->events->on_entry(c, &r->entry, e);
	case CONTENT_DATA:
		if (c->events->on_data_begins == NULL)
			break;
		c->data_left = r->len;
		c->events->on_data_begins(c, r->len);
		return 0;
	case CONTENT_END:
		c->answered = true;
		return 0;
	}
	return err_set(e, ERR_SYSTEM, "internal protocol error: unexpected answer of storage");
}

/* How many bytes were used. 0: more are needed, or the owner cannot take any now. */
static size_t content_call_take(struct content_call *c, const uint8_t *data, size_t len)
{
	struct content_record r;
	struct err e = { 0 };
	int n;

	if (c->data_left > 0) {
		size_t want = len < c->data_left ? len : (size_t)c->data_left;
		size_t taken = c->events->on_data(c, data, want);

		c->paused = taken < want;
		c->data_left -= taken;
		return taken;
	}
	n = content_msg_read(data, len, &r, &e);
	if (n == 0)
		return 0;
	if (n < 0 || take_record(c, &r, &e) < 0) {
		content_call_fail(c, &e);
		return len;
	}
	return (size_t)n;
}

/* True: there is more. */
static bool take_some(struct content_call *c)
{
	unsigned records = 0;
	size_t n = 1;

	while (n > 0 && records++ < PIECE_RECORDS && c->at < c->len && !c->paused && !c->failed &&
	       !c->answered) {
		n = content_call_take(c, c->bytes + c->at, c->len - c->at);
		c->at += n;
	}
	if (c->at > 0) {
		memmove(c->bytes, c->bytes + c->at, c->len - c->at);
		c->len -= c->at;
		c->at = 0;
	}
	return n > 0 && c->len > 0 && !c->paused && !c->failed && !c->answered;
}

/* Read available bytes. False: none now. */
static bool read_some(struct content_call *c)
{
	ssize_t n = c->out < 0 ? 0 : read(c->out, c->bytes + c->len, BUFFER - c->len);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		c->cut_off = true;
	else
		c->len += (size_t)n;
	return n > 0;
}

static void content_call_watch(struct content_call *c)
{
	struct err e;

	if (c->paused)
		loop_remove(loop_of(c), &c->watch_out);
	else if (c->watch_out.fd < 0 &&
		 loop_add(loop_of(c), &c->watch_out, c->out, EPOLLIN, &e) < 0) {
		content_call_fail(c, &e);
		step_soon(c);
	}
}

/* From the loop only. The job ends after each piece. */
static bool on_piece(struct job *j)
{
	struct content_call *c = j->arg;
	bool more = take_some(c);

	if (!more && !c->failed && !c->paused && !c->answered)
		more = read_some(c);
	if (c->failed) {
		content_call_end(c, &c->why);
		return false;
	}
	if (c->answered) {
		content_call_end(c, NULL);
		return false;
	}
	if (c->cut_off && !c->paused) {
		loop_remove(loop_of(c), &c->watch_out);
		if (c->job_ended) /* else its end calls this again */
			content_call_end(c, &c->job_why);
		return false;
	}
	content_call_watch(c);
	if (more && !c->paused)
		step_soon(c); /* behind others of the tenant */
	return false;
}

static void on_readable(struct loop_fd *f, uint32_t events)
{
	struct content_call *c = f->arg;

	step_soon(c);
}

void content_call_resume(struct content_call *c)
{
	if (c->node == NULL || !c->paused)
		return;
	c->paused = false;
	step_soon(c);
}

static void on_job_done(struct completion *done, const struct err *e)
{
	struct content_call *c = done->arg;

	c->job_ended = true;
	if (e != NULL)
		c->job_why = *e;
	else
		(void)err_set_reason(&c->job_why, REASON_PEER_DIED,
				     "cordon-storage ended the answer early");
	step_soon(c);
}

/* ---- the input */

size_t content_call_input(struct content_call *c, const uint8_t *data, size_t len)
{
	return c->node == NULL ? len : storage_feed_put(&c->feed, data, len);
}

bool content_call_end_input(struct content_call *c)
{
	return c->node == NULL || storage_feed_end(&c->feed);
}

static void on_room(void *arg)
{
	struct content_call *c = arg;

	if (c->events->on_room != NULL)
		c->events->on_room(c);
}

/* ---- the start */

static int content_call_admit(const struct volume_node *n, const char *tenant, struct err *e)
{
	unsigned own = 0;

	for (const struct content_call *c = n->calls; c != NULL; c = c->next)
		own += strcmp(c->tenant, tenant) == 0;
	/* A few slow tenants do not keep out one without a call. */
	if (own >= TENANT_CALLS || (n->ncalls >= STORAGE_CONTENT_MAX && own > 0))
		return err_set(e, ERR_LIMIT, "too many operations on volumes at a time");
	return 0;
}

/* The answer's pipe. Our end does not block, the other end does. */
static int open_answer(struct content_call *c, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	c->out = ends[0];
	c->its[0] = ends[1];
	if (fcntl(c->out, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "pipe");
	return loop_add(loop_of(c), &c->watch_out, c->out, EPOLLIN, e);
}

static int open_pipes(struct content_call *c, bool write, struct err *e)
{
	if (open_answer(c, e) < 0)
		return -1;
	return write ? storage_feed_open(&c->feed, loop_of(c), on_room, c, &c->its[1], e) : 0;
}

/* root: the mount of the volume's image, taken over. -1: it is a directory. */
static void ask_storage(struct content_call *c, int root)
{
	int fds[3] = { c->its[0] };
	size_t n = 1;

	if (c->its[1] >= 0)
		fds[n++] = c->its[1];
	if (root >= 0)
		fds[n++] = root;
	c->its[0] = c->its[1] = -1;
	if (root >= 0)
		c->request->flags |= STORAGE_CONTENT_ROOT;
	c->job.done = (struct completion){ .on_done = on_job_done, .arg = c };
	c->job.tenant = c->tenant;
	storage_link_ask(c->node->storage, &c->job, c->request, sizeof(*c->request), fds, n);
	free(c->request);
	c->request = NULL;
}

static void on_opened(struct volume_open *o, int fd, const struct err *e)
{
	struct content_call *c = o->arg;

	if (e == NULL) {
		ask_storage(c, fd);
		return;
	}
	content_call_fail(c, e);
	step_soon(c);
}

int content_call_start(struct content_call *c, struct core *core, const struct store_volume *v,
		       const struct storage_content *r, const struct content_call_events *events,
		       struct err *e)
{
	struct volume_node *n = volume_node(core);

	if (content_call_admit(n, v->tenant, e) < 0)
		return -1;
	if (r->what == STORAGE_CONTENT_WRITE &&
	    layers_check_reserve(core_layers(core), ROOM_LEAST, e) < 0)
		return -1;
	*c = (struct content_call){ .arg = c->arg,
				    .node = n,
				    .out = -1,
				    .feed = { .fd = -1, .watch.fd = -1 },
				    .its = { -1, -1 },
				    .job.fd = -1,
				    .events = events,
				    .open = { .on_done = on_opened, .arg = c },
				    .watch_out = { .fd = -1, .on_ready = on_readable, .arg = c },
				    .step = { .on_piece = on_piece, .arg = c },
				    .request = malloc(sizeof(*r)),
				    .bytes = malloc(BUFFER) };
	assert(c->bytes != NULL && c->request != NULL);
	memcpy(c->tenant, v->tenant, sizeof(c->tenant));
	LIST_PUSH(&n->calls, c);
	n->ncalls++;
	if (open_pipes(c, r->what == STORAGE_CONTENT_WRITE, e) < 0) {
		content_call_detach(c);
		return -1;
	}
	*c->request = *r;
	c->request->head = (struct storage_head){ .op = STORAGE_CONTENT, .deadline_ms = CALL_MS };
	str_copy(c->request->volume, v->id);
	c->request->reserve_percent = (uint32_t)core_layers(core)->reserve_percent;
	if (v->kind == VOLUME_IMAGE)
		volume_open_start(core, v, &c->open);
	else
		ask_storage(c, -1);
	return 0;
}
