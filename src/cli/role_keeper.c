/* role_keeper.c - starts a keeper: with the supervisor's rights, of which it drops what it does not
 * need, and with one end of a channel A of its own. cordond gets the other end. The keeper ends
 * when that channel closes, so it ends with the cordond it was started for.
 *
 * All keepers of a rootless server share one user namespace, so that each can destroy, freeze and
 * look into the cells of the others and of those before them. It is the first keeper's, and can be
 * opened only when that keeper has entered it: the others start after that. */
#include <sys/socket.h>

#include "clock.h"
#include "host_watch.h"
#include "own.h"
#include "rootless.h"
#include "supervisor.h"

#define USERNS_LOOK_MS 10

static bool lacks_userns(const struct supervisor *v)
{
	return v->s->userns < 0 && rootless_needed();
}

bool role_keeper_has_userns(const struct supervisor *v, const struct worker *w)
{
	(void)w;
	return !lacks_userns(v);
}

bool role_keeper_can_start(const struct supervisor *v, const struct worker *w)
{
	return w->slot == 0 || !lacks_userns(v);
}

int role_keeper_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	struct keeper_start k = { .userns = v->s->userns,
				  .cgroups = &v->s->cgroups,
				  .serve = true,
				  .engines = true,
				  .nroots = v->s->nroots,
				  .roots = v->s->roots };
	int ends[2];

	(void)control;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel A");
	OWN_FD daemon_end = ends[0], keeper_end = ends[1];
	k.client_end = daemon_end;
	k.keeper_end = keeper_end;
	if (keeper_client_spawn(&k, &w->child.pid, e) < 0)
		return err_wrap(e, "start cordon-keeper");
	return supervisor_give(v, w, SERVE_KEEPER, daemon_end, e);
}

uint64_t role_keeper_look(struct supervisor *v, struct worker *w)
{
	struct err e;

	if (w->slot != 0)
		return UINT64_MAX;
	if (!lacks_userns(v))
		return host_watch_look(v);
	IGNORED(rootless_open(w->child.pid, false, &v->s->userns, &e), "asked again soon");
	return v->s->userns >= 0 ? clock_now_ns() : clock_now_ns() + USERNS_LOOK_MS * CLOCK_MS;
}
