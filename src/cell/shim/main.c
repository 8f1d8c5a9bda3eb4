/* main.c - cordon-shim: PID 1 of a cell with a guest. It runs an engine (runsc, QEMU) in the cell.
 * The session's programs run in the guest behind it, where cordon-init starts them. Towards the
 * server it is a PID 1 like any other: channel B, pipes, adoption, lease (doc/shim-protocol.md).
 * The files:
 *
 *   main.c             the loop: channel, children, timers
 *   requests.c         the server's requests
 *   report.c           events that belong to no program
 *   guest_life.c       the guest: boot, greeting, snapshot, end, and the last of its console
 *   guest_messages.c   stream 0: messages of the guest's agent, and whether it answers
 *   guest_programs.c   programs in the guest
 *   guest_dial.c       connections to ports of the guest
 *   egress_open.c      connections of the guest to the outside, and the programs that made
 *                      them. dns_ask.c: its DNS queries
 *   carrier.c          the byte stream to the guest. streams.c joins streams to descriptors
 *   engine.h           the interface of engines. engines.c lists them
 *
 * From init/: agentd.c, the half that speaks with the server, channel.c, dialer.c and
 * egress_listener.c.
 *
 * The guest is hostile, and so is the engine once the guest has taken it over: it runs with the
 * rights of the cell's programs. Everything from them is checked. A breach of the protocol ends the
 * guest. The program at the other end of channel B is trusted. Nothing here blocks, and memory is
 * bounded. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cell/init/base/channel.h"
#include "cell/init/pid1/agentd.h"
#include "cell/shim/carrier.h"
#include "cell/shim/egress_open.h"
#include "cell/shim/guest_dial.h"
#include "cell/shim/guest_life.h"
#include "cell/shim/guest_messages.h"
#include "cell/shim/guest_programs.h"
#include "cell/shim/report.h"
#include "cell/shim/requests.h"
#include "cell/shim/shim.h"
#include "lib/base/clock.h"
#include "lib/base/fd_std.h"
#include "lib/base/log.h"

#define LATE_RETRY_MS 200

static int signal_fd;
static struct loop_fd channel_ready, listener_ready, signal_ready;
static struct loop_timer wake;

/* The channel's descriptors change inside channel.c: they are registered only while no function of
 * it is called that may close one. */
static void shim_unwatch(void)
{
	loop_remove(shim_loop, &channel_ready);
	loop_remove(shim_loop, &listener_ready);
}

static void shim_watch_one(struct loop_fd *f, const struct pollfd *p)
{
	struct err e;
	uint32_t events = (p->events & POLLOUT) != 0 ? EPOLLOUT : EPOLLIN;

	if (p->fd >= 0 && loop_add(shim_loop, f, p->fd, events, &e) < 0)
		_exit(1);
}

static void shim_watch(void)
{
	struct pollfd fds[CHANNEL_FDS];

	channel_poll_fds(fds);
	/* Not even its end is of interest while a request waits: it is read to its end in order. */
	if (agentd_is_blocked() && (fds[0].events & POLLOUT) == 0)
		fds[0].fd = -1;
	shim_watch_one(&channel_ready, &fds[0]);
	shim_watch_one(&listener_ready, &fds[1]);
}

static void on_disconnect(void)
{
	carrier_keep_large();
	guest_programs_on_disconnect();
	guest_messages_on_disconnect();
	guest_dial_drop_all();
}

static void on_channel(struct loop_fd *f, uint32_t events)
{
	shim_unwatch();
	(void)agentd_read();
	shim_wake();
}

static void on_listener(struct loop_fd *f, uint32_t events)
{
	shim_unwatch();
	agentd_accept();
	shim_wake();
}

static void on_children(struct loop_fd *f, uint32_t events)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	IGNORED(read(signal_fd, &info, sizeof(info)), "only that there is one counts");
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		guest_life_on_exit(pid, status);
	shim_wake();
}

static void shim_set_wake(uint64_t now_ns)
{
	uint64_t deadline = agentd_nearest_deadline();

	if (deadline != 0 && deadline <= now_ns) /* the guest does not take requests now */
		deadline = now_ns + LATE_RETRY_MS * CLOCK_MS;
	deadline = agentd_sooner(deadline, agentd_wake_ns(now_ns));
	if (deadline == 0)
		loop_timer_cancel(shim_loop, &wake);
	else
		loop_timer_set(shim_loop, &wake, deadline);
}

/* All that may be possible now. */
static void on_settle(struct loop_task *t)
{
	uint64_t now = clock_now_ns();

	shim_unwatch();
	guest_programs_check_exits();
	agentd_exchange();
	requests_kill_abandoned();
	carrier_pump();
	guest_life_settle();
	carrier_pump();
	guest_programs_check_exits();
	agentd_exchange(); /* there may be room now */
	shim_watch();
	shim_set_wake(now);
}

static void on_wake(struct loop_timer *t)
{
	uint64_t now = clock_now_ns();

	shim_unwatch();
	agentd_check_deadlines(now);
	agentd_check_lease(now);
	shim_wake();
}

static struct agentd_program *shim_next_program(const struct agentd_program *p)
{
	return (struct agentd_program *)guest_programs_next((const struct guest_program *)p);
}

static bool shim_must_wait(const struct agentd_program *p, unsigned what)
{
	return guest_programs_waits((const struct guest_program *)p, what);
}

static void on_sent(struct agentd_program *p, unsigned what)
{
	guest_programs_on_sent((struct guest_program *)p, what);
}

static const struct agentd_ops agentd_ops = {
	.next = shim_next_program,
	.waits = shim_must_wait,
	.on_sent = on_sent,
	.send_others = report_send,
	.handle = requests_handle,
	/* A large request stays in the channel's buffer while it is sent: more parsing would move
	 * it. Events do not wait for it. */
	.is_busy = carrier_is_sending_large,
	.on_begin = report_begin,
	.on_disconnect = on_disconnect,
	.end_late = requests_end_late,
	.answer_owners = egress_open_answer_owners,
};

static int shim_setup(struct err *e)
{
	shim_loop = loop_new(e);
	if (shim_loop == NULL)
		return -1;
	shim_settle.on_run = on_settle;
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
	if (channel_init() < 0)			       /* first: see cell/init/main.c */
		return 1;
	signal_fd = agentd_setup("cordon-shim");
	if (signal_fd < 0 || shim_setup(&e) < 0)
		return 1;
	agentd_init(&agentd_ops);
	agentd_begin(false);
	shim_wake();
	return loop_run(shim_loop, &e) < 0;
}
