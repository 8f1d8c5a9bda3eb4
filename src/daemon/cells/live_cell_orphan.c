/* live_cell_orphan.c - ending cells without an owner: their events are ignored. */
#include "daemon/cells/live_cell.h"

static void on_orphan_up(struct live_cell *c, const struct err *e)
{
}

static void on_orphan(struct live_cell *c)
{
}

static void on_orphan_program(struct live_cell *c, const struct agent_event *v)
{
}

const struct live_cell_events live_cell_orphan_events = { .on_up = on_orphan_up,
							  .on_dead = on_orphan,
							  .on_gone = on_orphan,
							  .on_held = on_orphan_program,
							  .on_failed = on_orphan_program,
							  .on_synced = on_orphan };

void live_cell_abandon(struct live_cell *c)
{
	/* Those of the owner may be freed before the cell is. */
	while (c->programs != NULL)
		live_cell_remove(c, c->programs);
	live_cell_own(c, &live_cell_orphan_events, NULL);
	live_cell_end(c);
}

struct live_cell *live_cell_end_unknown(struct cells *cs, const char *id)
{
	struct err ignored;
	/* Without a connection it ends as well, if the keeper can find it. */
	struct live_cell *c =
		live_cell_adopt(cs, id, true, &live_cell_orphan_events, NULL, &ignored);

	if (c == NULL)
		return live_cell_clean_up(cs, id);
	live_cell_end(c);
	return c;
}
