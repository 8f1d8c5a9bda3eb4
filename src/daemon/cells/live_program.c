/* live_program.c - the programs of a cell that this daemon knows, and the messages that the
 * untrusted PID 1 may send about them. For live_cell.c and the starters of programs, see
 * live_cell.h. */
#include "daemon/cells/live_cell.h"
#include "lib/base/list.h"

static void live_program_put(struct live_cell *c, struct live_program *p, uint32_t handle,
			     bool results)
{
	p->handle = handle;
	p->results = results;
	p->started = false;
	LIST_PUSH(&c->programs, p);
}

void live_cell_add(struct live_cell *c, struct live_program *p)
{
	if (++c->next_handle == 0) /* see live_program_check() */
		c->next_handle = 1;
	live_program_put(c, p, c->next_handle, false);
}

void live_cell_add_held(struct live_cell *c, struct live_program *p, uint32_t handle)
{
	live_program_put(c, p, handle, true); /* it may have been asked for with them */
}

void live_cell_remove(struct live_cell *c, struct live_program *p)
{
	LIST_REMOVE(p);
}

static struct live_program *live_program_find(const struct live_cell *c, uint32_t handle)
{
	struct live_program *p = c->programs;

	while (p != NULL && p->handle != handle)
		p = p->next;
	return p;
}

bool live_program_event(struct live_cell *c, enum agent_type type, const struct agent_event *v)
{
	struct live_program *p = live_program_find(c, v->handle);

	if (p == NULL)
		return false;
	p->started |= type == AGENT_STARTED;
	p->on_event(p, c, type, v);
	return true;
}

/* A running program cannot fail to start, and has the requested pipes. Handle 0 means a program
 * unknown so far: a held one of it would be added twice. */
int live_program_check(const struct live_cell *c, enum agent_type type, const struct agent_event *v,
		       struct err *e)
{
	const struct live_program *p;

	if (type == AGENT_HELD && v->handle == 0)
		return err_set(e, ERR_INVALID, "PID 1 holds a program without a handle");
	if (type != AGENT_STARTED && type != AGENT_FAILED)
		return 0;
	p = live_program_find(c, v->handle);
	if (p == NULL)
		return 0;
	if (type == AGENT_FAILED && p->started)
		return err_set(e, ERR_INVALID, "PID 1 could not start a program that runs");
	if (type == AGENT_STARTED && (v->flags & AGENT_HAS_RESULTS) != 0 && !p->results)
		return err_set(e, ERR_INVALID, "PID 1 sent a pipe for results to no use");
	return 0;
}
