/* main.c - cordon-init: PID 1 of every cell. It starts programs on request, reaps, reports how
 * programs ended, and ends the cell by exiting: the kernel then kills all processes of its pid
 * namespace. The folders beside this file, and the order in which to read them:
 *
 *   base     channel.c          channel B: connections, whole requests in, single events out
 *            proc_stat.c        reads /proc. tree_mark.c: the mark of all processes of a program
 *            users.c            the cell's /etc/passwd and /etc/group
 *            secret_table.c     reads tables of secrets
 *   pid1     agentd.c           the half that speaks with the server, in cordon-shim, too: events
 *                               and their order, the next server, deadlines, the lease
 *            programs.c         the table of programs: running, ended, held
 *            spawn.c            starts one program: user, directory, environment, pipes or PTY.
 *                               spawn_child.c: its process until it executes the program
 *            pty_pump.c         moves the bytes of a held PTY
 *            kill_tree.c        kills all processes that a program started
 *            dialer.c           connections to ports of the cell
 *            egress_listener.c  the two sockets for cordon-egress
 *            owner_finder.c     the program that made a connection
 *            disk_usage.c       how full the cell's disk is
 *            guest_gvisor.c     the differences of a PID 1 inside gVisor
 *   files    builtin.c          built-ins: parts of cordon-init that run in a child, as another
 *                               user. builtin_table.h declares them, builtin_io.c has their input
 *                               and output
 *            file_*.c           files: _read, _write, _change (stat, mkdir, move), _list and
 *                               _remove are built-ins. _resolve finds paths, _path joins them,
 *                               _stage holds new content, _entry describes a file, _xattr reads
 *                               its metadata, _names the names of owners, _user acts for a user
 *            tar_in.c, tar_out.c, copy_in.c
 *                               archives, and trees copied with their owners
 *            watch.c            changes in a directory
 *            processes.c        lists processes and sends signals
 *            secret_builtin.c   secrets as files, or at a socket
 *   guest    guest_boot.c       the first program of a virtual machine: turns its kernel into the
 * equivalent of a cell (guest_root.c, guest_limits.c, guest_identity.c) guest_link.c       the
 * connection to the shim, in place of channel B. guest_pump.c moves bytes between its streams and
 * descriptors, guest_egress.c and guest_dns.c open connections for programs changes  diff.c,
 * capture.c  not PID 1: list and archive the changes of a cell, started by the keeper
 *
 * PID 1 does not trust the processes of its cell: it is not dumpable (so none of them may trace it
 * or read its memory), it blocks their signals, it never waits for them, and it reads their files
 * with bounds only. The program at the other end of channel B is trusted.
 *
 * One loop waits for: the channel, SIGCHLD, the error pipes of starting programs, held PTYs, trees
 * of processes to kill, and the nearest deadline (of a program, or of the cell: agentd.h). Nothing
 * in it blocks: an event that cannot be sent is kept (agentd.c). While no program runs, PID 1
 * sleeps without a timeout. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cell/init/base/channel.h"
#include "cell/init/base/proc_stat.h"
#include "cell/init/base/tree_mark.h"
#include "cell/init/changes/capture.h"
#include "cell/init/changes/diff.h"
#include "cell/init/guest/guest_boot.h"
#include "cell/init/guest/guest_identity.h"
#include "cell/init/guest/guest_link.h"
#include "cell/init/pid1/agentd.h"
#include "cell/init/pid1/dialer.h"
#include "cell/init/pid1/disk_usage.h"
#include "cell/init/pid1/guest_gvisor.h"
#include "cell/init/pid1/kill_tree.h"
#include "cell/init/pid1/owner_finder.h"
#include "cell/init/pid1/programs.h"
#include "cell/init/watch/watch.h"
#include "lib/base/clock.h"
#include "lib/base/fd_std.h"
#include "lib/base/io.h"

#define VERSION_LINE "cordon-init " CORDON_VERSION "\n"
#define DRAIN_MS 1000 /* how long EXITED waits for a terminal, or a killed program's output */

static bool killing_all;
static struct agentd_slot all_dead; /* the answer to KILL_ALL */
static int signal_fd;
static int tree_wait_ms = -1; /* until the next pass over trees to kill. -1: none */

/* Reap all exited children. True if no child is left. */
static bool pid1_reap(void)
{
	for (;;) {
		struct rusage u;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG, &u);

		if (pid < 0)
			return errno == ECHILD;
		if (pid == 0)
			return false;
		owner_finder_on_exit(pid);
		programs_on_exit(pid, status, &u);
	}
}

static void pid1_continue_killing(void)
{
	struct agent_event v = { 0 };

	/* One kill(2) reaches all processes. A fork(2) in progress does not escape: the kernel
	 * restarts it with the signal pending. Called again after SIGCHLD, because a fork during
	 * the first kill(2) may have made another process. */
	(void)kill(-1, SIGKILL);
	if (!pid1_reap())
		return;
	killing_all = false;
	programs_usage(&v);
	agentd_slot_set(&all_dead, AGENT_ALL_DEAD, &v, -1, -1);
}

static void on_spawn(const struct frame *f)
{
	struct agent_spawn request;
	struct agent_event failed;
	struct err e;

	if (agent_spawn_read(f->body, f->len, &request, &e) < 0)
		_exit(1);
	if (!programs_start(&request, &failed))
		agentd_answer(AGENT_FAILED, &failed);
}

static void on_kill_tree(uint32_t handle, uint64_t mark)
{
	struct program *p = programs_find(handle);
	struct agent_event v = { .handle = handle, .flags = AGENT_NOT_KNOWN };

	if (p == NULL && tree_mark_was_assigned(mark)) {
		p = programs_add_leftover(handle, mark);
		v.flags = AGENT_SOME_REMAIN; /* if the table is full: processes may be alive */
	}
	if (p == NULL) {
		agentd_answer(AGENT_TREE_DEAD, &v);
		return;
	}
	kill_tree_begin(p, clock_now_ns(), true);
	tree_wait_ms = 0;
}

static void on_dial(uint32_t handle, uint16_t port)
{
	struct agent_event v = { .handle = handle };
	int fd = -1;

	disk_usage_begin(); /* a program is about to work */
	v.sys = dialer_connect(port, &fd);
	agentd_answer_fd(AGENT_DIALED, &v, fd);
}

static void on_stat(void)
{
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int others = proc < 0 ? -1 : proc_stat_each(proc, NULL, NULL);
	struct agent_event v = { .processes = others < 0 ? 0 : (uint64_t)others + 1 };
	struct limit_counts hit = { 0 };

	disk_usage_stat(&v);
	if (programs_limit_counts != NULL)
		programs_limit_counts(&hit);
	v.memory_kills = hit.killed;
	v.pids_refused = hit.refused;
	agentd_answer(AGENT_STATED, &v);
}

/* Signal the process group. A new child has no group yet, and is signalled itself. */
static void pid1_signal_program(const struct program *p, int sig)
{
	if (kill(-p->agent.pid, sig) < 0 && errno == ESRCH)
		(void)kill(p->agent.pid, sig);
}

/* gVisor does not tell programs that their terminal has another size. */
static void pid1_resize(struct program *p, const struct agent_order *o)
{
	pty_pump_resize(p->pump, o->rows, o->cols);
	if (guest_gvisor_is_used && !p->agent.exited)
		pid1_signal_program(p, SIGWINCH);
}

/* Requests about one program. They do nothing if it has ended or was forgotten. */
static void on_program_order(uint16_t type, const struct agent_order *o)
{
	struct program *p = programs_find(o->handle);

	if (p == NULL)
		return;
	if (type == AGENT_SIGNAL && !p->agent.exited)
		pid1_signal_program(p, o->sig);
	else if (type == AGENT_RESIZE && p->pump != NULL)
		pid1_resize(p, o);
	else if (type == AGENT_FORGET)
		programs_forget(p);
}

/* In a guest: as agentd_accept(), for the next shim. */
static void on_hello(const struct frame *f)
{
	if (!guest_link_on_hello(f))
		return;
	programs_on_disconnect();
	agentd_begin(true);
}

static void on_order(uint16_t type, const struct agent_order *o)
{
	switch (type) {
	case AGENT_KILL_ALL:
		killing_all = true;
		pid1_continue_killing();
		break;
	case AGENT_KILL_TREE:
		on_kill_tree(o->handle, o->ms);
		break;
	case AGENT_STAT:
		on_stat();
		break;
	case AGENT_DIAL:
		on_dial(o->handle, o->port);
		break;
	default:
		on_program_order(type, o);
	}
}

/* No request has to wait here. */
static bool on_frame(const struct frame *f)
{
	struct agent_order o;
	struct err e;

	if (f->type == GUEST_HELLO && guest_link_is_used())
		on_hello(f);
	else if (f->type == AGENT_SPAWN)
		on_spawn(f);
	else if (agent_order_read(f, &o, &e) < 0)
		_exit(1); /* both ends are built together: no server sends a malformed request */
	else if (!agentd_on_order(f->type, &o))
		on_order(f->type, &o);
	return true;
}

/* Kill a program at its deadline. */
static void pid1_end_program(struct program *p, uint64_t now_ns)
{
	if (p->agent.held) {
		kill_tree_begin(p, now_ns, false);
		tree_wait_ms = 0;
		return;
	}
	(void)kill(-p->agent.pid, SIGKILL);
	(void)kill(p->agent.pid, SIGKILL); /* not yet its group's leader */
}

static void on_late(uint64_t now_ns)
{
	struct agentd_program *p;

	while ((p = agentd_next_late(now_ns)) != NULL)
		pid1_end_program((struct program *)p, now_ns);
}

static struct agentd_program *pid1_next_program(const struct agentd_program *p)
{
	return (struct agentd_program *)programs_next((const struct program *)p);
}

/* EXITED waits for the program's output if it goes over the same connection, or comes from a
 * terminal: the kernel may hold some of that back after the exit. The wait for a killed program
 * ends although the server does not read. So does the wait for a terminal, to which other processes
 * may still write. */
static bool pid1_must_wait(const struct agentd_program *a, unsigned what)
{
	const struct program *p = (const struct program *)a;
	bool killed = all_dead.pending || (a->to_send & AGENTD_SEND_TREE_DEAD) != 0, in_time;

	if (what != AGENTD_SEND_EXITED)
		return false;
	in_time = clock_now_ns() < p->ended_ns + DRAIN_MS * CLOCK_MS;
	if (p->pump != NULL && in_time && pty_pump_has_output(p->pump))
		return true;
	return channel_has_carrier() && !channel_is_drained(a->handle) && (!killed || in_time);
}

static void on_sent(struct agentd_program *p, unsigned what)
{
	programs_on_sent((struct program *)p);
}

static bool pid1_send_all_dead(void)
{
	return agentd_slot_send(&all_dead);
}

/* ALL_DEAD was for the connection before. */
static void on_begin(void)
{
	killing_all = false;
	agentd_slot_clear(&all_dead);
}

static void pid1_answer_owners(int fd)
{
	if (fd >= 0)
		owner_finder_listen(fd);
}

static const struct agentd_ops agentd_ops = {
	.next = pid1_next_program,
	.waits = pid1_must_wait,
	.on_sent = on_sent,
	.send_others = pid1_send_all_dead,
	.handle = on_frame,
	.on_begin = on_begin,
	.on_disconnect = programs_on_disconnect,
	.on_paused = programs_on_paused,
	.end_late = on_late,
	.answer_owners = pid1_answer_owners,
};

#define SLEEP_MOST_NS (3600000 * CLOCK_MS)

/* How long ppoll(2) may sleep, in nanoseconds, as samples of the disk are less than a millisecond
 * apart. False: until something happens. */
static bool pid1_sleep_time(uint64_t now_ns, uint64_t *ret_ns)
{
	uint64_t end = agentd_sooner(agentd_nearest_deadline(), agentd_wake_ns(now_ns));

	if (guest_link_is_used())
		end = agentd_sooner(end, guest_link_wake_ns(now_ns));
	end = agentd_sooner(end, disk_usage_wake_ns());
	end = agentd_sooner(end, owner_finder_wake_ns(now_ns));
	if (tree_wait_ms >= 0)
		end = agentd_sooner(end, now_ns + (unsigned)tree_wait_ms * CLOCK_MS);
	*ret_ns = end <= now_ns ? 0 : end - now_ns;
	if (*ret_ns > SLEEP_MOST_NS)
		*ret_ns = SLEEP_MOST_NS;
	return end != 0;
}

#define OWNERS (1 + CHANNEL_FDS) /* behind signals and channel */
#define FIXED_FDS (OWNERS + 1)

static struct pollfd fds[FIXED_FDS + AGENT_PROGRAMS_MAX * PTY_PUMP_FDS + GUEST_LINK_FDS];
static nfds_t guest_fds; /* where those of guest_link.h begin */

/* Fill fds: the fixed ones, then those of programs. */
static nfds_t pid1_collect_poll_fds(uint64_t now_ns)
{
	nfds_t n = FIXED_FDS;

	fds[0] = (struct pollfd){ signal_fd, POLLIN, 0 };
	channel_poll_fds(fds + 1);
	fds[OWNERS] = owner_finder_poll_fd(now_ns);
	if (killing_all)
		fds[OWNERS].fd = -1; /* no new process */
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->error_fd >= 0)
			fds[n++] = (struct pollfd){ p->error_fd, POLLIN, 0 };
		else if (p->pump != NULL)
			n += pty_pump_poll_fds(p->pump, fds + n);
	}
	guest_fds = n;
	return guest_link_is_used() ? n + guest_link_poll_fds(fds + n) : n;
}

/* In the order of pid1_collect_poll_fds(): the table has not changed since. */
static void pid1_serve_programs(void)
{
	struct pollfd again[PTY_PUMP_FDS];
	nfds_t n = FIXED_FDS;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->error_fd >= 0) {
			if (fds[n++].revents != 0)
				programs_on_started(p);
		} else if (p->pump != NULL) {
			unsigned wanted = pty_pump_poll_fds(p->pump, again);

			pty_pump_move(p->pump, fds + n, wanted);
			n += wanted;
		}
	}
}

static void pid1_kill_trees(uint64_t now_ns)
{
	(void)pid1_reap();
	tree_wait_ms = kill_tree_pass(now_ns);
	if (!kill_tree_busy())
		tree_wait_ms = -1;
	(void)pid1_reap(); /* so that EXITED of a program is sent before its TREE_DEAD */
}

/* ppoll(2) refuses more entries than the limit of open files, which root of a guest can lower for
 * this process: then they are looked at one by one. */
static int pid1_poll_all(size_t n, uint64_t now_ns)
{
	uint64_t ns = 0;
	bool ends = pid1_sleep_time(now_ns, &ns);
	const struct timespec time = { .tv_sec = (time_t)(ns / 1000000000),
				       .tv_nsec = (long)(ns % 1000000000) };
	int ready = ppoll(fds, n, ends ? &time : NULL, NULL);

	if (ready >= 0 || errno != EINVAL)
		return ready;
	ready = 0;
	for (size_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		ready += poll(&fds[i], 1, 0) > 0;
	}
	if (ready == 0)
		(void)poll(NULL, 0, !ends || ns > 10 * CLOCK_MS ? 10 : (int)(ns / CLOCK_MS));
	return ready;
}

static void pid1_turn(void)
{
	struct signalfd_siginfo info;
	uint64_t now = clock_now_ns();

	disk_usage_turn(programs_running() > 0, now);
	if (pid1_poll_all(pid1_collect_poll_fds(now), now) < 0)
		return;
	now = clock_now_ns(); /* before the channel is read: see agentd.c */
	if (guest_link_is_used() && guest_link_on_ready(fds + guest_fds))
		fds[1].revents = POLLIN;
	pid1_serve_programs();
	if (fds[0].revents != 0 && read(signal_fd, &info, sizeof(info)) > 0) {
		if (killing_all)
			pid1_continue_killing();
		else
			(void)pid1_reap();
	}
	owner_finder_on_ready(fds[OWNERS].revents, now);
	if (fds[2].revents != 0)
		agentd_accept();
	else if (fds[1].revents != 0)
		(void)agentd_read();
	agentd_check_deadlines(now);
	agentd_check_lease(now);
	if (tree_wait_ms >= 0)
		pid1_kill_trees(now);
	agentd_exchange();
	if (guest_link_is_used())
		guest_link_flush();
}

/* The first program of a virtual machine. Return the port to the shim. */
static int pid1_boot_guest(void)
{
	struct err e;
	int port;

	if (guest_boot(&port, &e) < 0)
		guest_boot_fail(&e);
	return port;
}

/* port: of a virtual machine. "guest": PID 1 in gVisor, where descriptor 3 is the connection to the
 * shim. Never elsewhere: on a machine with other processes, KILL_ALL and KILL_TREE would end them.
 */
static int pid1_begin(int argc, char **argv, int port)
{
	if (port >= 0)
		return guest_link_begin(port, guest_identity_apply);
	if (argc <= 1 || strcmp(argv[1], "guest") != 0)
		return channel_init();
	guest_gvisor_init(argc - 2, argv + 2);
	return getpid() == 1 ? guest_link_begin(3, guest_gvisor_apply) : -1;
}

/* For cordon doctor in a guest: the one program that needs nothing in its root. */
static int pid1_print_version(void)
{
	struct err e;

	return io_write_all(STDOUT_FILENO, VERSION_LINE, strlen(VERSION_LINE), &e) < 0;
}

int main(int argc, char **argv)
{
	int port;

	fd_std_fill();
	if (argc > 1 && strcmp(argv[1], "version") == 0)
		return pid1_print_version();
	if (argc > 1 && strcmp(argv[1], "diff") == 0)
		return diff_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "watch") == 0)
		return watch_main(WATCH_REFUSED);
	if (argc > 1 && strcmp(argv[1], "trace") == 0)
		return watch_main(WATCH_PROGRAMS);
	if (argc > 1 && strcmp(argv[1], "calls") == 0)
		return watch_main(WATCH_SOME_CALLS);
	if (argc > 1 && strcmp(argv[1], "files") == 0)
		return watch_main(WATCH_FILES);
	if (argc > 1 && strcmp(argv[1], "capture") == 0)
		return capture_main(argc - 2, argv + 2);
	agentd_init(&agentd_ops);
	port = guest_boot_is_ours(argv[0]) ? pid1_boot_guest() : -1;
	/* First: descriptor 3 must be the connection, and not one opened here. */
	if (pid1_begin(argc, argv, port) < 0)
		return 1;
	signal_fd = agentd_setup("cordon-init");
	if (signal_fd < 0)
		return 1;
	agentd_begin(false);
	agentd_exchange();
	for (;;)
		pid1_turn();
}
