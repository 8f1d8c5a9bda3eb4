/* pool_warm.c - see pool_warm.h. */
#include "pool_warm.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "clock.h"
#include "core_private.h"
#include "io.h"
#include "live_cell.h"
#include "pool.h"
#include "session_boot.h"
#include "templates_private.h"

#define PROGRAM_MS 10000ULL
#define ANSWER_MS 30000ULL /* for PID 1, which ends the program after PROGRAM_MS */

struct pool_warm {
	struct live_program program;
	struct core *core;
	struct pool *pool;
	struct live_cell *cell;
	struct loop_timer late;
	int fds[3]; /* owned; its pipes, which are not read */
};

void pool_warm_unprepare(void *arg, struct live_cell *c)
{
	struct pool_warm *w = c->prepared;

	(void)arg;
	if (w == NULL)
		return;
	c->prepared = NULL;
	loop_timer_cancel(w->core->loop, &w->late);
	io_close_all(w->fds, COUNT(w->fds));
	live_cell_remove(c, &w->program);
	free(w);
}

/* e: the cell is dropped. */
static void end(struct pool_warm *w, const struct err *e)
{
	struct live_cell *c = w->cell;
	struct pool *p = w->pool;

	pool_warm_unprepare(NULL, c);
	pool_prepared(p, c, e);
}

static void on_late(struct loop_timer *t)
{
	struct err e;

	IGNORED(err_set_reason(&e, REASON_TIMEOUT, "the guest's agent does not answer"), "logged");
	end(t->arg, &e);
}

static void on_event(struct live_program *lp, struct live_cell *c, enum agent_type type,
		     const struct agent_event *v)
{
	struct pool_warm *w =
		(struct pool_warm *)((uintptr_t)lp - offsetof(struct pool_warm, program));

	if (type == AGENT_STARTED) {
		io_close_all(w->fds, COUNT(w->fds));
		agent_take_stdio(&c->agent, v, &w->fds[0], &w->fds[1], 2);
	} else if (type == AGENT_FAILED || type == AGENT_EXITED) {
		end(w, NULL);
	}
}

static int spawn(struct pool_warm *w, const struct level_pool *of, struct err *e)
{
	static const char program[] = "/bin/true";
	struct agent_spawn r = { .flags = AGENT_NO_STDIN,
				 .handle = w->program.handle,
				 .timeout_ms = PROGRAM_MS,
				 .nofile = of->like.limits.nofile,
				 .argc = 1,
				 .strings = program,
				 .strings_len = sizeof(program),
				 .user = session_boot_user(&of->version->row, of->like.profile),
				 .cwd = "/" };

	if (agent_send_spawn(&w->cell->agent, &r, e) < 0)
		return -1;
	live_cell_flush(w->cell);
	return 0;
}

void pool_warm_prepare(void *arg, struct pool *p, struct live_cell *c)
{
	const struct level_pool *of = arg;
	struct pool_warm *w = calloc(1, sizeof(*w));
	struct err e;

	assert(w != NULL);
	*w = (struct pool_warm){ .core = of->version->core,
				 .pool = p,
				 .cell = c,
				 .program.on_event = on_event,
				 .late = { .on_expire = on_late, .arg = w },
				 .fds = { -1, -1, -1 } };
	c->prepared = w;
	live_cell_add(c, &w->program);
	loop_timer_set(w->core->loop, &w->late, clock_now_ns() + ANSWER_MS * CLOCK_MS);
	if (spawn(w, of, &e) < 0)
		end(w, &e);
}
