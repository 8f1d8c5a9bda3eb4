/* main.c - cordon-init: PID 1 of every cell. It starts programs on request, reaps, reports how
 * programs ended, and ends the cell by exiting: the kernel then kills all processes of its pid
 * namespace. The files of this directory:
 *
 *   main.c              PID 1's loop, and the dispatch of requests
 *   channel.c           channel B: connections, whole requests in, single events out
 *   event_out.c         events that are still to be sent, and their order
 *   pid1.c              what every PID 1 of a cell sets up first
 *   lease.c             when a cell without a server ends itself
 *   programs.c          the table of programs: running, ended, held
 *   spawn.c             starts one program: user, directory, environment, pipes or PTY;
 *                       spawn_child.c is what its process does first, spawn_shared.c how it
 *                       begins without a copy of PID 1's memory
 *   users.c             the cell's /etc/passwd and /etc/group
 *   pty_pump.c          moves the bytes of a held PTY
 *   kill_tree.c         kills all processes that a program started
 *   tree_mark.c         the mark by which these are known; proc_stat.c reads /proc
 *   guest_link.c        in a guest: the connection to its shim, in place of channel B;
 *                       guest_pump.c moves bytes between its streams and descriptors,
 *                       guest_egress.c and guest_dns.c have what programs want to reach,
 *                       guest_owner.c asks which program it is,
 *                       guest_identity.c sets what HELLO has
 *   dialer.c            connections to ports of the cell
 *   egress_listener.c   the two sockets for cordon-egress
 *   owner_finder.c      which program made a connection: owner_diag.c asks the kernel for the
 *                       socket, owner_walk.c finds the process that has it
 *   disk_usage.c        how full the cell's disk is
 *
 *   builtin.c           built-ins: programs that are part of cordon-init and run in a child, as
 *                       another user; builtin_table.h declares them
 *   builtin_io.c        their input and output
 *   file_*.c            files: _read, _write, _join, _change (stat, mkdir, move), _list and
 *                       _remove are built-ins. _resolve finds paths, _path joins them, _put and
 *                       _stage write a file, _entry describes one, _xattr has its metadata,
 *                       _names the names of owners, _user the user that it works for
 *   tar_in.c, tar_out.c archives; tar_stream.c reads one
 *   watch*.c            changes in a directory: _table has the watches, _event_out sends events
 *   processes.c         lists processes and sends signals
 *   secret_*.c          secrets as files, or at a socket (_socket); _table parses them
 *
 *   guest_boot.c        as the first program of a virtual machine: makes of its kernel what a
 *                       keeper makes of a cell (guest_root.c, guest_limits.c,
 *                       guest_pressure.c, guest_lock.c)
 *
 *   diff.c              not PID 1: lists what a cell changed, started by the keeper
 *
 * PID 1 does not trust the processes of its cell: it is not dumpable (so none of them may trace it
 * or read its memory), it blocks their signals, it never waits for them, and it reads their files
 * with bounds only. The program at the other end of channel B is trusted.
 *
 * One loop waits for: the channel, SIGCHLD, the error pipes of programs that are being started,
 * held PTYs, trees that are being killed, and the nearest deadline (of a program, or of the cell:
 * lease.h). Nothing in it blocks: an event that cannot be sent is kept (event_out.c). While no
 * program runs, PID 1 sleeps without a timeout. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "capture.h"
#include "channel.h"
#include "clock.h"
#include "dialer.h"
#include "diff.h"
#include "disk_usage.h"
#include "egress_listener.h"
#include "fd_std.h"
#include "guest_boot.h"
#include "guest_gvisor.h"
#include "guest_identity.h"
#include "guest_link.h"
#include "io.h"
#include "kill_tree.h"
#include "lease.h"
#include "owner_finder.h"
#include "pid1.h"
#include "tree_mark.h"
#include "proc_stat.h"
#include "programs.h"
#include "event_out.h"

#define RETRY_MS 50
#define VERSION_LINE "cordon-init " CORDON_VERSION "\n"
#define LAST_READS_MAX 16 /* reads from a connection that is being replaced */

static bool connected = true;
static bool killing_all;
static int signal_fd;
static int tree_wait_ms = -1; /* until the next pass over trees that are being killed; -1: none */

/* Reaps all children that have exited. True if no child is left. */
static bool reap(void)
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

static void continue_killing(void)
{
	struct agent_event v = { 0 };

	/* One kill(2) reaches all processes. A fork(2) in progress does not escape: the kernel
	 * restarts it with the signal pending. Called again after SIGCHLD, because a process that
	 * was being made during the first kill(2) may exist now. */
	(void)kill(-1, SIGKILL);
	if (!reap())
		return;
	killing_all = false;
	programs_usage(&v);
	event_out_all_dead(&v);
}

static void on_spawn(const struct frame *f)
{
	struct agent_spawn request;
	struct agent_event failed;
	struct err e;

	if (agent_spawn_read(f->body, f->len, &request, &e) < 0)
		_exit(1);
	if (!programs_start(&request, &failed))
		event_out_answer(AGENT_FAILED, &failed);
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
		event_out_answer(AGENT_TREE_DEAD, &v);
		return;
	}
	kill_tree_begin(p, clock_now_ns(), true);
	tree_wait_ms = 0;
}

static void on_linger(uint64_t lease_ms)
{
	const struct agent_event v = { .sys = channel_linger() };

	lease_set(lease_ms);
	event_out_answer(AGENT_LINGERING, &v);
}

static void on_dial(uint32_t handle, uint16_t port)
{
	struct agent_event v = { .handle = handle };
	int fd = -1;

	v.sys = dialer_connect(port, &fd);
	event_out_answer_fd(AGENT_DIALED, &v, fd);
}

static void on_listen_egress(void)
{
	const int *fds = NULL;
	const struct agent_event v = { .sys = egress_listener_open(&fds) };
	int owners = channel_take_fd();

	if (owners >= 0)
		owner_finder_listen(owners);
	event_out_answer_kept(AGENT_EGRESS_LISTENS, &v, fds, v.sys == 0 ? EGRESS_LISTENER_FDS : 0);
}

static void on_stat(void)
{
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int others = proc < 0 ? -1 : proc_stat_each(proc, NULL, NULL);
	struct agent_event v = { .processes = others < 0 ? 0 : (uint64_t)others + 1 };

	disk_usage_stat(&v);
	event_out_answer(AGENT_STATED, &v);
}

/* Signals the process group; a child that was just forked has no group yet, and is signalled
 * itself.
 */
static void signal_program(const struct program *p, int sig)
{
	if (kill(-p->pid, sig) < 0 && errno == ESRCH)
		(void)kill(p->pid, sig);
}

/* gVisor does not tell programs that their terminal has another size. */
static void resize(struct program *p, const struct agent_order *o)
{
	pty_pump_resize(p->pump, o->rows, o->cols);
	if (guest_gvisor_is_used && !p->exited)
		signal_program(p, SIGWINCH);
}

/* Requests about one program. They do nothing if it has ended or was forgotten. */
static void on_program_order(uint16_t type, const struct agent_order *o)
{
	struct program *p = programs_find(o->handle);

	if (p == NULL)
		return;
	if (type == AGENT_SIGNAL && !p->exited)
		signal_program(p, o->sig);
	else if (type == AGENT_CLOSE_STDIN)
		programs_close_stdin(p);
	else if (type == AGENT_RESIZE && p->pump != NULL)
		resize(p, o);
	else if (type == AGENT_FORGET)
		programs_forget(p);
}

/* In a guest: as on_connect(), for the next shim. */
static void on_hello(const struct frame *f)
{
	if (!guest_link_on_hello(f))
		return;
	programs_on_disconnect();
	killing_all = false;
	event_out_begin(true);
}

static void on_frame(const struct frame *f)
{
	struct agent_order o;
	struct err e;

	if (f->type == GUEST_HELLO && guest_link_is_used()) {
		on_hello(f);
		return;
	}
	if (f->type == AGENT_SPAWN) {
		on_spawn(f);
		return;
	}
	if (agent_order_read(f, &o, &e) < 0)
		_exit(1); /* both ends are built together: no server sends a malformed request */
	switch (f->type) {
	case AGENT_KILL_ALL:
		killing_all = true;
		continue_killing();
		break;
	case AGENT_KILL_TREE:
		on_kill_tree(o.handle, o.ms);
		break;
	case AGENT_LINGER:
		on_linger(o.ms);
		break;
	case AGENT_PAUSED:
		programs_delay_deadlines(o.ms);
		lease_delay_deadline(o.ms);
		break;
	case AGENT_STAT:
		on_stat();
		break;
	case AGENT_DIAL:
		on_dial(o.handle, o.port);
		break;
	case AGENT_LISTEN_EGRESS:
		on_listen_egress();
		break;
	case AGENT_LEASE:
		lease_set(o.ms);
		break;
	case AGENT_DEADLINE:
		lease_set_deadline(o.ms, clock_now_ns());
		break;
	case AGENT_END:
		_exit(0);
	default:
		on_program_order(f->type, &o);
	}
}

/* Notes that the connection of a lingering cell is lost. */
static void check_connection(void)
{
	if (!connected || channel_is_open())
		return;
	connected = false;
	lease_on_disconnect(clock_now_ns());
	programs_on_disconnect();
}

/* Sends pending events, then handles requests one by one, as long as no event is pending. */
static void exchange_messages(void)
{
	struct frame f;

	while (event_out_all() && channel_next(&f))
		on_frame(&f);
	check_connection();
}

/* False if nothing was received. */
static bool read_channel(void)
{
	bool received = channel_receive();

	exchange_messages();
	return received;
}

/* Requests that were sent over the old connection are handled first: its sender may have exited
 * right after it sent them. */
static void on_connect(void)
{
	if (!channel_accept())
		return;
	for (unsigned i = 0; i < LAST_READS_MAX && read_channel(); i++)
		;
	channel_replace();
	if (connected)
		programs_on_disconnect();
	connected = true;
	lease_on_connect();
	killing_all = false;
	event_out_begin(true);
	exchange_messages();
}

/* Kills a program that has reached its deadline. */
static void end_program(struct program *p, uint64_t now_ns)
{
	p->timed_out = true;
	if (p->held) {
		kill_tree_begin(p, now_ns, false);
		tree_wait_ms = 0;
		return;
	}
	(void)kill(-p->pid, SIGKILL);
	(void)kill(p->pid, SIGKILL); /* not yet its group's leader */
}

/* The nearest deadline that still counts; 0 if there is none. */
static uint64_t nearest_deadline(void)
{
	uint64_t nearest = 0;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->deadline_ns != 0 && !p->timed_out && !p->exited &&
		    (nearest == 0 || p->deadline_ns < nearest))
			nearest = p->deadline_ns;
	return nearest;
}

/* A cell may be frozen at any instruction, for hours, and that time does not count. The server
 * sends PAUSED before it thaws the cell. So the order matters: the clock was read first (now_ns),
 * then all requests are received, then deadlines are compared with now_ns. If the cell was frozen
 * before the clock was read, PAUSED is received here; if after it, the comparison does not see that
 * time. */
static void check_deadlines(uint64_t now_ns)
{
	uint64_t nearest = nearest_deadline();

	if (nearest == 0 || nearest > now_ns)
		return;
	while (read_channel())
		;
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->deadline_ns != 0 && !p->timed_out && !p->exited && p->deadline_ns <= now_ns)
			end_program(p, now_ns);
}

/* Ends the cell if no server has connected in time. A server that thaws the cell has connected
 * before, so a waiting connection is accepted first, even if the lease ended while the cell was
 * frozen. */
static void check_lease(uint64_t now_ns)
{
	uint64_t end = lease_end_ns();

	if (end == 0 || end > now_ns)
		return;
	on_connect();
	if (!connected)
		_exit(0);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* How long poll(2) may sleep. */
static int sleep_ms(uint64_t now_ns)
{
	uint64_t end = sooner(disk_usage_wake_ns(), sooner(nearest_deadline(), lease_end_ns())), ms;

	if (guest_link_is_used())
		end = sooner(end, guest_link_wake_ns(now_ns));
	if (channel_needs_retry() || event_out_waits())
		end = sooner(end, now_ns + RETRY_MS * CLOCK_MS);
	end = sooner(end, owner_finder_wake_ns(now_ns));
	if (tree_wait_ms >= 0)
		end = sooner(end, now_ns + (unsigned)tree_wait_ms * CLOCK_MS);
	if (end == 0)
		return -1;
	if (end <= now_ns)
		return 0;
	ms = (end - now_ns) / CLOCK_MS + 1;
	return ms > 3600000 ? 3600000 : (int)ms;
}

#define OWNERS (1 + CHANNEL_FDS) /* behind signals and channel */
#define FIXED_FDS (OWNERS + 1)

static struct pollfd fds[FIXED_FDS + AGENT_PROGRAMS_MAX * PTY_PUMP_FDS + GUEST_LINK_FDS];
static nfds_t guest_fds; /* where those of guest_link.h begin */

/* Fills fds: the fixed ones, then those of programs. */
static nfds_t collect_poll_fds(uint64_t now_ns)
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

/* In the order of collect_poll_fds(): the table has not changed since. */
static void serve_programs(void)
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

static void kill_trees(uint64_t now_ns)
{
	(void)reap();
	tree_wait_ms = kill_tree_pass(now_ns);
	if (!kill_tree_busy())
		tree_wait_ms = -1;
	(void)reap(); /* so that EXITED of a program is sent before its TREE_DEAD */
}

/* poll(2) refuses more entries than the limit of open files, which root of a guest can lower for
 * this process: then they are looked at one by one. */
static int poll_all(size_t n, int ms)
{
	int ready = poll(fds, n, ms);

	if (ready >= 0 || errno != EINVAL)
		return ready;
	ready = 0;
	for (size_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		ready += poll(&fds[i], 1, 0) > 0;
	}
	if (ready == 0)
		(void)poll(NULL, 0, ms < 0 || ms > 10 ? 10 : ms);
	return ready;
}

static void turn(void)
{
	struct signalfd_siginfo info;
	uint64_t now = clock_now_ns();

	disk_usage_turn(programs_running() > 0, now);
	if (poll_all(collect_poll_fds(now), sleep_ms(now)) < 0)
		return;
	now = clock_now_ns(); /* before the channel is read: see check_deadlines() */
	if (guest_link_is_used() && guest_link_on_ready(fds + guest_fds))
		fds[1].revents = POLLIN;
	serve_programs();
	if (fds[0].revents != 0 && read(signal_fd, &info, sizeof(info)) > 0) {
		if (killing_all)
			continue_killing();
		else
			(void)reap();
	}
	owner_finder_on_ready(fds[OWNERS].revents, now);
	if (fds[2].revents != 0)
		on_connect();
	else if (fds[1].revents != 0)
		(void)read_channel();
	check_deadlines(now);
	check_lease(now);
	if (tree_wait_ms >= 0)
		kill_trees(now);
	exchange_messages();
	if (guest_link_is_used())
		guest_link_flush();
}

/* The first program of a virtual machine. Returns the port to the shim. */
static int boot_guest(void)
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
static int begin(int argc, char **argv, int port)
{
	if (port >= 0)
		return guest_link_begin(port, guest_identity_apply);
	if (argc <= 1 || strcmp(argv[1], "guest") != 0)
		return channel_init();
	guest_gvisor_init(argc - 2, argv + 2);
	return getpid() == 1 ? guest_link_begin(3, guest_gvisor_apply) : -1;
}

/* What cordon doctor runs in a guest: the one program that needs nothing in its root. */
static int print_version(void)
{
	struct err e;

	return io_write_all(STDOUT_FILENO, VERSION_LINE, strlen(VERSION_LINE), &e) < 0;
}

int main(int argc, char **argv)
{
	int port;

	fd_std_fill();
	if (argc > 1 && strcmp(argv[1], "version") == 0)
		return print_version();
	if (argc > 1 && strcmp(argv[1], "diff") == 0)
		return diff_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "capture") == 0)
		return capture_main(argc - 2, argv + 2);
	port = guest_boot_is_ours(argv[0]) ? boot_guest() : -1;
	/* First: descriptor 3 must be the connection, and not one that is opened here. */
	if (begin(argc, argv, port) < 0)
		return 1;
	signal_fd = pid1_setup("cordon-init");
	if (signal_fd < 0)
		return 1;
	event_out_begin(false);
	exchange_messages();
	for (;;)
		turn();
}
