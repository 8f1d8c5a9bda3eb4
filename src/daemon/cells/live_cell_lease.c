/* live_cell_lease.c - sends PID 1 how long its cell lives if this server ends and no other one
 * comes (cell/init/pid1/agentd.h). A PID 1 of an earlier version does not support these requests
 * and is not sent any. */
#include "daemon/cells/live_cell.h"
#include "lib/base/clock.h"

static void queue_deadline(struct live_cell *c)
{
	uint64_t now = clock_wall_ms();
	uint64_t left = c->deadline_ms > now ? c->deadline_ms - now : 1;
	struct err e;

	c->deadline_due = c->connected && c->version >= AGENT_VERSION_LEASE &&
			  agent_queue_deadline(&c->agent, c->deadline_ms == 0 ? 0 : left, &e) < 0;
}

void live_cell_lease_retry(struct live_cell *c)
{
	if (!c->deadline_due)
		return;
	queue_deadline(c);
	live_cell_flush(c);
}

void live_cell_lease_send(struct live_cell *c)
{
	struct err e;

	if (c->version < AGENT_VERSION_LEASE)
		return;
	queue_deadline(c);
	IGNORED(agent_send_lease(&c->agent, c->cells->unattended_ms, &e),
		"the loop reports the end of PID 1");
	live_cell_flush(c);
}

void live_cell_lease_set_deadline(struct live_cell *c, uint64_t deadline_ms)
{
	if (c->deadline_ms == deadline_ms)
		return;
	c->deadline_ms = deadline_ms;
	queue_deadline(c);
}

void live_cell_lease_renew_deadline(struct live_cell *c)
{
	queue_deadline(c);
}
