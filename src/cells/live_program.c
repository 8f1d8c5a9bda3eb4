/* live_program.c - the programs of a cell that this daemon knows, and what PID 1, which is
 * untrusted, may say of them. For live_cell.c and those that start programs; see live_cell.h. */
#include "list.h"
#include "live_cell.h"

static void put(struct live_cell *c, struct live_program *p, uint32_t handle, bool results)
{
	p->handle = handle;
	p->results = results;
	p->started = false;
	LIST_PUSH(&c->programs, p);
}

void live_cell_add(struct live_cell *c, struct live_program *p)
{
	put(c, p, ++c->next_handle, false);
}

void live_cell_add_held(struct live_cell *c, struct live_program *p, uint32_t handle)
{
	put(c, p, handle, true); /* it may have been asked for with them */
}

void live_cell_remove(struct live_cell *c, struct live_program *p)
{
	(void)c;
	LIST_REMOVE(p);
}

static struct live_program *find(const struct live_cell *c, uint32_t handle)
{
	struct live_program *p = c->programs;

	while (p != NULL && p->handle != handle)
		p = p->next;
	return p;
}

bool live_program_event(struct live_cell *c, enum agent_type type, const struct agent_event *v)
{
	struct live_program *p = find(c, v->handle);

	if (p == NULL)
		return false;
	p->started |= type == AGENT_STARTED;
	p->on_event(p, c, type, v);
	return true;
}

/* A program that runs cannot fail to start, and has the pipes that were asked for. */
int live_program_check(const struct live_cell *c, enum agent_type type, const struct agent_event *v,
		       struct err *e)
{
	const struct live_program *p;

	if (type != AGENT_STARTED && type != AGENT_FAILED)
		return 0;
	p = find(c, v->handle);
	if (p == NULL)
		return 0;
	if (type == AGENT_FAILED && p->started)
		return err_set(e, ERR_INVALID, "PID 1 could not start a program that runs");
	if (type == AGENT_STARTED && (v->flags & AGENT_HAS_RESULTS) != 0 && !p->results)
		return err_set(e, ERR_INVALID, "PID 1 sent a pipe for results to no use");
	return 0;
}
