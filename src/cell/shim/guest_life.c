/* guest_life.c - theory of operation
 *
 * One operation of the engine runs at a time (call). Its end leads to the next state. The answers
 * to BOOT, RESUME and SNAPSHOT are decided here, once for each: `answering` says which answer is
 * owed.
 *
 * The stream's end without a word of the engine is given a moment, as the engine's exit says more
 * about the reason.
 *
 * A cold boot that ends because the kernel took its timer for broken is begun again, within the
 * time of the first one. On a loaded machine that happens to about one emulated boot in a hundred.
 */
#include "cell/shim/guest_life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>

#include "cell/engines/engine.h"
#include "cell/shim/carrier.h"
#include "cell/shim/guest_messages.h"
#include "cell/shim/report.h"
#include "cell/shim/shim.h"
#include "cell/shim/streams.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/base/own.h"
#include "lib/base/rand.h"
#include "lib/loop/loop.h"
#include "lib/wire/boot_msg.h"
#include "lib/wire/cell_spec.h"
#include "lib/wire/guest_msg.h"

#define TICK_MS 1000
#define BOOT_S 120 /* a loaded machine without KVM, less than daemon/cells/live_cell.c waits */
#define ENGINE_S 120
#define ANSWER_S 60
#define LOST_S 2
#define DRAIN_S 5
#define BOOTS_MAX 3 /* of one BOOT */

/* The settings that a guest gets with HELLO. Called by guest_life.c. */

/* Names and limits are those of the request. Time and random numbers are the machine's, as they are
 * now: a clone has those of its image until then. */
static struct guest_hello guest_life_greeting(const struct boot_request *r, uint64_t generation,
					      bool egress)
{
	struct guest_hello h = { .generation = generation,
				 .flags = egress ? GUEST_EGRESS : 0,
				 .pids = r->pids,
				 .memory_bytes = r->memory_bytes,
				 .nofile = r->nofile,
				 .disk_bytes = r->disk_bytes,
				 .inodes = r->inodes };
	struct timespec now;

	/* gVisor's root is the cell's, and its agent knows the profile from its arguments. */
	if (r->engine == BOOT_MICROVM && (r->options & BOOT_READ_ONLY) != 0)
		h.flags |= GUEST_READ_ONLY;
	if (r->engine == BOOT_MICROVM && r->profile == CELL_LOCKED) {
		h.flags |= GUEST_LOCKED;
		h.uid = r->uid;
		h.gid = r->gid;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	h.wall_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	rand_bytes(h.entropy, sizeof(h.entropy));
	memcpy(h.machine_id, r->machine_id, sizeof(h.machine_id));
	memcpy(h.hostname, r->hostname, sizeof(h.hostname));
	return h;
}

/* The last output of the engine and the guest's console, for errors. The shim always empties the
 * pipe, so that no writer waits. Called by guest_life.c. */

#define READS 16 /* at a time: a guest that prints without end takes its turns */

static char last[BOOT_TEXT_MAX];
static size_t have;
static int from = -1, to = -1;
static struct loop_fd ready = { .fd = -1 };

static void guest_life_console_keep(const char *bytes, size_t n)
{
	size_t over = have + n > sizeof(last) ? have + n - sizeof(last) : 0;

	memmove(last, last + over, have - over);
	have -= over;
	memcpy(last + have, bytes, n);
	have += n;
}

static void guest_life_console_read_some(void)
{
	char bytes[2048];
	ssize_t n;

	for (int i = 0; i < READS && (n = read(from, bytes, sizeof(bytes))) > 0; i++)
		guest_life_console_keep(bytes, (size_t)n);
}

static void on_ready(struct loop_fd *f, uint32_t events)
{
	guest_life_console_read_some();
}

/* Make the pipe. Return its write end, which stays open for as long as the process runs, or -1.
 */
static int guest_life_console_open(struct loop *l, struct err *e)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, "make the console's pipe");
	from = pair[0];
	to = pair[1];
	ready.on_ready = on_ready;
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "make the console's pipe");
	return loop_add(l, &ready, from, EPOLLIN, e) < 0 ? -1 : to;
}

/* Add a line of the shim's own, behind the output so far. */
/* Not by the pipe: it may be full, and this process is its reader. */
static void guest_life_console_note(const char *why)
{
	static const char before[] = "\ncordon-shim: ";

	if (from >= 0)
		guest_life_console_read_some();
	guest_life_console_keep(before, sizeof(before) - 1);
	guest_life_console_keep(why, strnlen(why, sizeof(last) / 2));
}

/* Whether this is in it. */
static bool guest_life_console_has(const char *text)
{
	if (from >= 0)
		guest_life_console_read_some();
	return memmem(last, have, text, strlen(text)) != NULL;
}

/* A sealed memory file with the last bytes, at most BOOT_TEXT_MAX, -1 if there is nothing, or no
 * file can be made. Read the rest of the pipe first. */
static int guest_life_console_file(void)
{
	OWN_FD fd = -1;

	if (from >= 0)
		guest_life_console_read_some();
	if (have == 0)
		return -1;
	fd = memfd_create("console", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || write(fd, last, have) != (ssize_t)have ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -1;
	return TAKE_FD(fd);
}

enum guest_life_state {
	NONE,
	STARTING,
	AGAIN, /* the engine has ended, guest_life_settle() starts another one */
	PAUSED,
	GREETING,
	RUNNING,
	DRAINING, /* input from before SNAPSHOT goes to the guest first */
	HOLDING,  /* the input does not end: no more is taken, QUIESCE follows the rest */
	QUIESCING,
	GIVING_UP, /* QUIESCE took too long: GO_ON is sent when the guest reads again */
	STOPPING,
	SAVING,
	STOPPED,
	GOING_ON,
	LOST,
	GONE,
};

enum guest_life_answer { ANSWER_NONE, ANSWER_BOOTED, ANSWER_SNAPSHOT };

static enum guest_life_state state;
static enum guest_life_answer answering;
static struct boot_request request;
static const struct engine_ops *ops;
static struct engine *engine;
static struct engine_host host;
static struct engine_call call;
static int boot_fds[BOOT_FDS_MAX]; /* of BOOT, until it is answered */
static size_t boot_nfds;
static unsigned boots;	 /* begun */
static unsigned spent_s; /* by them */
static enum boot_accel accel;
static uint64_t generation; /* 0: not greeted yet */
static bool has_run;
static bool stay;
static uint64_t changes_max;	  /* of the requested snapshot */
static bool only_changes;	  /* its result */
static int image[2] = { -1, -1 }; /* until SNAPSHOT_DONE is sent */
static struct loop_timer timer;
static unsigned ticks; /* left, in states that wait */
static struct {
	int sys; /* 0: it has not */
	enum boot_stage stage;
} save_failed; /* the guest continues, the answer follows */

static void guest_life_engine_done(struct completion *c, const struct err *e);

/* Time. */

static void on_tick(struct loop_timer *t);

static void guest_life_tick_in(uint64_t ms)
{
	timer.on_expire = on_tick;
	loop_timer_set(shim_loop, &timer, clock_now_ns() + ms * CLOCK_MS);
}

static void guest_life_enter(enum guest_life_state next, unsigned seconds)
{
	state = next;
	ticks = seconds;
	guest_messages_forgive();
	if (seconds > 0)
		guest_life_tick_in(TICK_MS);
	else if (next == RUNNING)
		guest_life_tick_in(guest_messages_ping_ms);
	else
		loop_timer_cancel(shim_loop, &timer);
	shim_wake();
}

/* The remaining time for the start of the guest. */
static unsigned guest_life_at_most(unsigned usual_s)
{
	unsigned all_s = request.wait_s != 0 && request.wait_s < usual_s ? request.wait_s : usual_s;

	return spent_s < all_s ? all_s - spent_s : 1;
}

/* Answers. */

static void guest_life_close_boot_fds(void)
{
	io_close_all(boot_fds, boot_nfds);
	boot_nfds = 0;
}

static void guest_life_answer_booted(int sys, enum boot_stage stage)
{
	const struct agent_event v = { .pid = sys == 0 ? accel : 0,
				       .stage = sys == 0 ? 0 : stage,
				       .sys = sys };

	answering = ANSWER_NONE;
	guest_life_close_boot_fds();
	report_booted(&v, sys == 0 ? -1 : guest_life_console_file());
	shim_wake();
}

static void guest_life_answer_snapshot(int sys, enum boot_stage stage)
{
	const struct agent_event v = { .pid = sys == 0 && only_changes,
				       .stage = sys == 0 ? 0 : stage,
				       .sys = sys };

	answering = ANSWER_NONE;
	if (sys != 0)
		io_close_all(image, 2);
	report_snapshot(&v, TAKE_FD(image[0]), TAKE_FD(image[1]));
	shim_wake();
}

/* Its code may be on the stack: guest_life_settle() frees it. */
static void guest_life_leave_engine(void)
{
	completion_cancel(&call.done);
	carrier_close();
	io_close_all(image, 2);
}

/* After a failed snapshot. */
static void guest_life_run_on(void)
{
	guest_messages_go_on();
	carrier_hold(false);
	guest_life_enter(RUNNING, 0);
}

static void guest_life_quiesce(void)
{
	guest_messages_quiesce();
	carrier_hold(true);
	guest_life_enter(QUIESCING, state == HOLDING ? ticks : ANSWER_S); /* one bound for both */
}

/* Whether it is worth while: there is as much time left as was spent. */
static bool guest_life_can_boot_again(enum boot_guest what)
{
	return what == BOOT_GUEST_PANICKED && answering == ANSWER_BOOTED && !has_run &&
	       boots < BOOTS_MAX && (request.flags & BOOT_RESTORE) == 0 &&
	       guest_life_at_most(BOOT_S) > spent_s && guest_life_console_has(GUEST_NO_TIMER);
}

/* The guest has ended. An owed answer reports the failure. The server is told of the end of every
 * guest that ran: to it, a failed RESUME is no end. */
static void guest_life_end_guest(enum boot_guest what, int sys, enum boot_stage stage)
{
	enum guest_life_answer owed = answering;
	bool again = guest_life_can_boot_again(what);

	if (state == GONE)
		return;
	guest_life_enter(again ? AGAIN : GONE, 0);
	guest_life_leave_engine();
	if (again)
		return;
	if (owed == ANSWER_BOOTED)
		guest_life_answer_booted(sys, stage);
	if (owed == ANSWER_BOOTED && !has_run)
		return; /* the answer says it */
	if (owed == ANSWER_SNAPSHOT)
		guest_life_answer_snapshot(BOOT_SYS_ENDED, stage);
	report_gone(what, guest_life_console_file());
}

static int guest_life_sys_of(const struct err *e)
{
	return e->code == ERR_SYSTEM && e->sys > 0 && e->sys < 4096 ? e->sys : EIO;
}

void guest_life_breach(const struct err *e)
{
	guest_life_console_note(e->msg);
	guest_life_end_guest(BOOT_GUEST_BROKE, EPROTO, BOOT_AT_AGENT);
}

static void on_broken(const struct err *e)
{
	if (state == GONE)
		return;
	if (e->code != ERR_SYSTEM)
		guest_life_breach(e);
	else
		guest_life_enter(LOST, LOST_S);
}

static void on_gone(const struct engine_host *h, enum boot_guest what, const char *why)
{
	guest_life_console_note(why);
	guest_life_end_guest(what, EIO,
			     what == BOOT_GUEST_PANICKED ? BOOT_AT_KERNEL : BOOT_AT_ENGINE);
}

/* The engine. */

static void guest_life_begin_call(enum guest_life_state next, unsigned seconds)
{
	guest_life_enter(next, seconds);
	call = (struct engine_call){ .fds = { -1, -1 } };
	call.done.on_done = guest_life_engine_done;
	completion_begin(&call.done, shim_loop, NULL);
}

static void guest_life_start_engine(void)
{
	engine = ops->new (&host);
	if (engine == NULL) {
		guest_life_end_guest(BOOT_GUEST_EXITED, ENOMEM, BOOT_AT_ENGINE);
		return;
	}
	boots++;
	guest_life_begin_call(STARTING, guest_life_at_most(ENGINE_S));
	ops->start(engine, &request, boot_fds, &call);
	if ((request.flags & BOOT_RESTORE) != 0)
		guest_life_close_boot_fds();
}

void guest_life_settle(void)
{
	if (state == AGAIN) {
		ops->free(engine);
		generation = 0;
		guest_life_start_engine();
	}
	if ((state == DRAINING && carrier_is_drained()) || (state == HOLDING && carrier_can_send()))
		guest_life_quiesce();
	if (state == GIVING_UP && carrier_can_send())
		guest_life_run_on();
	if (state != GONE || engine == NULL)
		return;
	ops->free(engine);
	engine = NULL;
}

static void guest_life_begin_going_on(void)
{
	guest_life_begin_call(GOING_ON, ENGINE_S);
	ops->go_on(engine, &call);
}

static void guest_life_greet(void)
{
	bool first = generation == 0;
	struct guest_hello h;

	while (generation == 0)
		rand_bytes(&generation, sizeof(generation));
	h = guest_life_greeting(&request, generation, !ops->shares_network);
	carrier_hold(true);
	if (!guest_messages_hello(&h, first))
		guest_life_end_guest(BOOT_GUEST_BROKE, EPROTO, BOOT_AT_AGENT);
	else
		guest_life_enter(GREETING, (request.flags & BOOT_RESTORE) != 0 || !first
						   ? ANSWER_S
						   : guest_life_at_most(BOOT_S));
}

static void on_engine_started(void)
{
	struct err e;

	accel = call.accel;
	if (carrier_open(TAKE_FD(call.fds[0]), guest_messages_on_frame, on_broken, &e) < 0)
		guest_life_end_guest(BOOT_GUEST_EXITED, ENOMEM, BOOT_AT_ENGINE);
	else if ((request.flags & BOOT_RESTORE) == 0)
		guest_life_greet();
	else if ((request.flags & BOOT_PAUSED) == 0)
		guest_life_begin_going_on();
	else {
		guest_life_enter(PAUSED, 0);
		guest_life_answer_booted(0, 0);
	}
}

static void on_saved(void)
{
	image[0] = TAKE_FD(call.fds[0]);
	image[1] = TAKE_FD(call.fds[1]);
	only_changes = call.only_changes;
	if (!stay) {
		guest_life_begin_going_on();
		return;
	}
	guest_life_enter(STOPPED, 0);
	guest_life_answer_snapshot(0, 0);
}

/* The guest runs again. Its programs stand still until it has an identity of its own: a copy of it
 * may have the same identity, and it may be the copy. */
static void on_going(void)
{
	guest_life_greet();
	if (answering == ANSWER_SNAPSHOT && state != GONE)
		guest_life_answer_snapshot(save_failed.sys, save_failed.stage);
	save_failed.sys = 0;
}

/* A failed snapshot: the guest continues, if the engine can let it. If the engine has ended, a
 * frequent reason of the failure, the answer says so. */
static void on_save_failed(const struct err *e)
{
	guest_life_console_note(e->msg);
	save_failed.sys = guest_life_sys_of(e);
	save_failed.stage = call.stage;
	guest_life_begin_going_on();
}

static void guest_life_engine_done(struct completion *c, const struct err *e)
{
	enum guest_life_state was = state;

	if (e != NULL && (was == STOPPING || was == SAVING)) {
		on_save_failed(e);
		return;
	}
	if (e != NULL) {
		guest_life_console_note(e->msg);
		guest_life_end_guest(BOOT_GUEST_EXITED, guest_life_sys_of(e), call.stage);
		return;
	}
	if (was == STARTING) {
		on_engine_started();
	} else if (was == GOING_ON) {
		on_going();
	} else if (was == STOPPING) {
		guest_life_begin_call(SAVING, ticks); /* one bound for both */
		call.changes_max = changes_max;
		ops->snapshot(engine, &call);
	} else if (was == SAVING) {
		on_saved();
	}
}

/* Requests. */

void guest_life_boot(const struct boot_request *r, int *fds, size_t nfds)
{
	struct err e;

	if (state != NONE || nfds != boot_fds_count(r->fds)) {
		io_close_all(fds, nfds);
		guest_life_answer_booted(state != NONE ? EALREADY : EBADF, BOOT_AT_STATE);
		return;
	}
	answering = ANSWER_BOOTED;
	request = *r;
	host = (struct engine_host){ .loop = shim_loop, .on_gone = on_gone };
	host.console = guest_life_console_open(shim_loop, &e);
	ops = engine_find((enum boot_engine)r->engine);
	shim_shares_network = ops != NULL && ops->shares_network;
	memcpy(boot_fds, fds, nfds * sizeof(*fds));
	boot_nfds = nfds;
	if (ops == NULL || host.console < 0)
		guest_life_end_guest(BOOT_GUEST_EXITED, ops == NULL ? EOPNOTSUPP : ENOMEM,
				     BOOT_AT_ENGINE);
	else
		guest_life_start_engine();
}

void guest_life_resume(const struct boot_request *r)
{
	if (state != PAUSED && state != STOPPED && state != RUNNING) {
		guest_life_answer_booted(EAGAIN, BOOT_AT_STATE);
		return;
	}
	answering = ANSWER_BOOTED;
	request.pids = r->pids;
	request.nofile = r->nofile;
	request.disk_bytes = r->disk_bytes;
	request.inodes = r->inodes;
	memcpy(request.hostname, r->hostname, sizeof(request.hostname));
	memcpy(request.machine_id, r->machine_id, sizeof(request.machine_id));
	if (state == RUNNING)
		guest_life_greet();
	else
		guest_life_begin_going_on();
}

void guest_life_snapshot(bool stay_stopped, uint64_t bytes)
{
	if (state != RUNNING || !ops->can_snapshot) {
		guest_life_answer_snapshot(state != RUNNING ? EAGAIN : EOPNOTSUPP, BOOT_AT_STATE);
		return;
	}
	answering = ANSWER_SNAPSHOT;
	stay = stay_stopped;
	changes_max = bytes;
	streams_want_all();
	guest_life_enter(DRAINING, DRAIN_S);
}

/* The guest's answers. */

void guest_life_on_ready(void)
{
	carrier_hold(false);
	has_run = true;
	guest_life_enter(RUNNING, 0);
	if (answering == ANSWER_BOOTED)
		guest_life_answer_booted(0, 0);
}

void guest_life_on_refused(const struct err *e, int sys)
{
	guest_life_console_note(e->msg);
	guest_life_end_guest(BOOT_GUEST_BROKE, sys == 0 ? EPROTO : sys, BOOT_AT_AGENT);
}

void guest_life_on_quiesced(void)
{
	if (state != QUIESCING)
		return; /* it was too late */
	guest_life_begin_call(STOPPING, ENGINE_S);
	ops->stop(engine, &call);
}

bool guest_life_is_restored(void)
{
	return (request.flags & BOOT_RESTORE) != 0;
}

/* Whether the first part of READY has to be perfect. */
bool guest_life_must_obey(void)
{
	return !ops->shares_network;
}

bool guest_life_takes_requests(void)
{
	return state == RUNNING && carrier_can_send();
}

bool guest_life_is_running(void)
{
	return state == RUNNING || state == GIVING_UP;
}

void guest_life_end_overdue(void)
{
	guest_life_console_note("a program outlived its timeout, and the guest did not end it");
	guest_life_end_guest(BOOT_GUEST_OVERDUE, ETIMEDOUT, BOOT_AT_TIME);
}

bool guest_life_is_changing(void)
{
	return state != NONE && state != PAUSED && state != STOPPED && state != LOST &&
	       state != GONE;
}

/* Time. */

static void on_timeout(void)
{
	if (state == DRAINING) {
		carrier_hold(true);
		guest_life_enter(HOLDING, ANSWER_S);
		return;
	}
	if (state == HOLDING || state == QUIESCING) {
		guest_life_answer_snapshot(ETIMEDOUT, BOOT_AT_TIME);
		report_responsive(false);
		carrier_hold(state == QUIESCING);
		guest_life_enter(state == HOLDING ? RUNNING : GIVING_UP, 0);
		return;
	}
	guest_life_console_note(state == LOST ? "the guest's stream has ended"
					      : "no answer in time");
	guest_life_end_guest(state == LOST ? BOOT_GUEST_BROKE : BOOT_GUEST_EXITED, ETIMEDOUT,
			     BOOT_AT_TIME);
}

static void on_tick(struct loop_timer *t)
{
	if (state == RUNNING) {
		guest_messages_watch_ping();
		guest_life_tick_in(guest_messages_ping_ms);
		return;
	}
	if (!has_run)
		spent_s++;
	if (ticks > 0 && --ticks == 0)
		on_timeout();
	else if (ticks > 0)
		guest_life_tick_in(TICK_MS);
}

void guest_life_on_exit(pid_t pid, int status)
{
	if (engine != NULL)
		(void)ops->on_exit(engine, pid, status);
}
