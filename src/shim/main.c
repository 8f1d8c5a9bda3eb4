/* main.c - cordon-shim: PID 1 of a cell with a guest. It runs an engine (runsc, QEMU) in the cell;
 * the session's programs run in the guest behind it, where cordon-init starts them. Towards the
 * server it is a PID 1 like any other: channel B, pipes, adoption, lease (doc/levels.md). The
 * files:
 *
 *   main.c             the loop: channel, children, timers
 *   requests.c         the server's requests
 *   report.c           what is still to be sent to the server
 *   guest_life.c       the guest: boot, greeting, snapshot, end
 *   guest_messages.c   stream 0: messages of the guest's agent; guest_ping.c: does it answer?
 *   guest_programs.c   programs in the guest
 *   guest_dial.c       connections to ports of the guest
 *   egress_open.c      connections of the guest to the outside; dns_ask.c its DNS queries;
 *                      owner_answer.c says which program made one
 *   carrier.c          the byte stream to the guest; streams.c joins streams to descriptors
 *   console.c          the end of what engine and guest print
 *   engine.h           the interface of engines; engines.c lists them
 *
 * From init/: channel.c, lease.c, dialer.c, egress_listener.c, pid1.c.
 *
 * The guest is hostile, and so is the engine once the guest has taken it over: it runs with the
 * rights of the cell's programs. Everything from them is checked; a breach of the protocol ends the
 * guest. The program at the other end of channel B is trusted. Nothing here blocks, and memory is
 * bounded. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "carrier.h"
#include "channel.h"
#include "clock.h"
#include "fd_std.h"
#include "guest_dial.h"
#include "guest_life.h"
#include "guest_messages.h"
#include "guest_programs.h"
#include "lease.h"
#include "log.h"
#include "pid1.h"
#include "report.h"
#include "requests.h"
#include "shim.h"

#define RETRY_MS 50
#define LATE_RETRY_MS 200
#define LAST_READS_MAX 16 /* reads from a connection that is being replaced */

struct loop *shim_loop;

static bool connected = true;
static int signal_fd;
static struct loop_fd channel_ready, listener_ready, signal_ready;
static struct loop_task settle;
static struct loop_timer wake;

void shim_wake(void)
{
	loop_defer(shim_loop, &settle);
}

/* The channel's descriptors change inside channel.c: they are registered only while no function of
 * it is called that may close one. */
static void unwatch(void)
{
	loop_remove(shim_loop, &channel_ready);
	loop_remove(shim_loop, &listener_ready);
}

static void watch_one(struct loop_fd *f, const struct pollfd *p)
{
	struct err e;
	uint32_t events = (p->events & POLLOUT) != 0 ? EPOLLOUT : EPOLLIN;

	if (p->fd >= 0 && loop_add(shim_loop, f, p->fd, events, &e) < 0)
		_exit(1);
}

static void watch(void)
{
	struct pollfd fds[CHANNEL_FDS];

	channel_poll_fds(fds);
	/* Not even its end is of interest while a request waits: it is read to its end in order. */
	if (requests_are_blocked() && (fds[0].events & POLLOUT) == 0)
		fds[0].fd = -1;
	watch_one(&channel_ready, &fds[0]);
	watch_one(&listener_ready, &fds[1]);
}

static void on_disconnect(void)
{
	carrier_keep_large();
	requests_on_disconnect();
	guest_programs_on_disconnect();
	guest_messages_on_disconnect();
	guest_dial_drop_all();
}

static void check_connection(void)
{
	if (!connected || channel_is_open())
		return;
	connected = false;
	lease_on_disconnect(clock_now_ns());
	on_disconnect();
}

/* False if nothing was received. */
static bool read_channel(void)
{
	bool received = !requests_are_blocked() && channel_receive();

	requests_handle();
	check_connection();
	return received;
}

/* Requests that were sent over the old connection are handled first. */
static void accept_server(void)
{
	if (!channel_accept())
		return;
	for (unsigned i = 0; i < LAST_READS_MAX && read_channel(); i++)
		;
	if (connected)
		on_disconnect();
	channel_replace();
	connected = true;
	lease_on_connect();
	report_begin(true);
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	unwatch();
	(void)read_channel();
	shim_wake();
}

static void on_listener(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	unwatch();
	accept_server();
	shim_wake();
}

static void on_children(struct loop_fd *f, uint32_t events)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	(void)f;
	(void)events;
	IGNORED(read(signal_fd, &info, sizeof(info)), "only that there is one counts");
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		guest_life_on_exit(pid, status);
	shim_wake();
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* A cell may be frozen at any instruction; the server sends PAUSED before it thaws it. So the clock
 * is read first, then requests, then deadlines are compared (as in init/main.c). */
static void check_deadlines(uint64_t now_ns)
{
	uint64_t nearest = guest_programs_deadline();

	if (nearest == 0 || nearest > now_ns)
		return;
	while (read_channel())
		;
	requests_end_late(now_ns);
}

/* Ends the cell if no server has connected in time; one that waits is accepted first. */
static void check_lease(uint64_t now_ns)
{
	uint64_t end = lease_end_ns();

	if (end == 0 || end > now_ns)
		return;
	accept_server();
	if (!connected)
		_exit(0);
}

static void set_wake(uint64_t now_ns)
{
	uint64_t deadline = guest_programs_deadline();

	if (deadline != 0 && deadline <= now_ns) /* the guest does not take requests now */
		deadline = now_ns + LATE_RETRY_MS * CLOCK_MS;
	deadline = sooner(deadline, lease_end_ns());
	if (channel_needs_retry())
		deadline = sooner(deadline, now_ns + RETRY_MS * CLOCK_MS);
	if (deadline == 0)
		loop_timer_cancel(shim_loop, &wake);
	else
		loop_timer_set(shim_loop, &wake, deadline);
}

/* All that may be possible now. */
static void on_settle(struct loop_task *t)
{
	uint64_t now = clock_now_ns();

	(void)t;
	unwatch();
	guest_programs_check_exits();
	requests_handle();
	check_connection();
	requests_kill_abandoned();
	carrier_pump();
	guest_life_settle();
	carrier_pump();
	guest_programs_check_exits();
	requests_handle(); /* there may be room now */
	check_connection();
	watch();
	set_wake(now);
}

static void on_wake(struct loop_timer *t)
{
	uint64_t now = clock_now_ns();

	(void)t;
	unwatch();
	check_deadlines(now);
	check_lease(now);
	shim_wake();
}

static int setup(struct err *e)
{
	shim_loop = loop_new(e);
	if (shim_loop == NULL)
		return -1;
	settle.on_run = on_settle;
	wake.on_expire = on_wake;
	channel_ready = (struct loop_fd){ .fd = -1, .on_ready = on_channel };
	listener_ready = (struct loop_fd){ .fd = -1, .on_ready = on_listener };
	signal_ready = (struct loop_fd){ .fd = -1, .on_ready = on_children };
	return loop_add(shim_loop, &signal_ready, signal_fd, EPOLLIN, e);
}

int main(void)
{
	struct err e;

	fd_std_fill();
	log_setup(LOG_FORMAT_LOGFMT, LOG_LEVEL_ERROR); /* slow turns are the guest's affair */
	if (channel_init() < 0)			       /* first: see init/main.c */
		return 1;
	signal_fd = pid1_setup("cordon-shim");
	if (signal_fd < 0 || setup(&e) < 0)
		return 1;
	report_begin(false);
	shim_wake();
	return loop_run(shim_loop, &e) < 0;
}
