/* run_wait.c - waits for the end of the command: relays its streams, passes signals on, ends it
 * when its time is over. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/time.h>

#include "clock.h"
#include "run_private.h"

/* How much later than PID 1 cordon ends the command. A guest may be slow, and lists changes only of
 * a command that it has ended itself. */
#define GRACE_MS 2000U
#define GUEST_GRACE_MS 10000U

int run_wait_signals(struct run *r, struct err *e)
{
	static const int caught[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH
	};
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < COUNT(caught); i++)
		(void)sigaddset(&set, caught[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, "signal mask");
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->signal_fd < 0)
		return err_sys(e, "signalfd");
	return 0;
}

/* The terminal of a guest's program is not this machine's. */
static void resize(struct run *r)
{
	uint16_t rows = 0, cols = 0;
	struct err e;

	if (!run_guest_wanted(r)) {
		terminal_resize(&r->terminal);
		return;
	}
	terminal_size(&rows, &cols);
	if (r->o.tty && rows > 0)
		IGNORED(agent_send_resize(&r->agent, RUN_HANDLE, rows, cols, &e),
			"a dead cell shows by itself");
}

static void forward_signal(struct run *r)
{
	struct signalfd_siginfo info;
	struct err e;

	if (read(r->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH)
		resize(r);
	else
		IGNORED(agent_send_signal(&r->agent, RUN_HANDLE, (int)info.ssi_signo, &e),
			"a dead cell shows by itself");
}

uint64_t run_wait_limit_ms(const struct run *r)
{
	return r->o.timeout_ms + (run_guest_wanted(r) ? GUEST_GRACE_MS : GRACE_MS);
}

/* Milliseconds until cordon ends the cell because PID 1 did not end the command; -1: never. */
static int backstop_ms(const struct run *r)
{
	uint64_t limit = run_wait_limit_ms(r);
	uint64_t spent = (clock_now_ns() - r->timed_ns) / CLOCK_MS;

	if (r->o.timeout_ms == 0)
		return -1;
	if (spent >= limit)
		return 0;
	return limit - spent > 60000 ? 60000 : (int)(limit - spent);
}

static void wake_up(int sig)
{
	(void)sig;
}

/* A PID 1 that was taken over shares the flags of its pipes with cordon and can make them block. So
 * from then on a signal interrupts every blocking call, once a second. */
void run_wait_begin(struct run *r)
{
	const struct sigaction act = { .sa_handler = wake_up };
	uint64_t ms = run_wait_limit_ms(r);
	const struct itimerval timer = { .it_interval = { .tv_sec = 1 },
					 .it_value = { .tv_sec = (time_t)(ms / 1000),
						       .tv_usec = (suseconds_t)(ms % 1000) * 1000 +
								  1 } };

	r->timed_ns = clock_now_ns();
	if (r->o.timeout_ms == 0)
		return;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)setitimer(ITIMER_REAL, &timer, NULL);
}

/* The terminal of a guest's program stays open in the guest when its output is not read any more;
 * one of this machine ends its programs by itself. */
static void hang_up(struct run *r)
{
	struct err e;

	if (!r->relay.unread || r->hung_up)
		return;
	r->hung_up = true;
	IGNORED(agent_send_signal(&r->agent, RUN_HANDLE, SIGHUP, &e),
		"a dead cell shows by itself");
}

int run_wait(struct run *r, struct err *e)
{
	for (;;) {
		struct pollfd fds[RELAY_POLLS + 4] = { 0 };
		size_t n = relay_wants(&r->relay, fds);
		enum agent_type type;
		struct agent_event v;
		int got, wait_ms = backstop_ms(r);

		if (wait_ms == 0) {
			r->outcome.timed_out = true;
			return 0;
		}
		fds[n] = (struct pollfd){ .fd = r->agent.sock, .events = POLLIN };
		fds[n + 1] = (struct pollfd){ .fd = r->signal_fd, .events = POLLIN };
		fds[n + 2] = (struct pollfd){ .fd = r->keeper.sock, .events = POLLIN };
		fds[n + 3] = (struct pollfd){ .fd = r->net.sock, .events = POLLIN };
		if (poll(fds, n + 4, wait_ms) < 0 && errno != EINTR)
			return err_sys(e, "poll");
		if (fds[n + 2].revents != 0)
			return err_set(e, ERR_SYSTEM, "the keeper died");
		if (fds[n + 1].revents != 0)
			forward_signal(r);
		if (fds[n + 3].revents != 0)
			run_net_receive(&r->net);
		relay_turn(&r->relay, fds, n);
		hang_up(r);
		if (fds[n].revents == 0)
			continue;
		got = agent_next(&r->agent, 0, &type, &v, e);
		if (got < 0)
			return err_wrap(e, "the cell was lost");
		if (got > 0 && type == AGENT_GUEST && run_guest_event(r, &v, e) < 0)
			return -1;
		if (got == 0 || type != AGENT_EXITED)
			continue;
		r->outcome.ended = true;
		r->outcome.event = v;
		/* A report of PID 1, accepted only if it can be true. */
		r->outcome.timed_out =
			v.timed_out != 0 && r->o.timeout_ms != 0 &&
			clock_now_ns() - r->requested_ns >= r->o.timeout_ms * CLOCK_MS;
		return 0;
	}
}
