/* role_pull.c - starts cordon-pull: as the user of cordon-egress, with the authorities and the
 * resolver settings of the node, and one end of a channel of its own. cordond gets the other end.
 * It ends when that channel closes, so it ends with the cordond it was started for. While it runs,
 * it is given resolv.conf and hosts again whenever one of them has changed (role_egress_look()). */
#include <sys/socket.h>

#include "egress_start.h"
#include "own.h"
#include "supervisor.h"

int role_pull_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_sys(e, "channel of cordon-pull");
	OWN_FD daemon_end = ends[0], pull_end = ends[1];
	if (egress_start(&(struct egress_start){ .program = w->role->program,
						 .control = control,
						 .channel = pull_end,
						 .authority = -1,
						 .ca = s->config.egress_ca,
						 .log_format = s->config.log_format,
						 .log_level = s->config.log_level,
						 .processes = 1,
						 .drop = who.drop,
						 .uid = who.uid,
						 .gid = who.gid },
			 &w->child.pid, e) < 0)
		return -1;
	return supervisor_give(v, w, SERVE_PULL, daemon_end, e);
}
