/* role_cordond.c - starts cordond: as the server's user, with the listeners, the cgroup directories
 * it may read, the configuration and the control socket, at the numbers of supervisor_msg.h.
 * Channels to keepers and to cordon-egress follow over the control socket. */
#include "own.h"
#include "supervisor.h"

int role_cordond_start(struct supervisor *v, struct worker *w, int control, struct err *e)
{
	const struct serve *s = v->s;
	const struct role_identity who = role_identity(s, w->role);
	int fds[SERVE_FD_LISTEN + SERVE_LISTENERS_MAX - SERVE_FD_CONTROL];
	size_t n = SERVE_FD_LISTEN - SERVE_FD_CONTROL;

	fds[SERVE_FD_CONTROL - SERVE_FD_CONTROL] = control;
	fds[SERVE_FD_CONFIG - SERVE_FD_CONTROL] = s->config_fd;
	fds[SERVE_FD_SETUP - SERVE_FD_CONTROL] = s->setup_fd;
	for (int i = 0; i < CELL_CGROUP_DIRS; i++)
		fds[SERVE_FD_CGROUP - SERVE_FD_CONTROL + i] = s->cgroups.dirs[i];
	fds[SERVE_FD_CERT - SERVE_FD_CONTROL] = s->cert_fd;
	fds[SERVE_FD_KEY - SERVE_FD_CONTROL] = s->key_fd;
	fds[SERVE_FD_SECRETS - SERVE_FD_CONTROL] = s->secrets_fd;
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		fds[SERVE_FD_LEVELS - SERVE_FD_CONTROL + i] = s->levels.files[i];
	for (uint32_t i = 0; i < s->setup.nlisteners; i++)
		fds[n++] = s->listeners[i];
	return child_process_start(&(struct child_process_start){ .name = w->role->program,
								  .fds = fds,
								  .nfds = n,
								  .drop = who.drop,
								  .uid = who.uid,
								  .gid = who.gid },
				   &w->child.pid, e);
}
