/* core.c - the reads and small requests that every file of the core, and every folder above it,
 * makes of struct core. It depends on no other file of the core. core_run.c sets the core up and
 * runs it. */
#include "daemon/node/core.h"

#include "daemon/cells/keeper_link.h"
#include "daemon/node/core_private.h"
#include "lib/base/clock.h"

uint64_t core_now_ms(void)
{
	return clock_wall_ms();
}

struct fd_budget *core_fds(struct core *c)
{
	return &c->cells.fds;
}

#define FAILED_STARTS_TOLD 5

/* Repeated failures point to a lasting cause, so the message refers to the log. */
static const char *why_no_keeper(const struct core *c)
{
	if (c->cells.keeper.failed_starts >= FAILED_STARTS_TOLD)
		return "no keeper: each one ends right after its start; see the log";
	return c->keeper_hung ? "the keeper does not answer" : "no keeper";
}

/* Without a keeper no cell can be made. Before recovery the daemon does not know which cells exist.
 */
bool core_ready(const struct core *c, const char **ret_why)
{
	*ret_why = keeper_link_greeted(&c->cells.keeper) == 0 ? why_no_keeper(c)
		   : !c->recovered			      ? "recovering"
							      : NULL;
	return *ret_why == NULL;
}

int core_check_ready(const struct core *c, struct err *e)
{
	const char *why;

	if (core_ready(c, &why) ||
	    (c->recovered && !c->keeper_hung && keeper_link_is_renewing(&c->cells.keeper)))
		return 0;
	return err_set_reason(e, REASON_UNAVAILABLE, "not ready: %s", why);
}

int core_level_check(const struct core *c, const struct cell_level *level, struct err *e)
{
	const struct cell_level_state *s;

	if (level->id >= CELL_LEVELS)
		return err_set(e, ERR_UNSUPPORTED, "level: this version does not know it");
	s = &c->o.levels[level->id];
	if (s->is_possible)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "level %s: not possible on this server: %.190s",
		       level->name, s->why);
}

bool core_recovered(const struct core *c)
{
	return c->recovered;
}

const struct cell_restrictions *core_restrictions(const struct core *c)
{
	return &c->cells.keeper.restrictions;
}

const struct config *core_config(const struct core *c)
{
	return c->o.config;
}

const struct core_options *core_options(const struct core *c)
{
	return &c->o;
}

const char *core_guest_origin(const struct core *c)
{
	return c->o.guest_origin;
}

struct store *core_store(struct core *c)
{
	return c->store;
}

struct audit *core_audit(struct core *c)
{
	return c->audit;
}

struct loop *core_loop(struct core *c)
{
	return c->loop;
}

/* Each tenant has one queue, so a tenant with much long work delays only itself. */
void core_job_add(struct core *c, struct tenant *t, struct job *j)
{
	jobs_add(&c->jobs, t == NULL ? &c->work : &t->work, j);
}

struct jobs *core_jobs(struct core *c)
{
	return &c->jobs;
}

void core_job_cancel(struct core *c, struct job *j)
{
	jobs_cancel(&c->jobs, j);
}

uint64_t core_started_ns(const struct core *c)
{
	return c->started_ns;
}
