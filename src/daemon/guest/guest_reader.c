/* guest_reader.c - see guest_reader.h. The built-in waits for the end of its input before it exits,
 * so closing that ends it. A built-in that does not read its input is killed. The reader is in a
 * list of its session, which lets go of it before its cell is freed. */
#include "daemon/guest/guest_reader.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cells/fd_budget.h"
#include "daemon/cells/live_cell.h"
#include "daemon/node/core_private.h"
#include "lib/base/io.h"
#include "lib/base/list.h"

#define START_MS 30000

struct guest_reader {
	struct guest_reader *next, **link; /* list.h: of its session */
	struct session *session;	   /* NULL: it has let go */
	struct live_program program;
	struct completion *ready; /* borrowed */
	int in, out;		  /* owned. Or -1 */
	bool exited, owed;
};

bool guest_reader_is_needed(const struct session *s)
{
	return session_level(s)->engine == CELL_ENGINE_MICROVM;
}

/* The promised descriptors have come, or never will. */
static void settle_fds(struct guest_reader *r)
{
	if (r->owed)
		r->session->core->cells.fds.owed -= FD_BUDGET_EACH;
	r->owed = false;
}

/* Nothing of the session or its cell is touched afterwards. */
static void guest_reader_detach(struct guest_reader *r)
{
	struct session *s = r->session;

	if (s == NULL)
		return;
	settle_fds(r);
	LIST_REMOVE(r);
	LIST_REMOVE(&r->program);
	r->session = NULL;
}

static void guest_reader_end(struct guest_reader *r, const struct err *e)
{
	if (r->ready != NULL && completion_is_waiting(r->ready))
		completion_end(r->ready, e);
}

/* The built-in's pipes have come. Its standard error is not read. */
static void on_started(struct guest_reader *r, struct live_cell *c, const struct agent_event *v)
{
	int outs[2];
	struct err e;

	settle_fds(r);
	agent_take_stdio(&c->agent, v, &r->in, outs, COUNT(outs));
	r->out = outs[0];
	io_close_all(&outs[1], 1);
	if (r->in >= 0 && r->out >= 0) {
		guest_reader_end(r, NULL);
		return;
	}
	(void)err_set(&e, ERR_INVALID, "the guest sent no pipes");
	guest_reader_end(r, &e);
}

static void on_program(struct live_program *p, struct live_cell *c, enum agent_type type,
		       const struct agent_event *v)
{
	struct guest_reader *r =
		(struct guest_reader *)((char *)p - offsetof(struct guest_reader, program));
	struct err e;

	if (type == AGENT_STARTED && r->in < 0 && r->out < 0) {
		on_started(r, c, v);
	} else if (type == AGENT_FAILED) {
		r->exited = true;
		errno = v->sys;
		(void)err_sys(&e, "read the changes of the guest");
		e.code = ERR_LIMIT;
		guest_reader_end(r, &e);
	} else if (type == AGENT_EXITED) {
		r->exited = true;
	}
}

static int guest_reader_spawn(struct guest_reader *r, const char *name, struct err *e)
{
	struct session *s = r->session;
	const struct agent_spawn how = { .handle = r->program.handle,
					 .flags = AGENT_BUILTIN,
					 .user = "root",
					 .cwd = "/",
					 .argc = 1,
					 .strings = name,
					 .strings_len = strlen(name) + 1 };

	if (agent_send_spawn(&s->cell->agent, &how, e) < 0)
		return -1;
	live_cell_flush(s->cell);
	return 0;
}

/* A frozen guest answers nothing. */
static int guest_reader_check(const struct session *s, struct err *e)
{
	if (s->cell == NULL || s->cell->state != LIVE_UP || !s->cell->connected || s->cell->frozen)
		return err_set(e, ERR_CONFLICT, "session %s is %s", s->row.id,
			       session_shown_name(&s->row));
	return fd_budget_check(&s->core->cells.fds, e);
}

struct guest_reader *guest_reader_new(struct session *s, const char *name, struct completion *ready)
{
	struct guest_reader *r = calloc(1, sizeof(*r));
	struct err e;

	assert(r != NULL);
	r->in = r->out = -1;
	r->ready = ready;
	if (guest_reader_check(s, &e) < 0) {
		completion_end_soon(ready, s->core->loop, &e);
		return r;
	}
	r->session = s;
	r->program.on_event = on_program;
	LIST_PUSH(&s->guest.readers, r);
	live_cell_add(s->cell, &r->program);
	r->owed = true;
	s->core->cells.fds.owed += FD_BUDGET_EACH;
	if (guest_reader_spawn(r, name, &e) < 0) {
		r->exited = true;
		completion_end_soon(ready, s->core->loop, &e);
		return r;
	}
	completion_begin(ready, s->core->loop, NULL);
	completion_set_deadline(ready, START_MS, "the guest");
	return r;
}

int guest_reader_take(struct guest_reader *r)
{
	r->ready = NULL;
	return TAKE_FD(r->out);
}

void guest_reader_free(struct guest_reader *r)
{
	struct live_cell *c = r == NULL || r->session == NULL ? NULL : r->session->cell;
	struct err e;

	if (r == NULL)
		return;
	if (!r->exited && c != NULL && c->connected &&
	    agent_send_signal(&c->agent, r->program.handle, SIGKILL, &e) == 0)
		live_cell_flush(c);
	guest_reader_detach(r);
	if (r->ready != NULL)
		completion_cancel(r->ready);
	io_close_all(&r->in, 1);
	io_close_all(&r->out, 1);
	free(r);
}

void guest_readers_lost(struct session *s, const struct err *why)
{
	while (s->guest.readers != NULL) {
		struct guest_reader *r = s->guest.readers;
		struct err e = *why;

		guest_reader_detach(r);
		guest_reader_end(r, &e);
	}
}
