/* run_cell.c - asks the keeper to make, compare and destroy the cell of `cordon run`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "diff_print.h"
#include "io.h"
#include "mount_source.h"
#include "run_private.h"

#define EARLY_MAX 16384 /* bytes of command line and environment */

int run_cell_sources(struct run *r, struct err *e)
{
	for (size_t i = 0; i < r->o.mounts.n; i++) {
		/* A link here is the caller's own and is followed. */
		r->sources[i] = open(r->o.mount[i].source, O_PATH | O_CLOEXEC);
		if (r->sources[i] < 0)
			return err_sys(e, "--mount: %.120s", r->o.mount[i].source);
		if (!r->o.mount_unsafe &&
		    mount_source_check(r->sources[i], r->o.mount[i].writable, &r->o.state_dir, 1,
				       "--mount-unsafe", e) < 0)
			return err_wrap(e, "--mount");
	}
	return 0;
}

int run_cell_limits(struct run *r, struct err *e)
{
	const struct cell_restrictions *w = &r->keeper.restrictions;
	unsigned missing = r->o.limits_asked & ~w->limits;

	if (missing != 0 && !r->o.best_effort)
		return err_set(
			e, ERR_UNSUPPORTED,
			"%s%s%scannot be enforced here: %s (--best-effort continues without)",
			(missing & CELL_LIMIT_MEMORY) ? "--memory " : "",
			(missing & CELL_LIMIT_CPU) ? "--cpus " : "",
			(missing & CELL_LIMIT_PIDS) ? "--pids " : "",
			w->no_limits_why[0] == '\0' ? "no cgroup" : w->no_limits_why);
	if (!w->rootless && (w->limits & CELL_LIMIT_ALL) != CELL_LIMIT_ALL && !r->o.best_effort)
		return err_set(
			e, ERR_UNSUPPORTED,
			"limits cannot be enforced here: %s (--best-effort continues without)",
			w->no_limits_why);
	return 0;
}

static void fill_create(struct run *r, struct keeper_create *c)
{
	const struct run_options *o = &r->o;
	unsigned can = r->keeper.restrictions.limits;

	memset(c, 0, sizeof(*c));
	c->op = KEEPER_CREATE;
	c->profile = o->profile;
	c->flags = o->read_only ? CELL_READ_ONLY : 0;
	c->uid = c->gid = r->uid;
	c->limits = (struct cell_limits){
		.memory_bytes = (can & CELL_LIMIT_MEMORY) ? o->memory : 0,
		.cpu_millis = (can & CELL_LIMIT_CPU) ? o->cpus : 0,
		.pids = (can & CELL_LIMIT_PIDS) ? o->pids : 0,
		.disk_bytes = o->disk,
		.inodes = o->inodes,
		.nofile = o->nofile,
	};
	(void)snprintf(c->id, sizeof(c->id), "%s", r->outcome.id);
	(void)snprintf(c->hostname, sizeof(c->hostname), "%s", o->hostname);
	memcpy(c->machine_id, r->machine_id, sizeof(c->machine_id));
	c->nlayers = r->template.nlayers;
	memcpy(c->layer_at, r->template.at, sizeof(c->layer_at));
	c->nmounts = (uint32_t)o->mounts.n;
	for (size_t i = 0; i < o->mounts.n; i++) {
		memcpy(c->mounts[i].at, o->mount[i].at, sizeof(c->mounts[i].at));
		c->mounts[i].flags = o->mount[i].writable ? CELL_MOUNT_WRITABLE : 0;
	}
	run_guest_plan(r, c);
}

int run_cell_create(struct run *r, struct err *e)
{
	struct keeper_create request;
	struct keeper_reply reply;
	int pair[2], fds[IO_FDS_MAX];
	size_t n = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socketpair");
	agent_init(&r->agent, pair[0]);
	OWN_FD inside = pair[1];
	fds[n++] = inside;
	for (uint32_t i = 0; i < r->template.nlayers; i++)
		fds[n++] = r->template.fds[i];
	for (size_t i = 0; i < r->o.mounts.n; i++)
		fds[n++] = r->sources[i];
	fill_create(r, &request);
	/* A short request waits in the socket until PID 1 reads it; a long one would block cordon.
	 */
	if (!r->outcome.network.wanted && !run_guest_wanted(r) &&
	    run_command_size(&r->o) <= EARLY_MAX && run_command_send(r, e) < 0)
		return -1;
	if (keeper_client_call(&r->keeper, &request, sizeof(request), fds, n, &reply, &r->pidfd,
			       e) < 0)
		return -1;
	r->outcome.restrictions = reply.restrictions;
	r->outcome.cell_made = true;
	return 0;
}

/* The list of changes, when nothing in the cell can change anything any more. */
int run_cell_changes(struct run *r, struct err *e)
{
	struct keeper_diff request = { .named.op = KEEPER_DIFF };
	struct keeper_reply reply;
	sigset_t none;
	enum agent_type type = AGENT_READY;
	struct agent_event v;
	int ends[2];

	/* The command has ended: from here on signals end cordon itself. The keeper then cleans up.
	 */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (agent_send_kill_all(&r->agent, e) < 0)
		return -1;
	while (type != AGENT_ALL_DEAD)
		if (run_command_receive(r, &type, &v, e) < 0)
			return -1;
	relay_drain(&r->relay);
	if (run_guest_has_files(r))
		return run_guest_changes(r, e);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	(void)snprintf(request.named.id, sizeof(request.named.id), "%s", r->outcome.id);
	if (keeper_client_call(&r->keeper, &request, sizeof(request), &ends[1], 1, &reply, NULL,
			       e) < 0)
		return -1;
	fd_close(TAKE_FD(to));
	return diff_print(from, stdout, e);
}

int run_cell_destroy(struct run *r, struct err *e)
{
	struct keeper_named request = { .op = KEEPER_DESTROY };
	struct keeper_reply reply;

	(void)snprintf(request.id, sizeof(request.id), "%s", r->outcome.id);
	if (io_send(r->keeper.sock, &request, sizeof(request), NULL, 0, e) < 0)
		return -1;
	/* The last request: the keeper can end as soon as it has answered. */
	(void)shutdown(r->keeper.sock, SHUT_WR);
	if (keeper_client_receive(&r->keeper, KEEPER_DESTROY, &reply, NULL, e) < 0)
		return -1;
	r->outcome.disk = reply.disk;
	return 0;
}
