/* guest_life.c - theory of operation
 *
 * One operation of the engine runs at a time (call); its end leads to the next state. What BOOT,
 * RESUME and SNAPSHOT are answered with is decided here, once for each: `answering` says which
 * answer is owed.
 *
 * The stream's end without a word of the engine is given a moment, as the engine's exit says more
 * about the reason.
 *
 * A cold boot that ends because the kernel took its timer for broken is begun again, within the
 * time of the first one. On a loaded machine that happens to about one emulated boot in a hundred.
 */
#include "guest_life.h"

#include <errno.h>
#include <string.h>

#include "carrier.h"
#include "clock.h"
#include "console.h"
#include "engine.h"
#include "guest_greeting.h"
#include "guest_messages.h"
#include "guest_ping.h"
#include "io.h"
#include "rand.h"
#include "report.h"
#include "shim.h"
#include "streams.h"

#define TICK_MS 1000
#define BOOT_S 120 /* a loaded machine without KVM; less than cells/live_cell.c waits */
#define ENGINE_S 120
#define ANSWER_S 60
#define LOST_S 2
#define DRAIN_S 5
#define BOOTS_MAX 3 /* of one BOOT */

enum state {
	NONE,
	STARTING,
	AGAIN, /* the engine is over; guest_life_settle() starts another one */
	PAUSED,
	GREETING,
	RUNNING,
	DRAINING, /* input that was written before SNAPSHOT goes to the guest first */
	HOLDING,  /* there is no end of it: nothing more is taken, QUIESCE follows what is */
	QUIESCING,
	GIVING_UP, /* QUIESCE took too long: GO_ON is sent when the guest reads again */
	STOPPING,
	SAVING,
	STOPPED,
	GOING_ON,
	LOST,
	GONE,
};

enum answer { ANSWER_NONE, ANSWER_BOOTED, ANSWER_SNAPSHOT };

static enum state state;
static enum answer answering;
static struct boot_request request;
static const struct engine_ops *ops;
static struct engine *engine;
static struct engine_host host;
static struct engine_call call;
static int boot_fds[BOOT_FDS_MAX]; /* of BOOT, until it is answered */
static size_t boot_nfds;
static unsigned boots;	 /* that were begun */
static unsigned spent_s; /* by them */
static enum boot_accel accel;
static uint64_t generation; /* 0: not greeted yet */
static bool has_run;
static bool stay;
static uint64_t changes_max;	  /* of the snapshot that is asked for */
static bool only_changes;	  /* its result */
static int image[2] = { -1, -1 }; /* until SNAPSHOT_DONE is sent */
static struct loop_timer timer;
static unsigned ticks; /* left, in states that wait */
static struct {
	int sys; /* 0: it has not */
	enum boot_stage stage;
} save_failed; /* the guest goes on; the answer follows */

static void engine_done(struct completion *c, const struct err *e);

/* Time. */

static void on_tick(struct loop_timer *t);

static void tick_in(uint64_t ms)
{
	timer.on_expire = on_tick;
	loop_timer_set(shim_loop, &timer, clock_now_ns() + ms * CLOCK_MS);
}

static void enter(enum state next, unsigned seconds)
{
	state = next;
	ticks = seconds;
	guest_ping_forgive();
	if (seconds > 0)
		tick_in(TICK_MS);
	else if (next == RUNNING)
		tick_in(guest_ping_ms);
	else
		loop_timer_cancel(shim_loop, &timer);
	shim_wake();
}

/* What is left for the start of the guest. */
static unsigned at_most(unsigned usual_s)
{
	unsigned all_s = request.wait_s != 0 && request.wait_s < usual_s ? request.wait_s : usual_s;

	return spent_s < all_s ? all_s - spent_s : 1;
}

/* Answers. */

static void close_boot_fds(void)
{
	io_close_all(boot_fds, boot_nfds);
	boot_nfds = 0;
}

static void answer_booted(int sys, enum boot_stage stage)
{
	const struct agent_event v = { .pid = sys == 0 ? accel : 0,
				       .stage = sys == 0 ? 0 : stage,
				       .sys = sys };

	answering = ANSWER_NONE;
	close_boot_fds();
	report_booted(&v, sys == 0 ? -1 : console_file());
	shim_wake();
}

static void answer_snapshot(int sys, enum boot_stage stage)
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
static void leave_engine(void)
{
	completion_cancel(&call.done);
	carrier_close();
	io_close_all(image, 2);
}

/* After a snapshot that was not made. */
static void run_on(void)
{
	guest_messages_go_on();
	carrier_hold(false);
	enter(RUNNING, 0);
}

static void quiesce(void)
{
	guest_messages_quiesce();
	carrier_hold(true);
	enter(QUIESCING, state == HOLDING ? ticks : ANSWER_S); /* one bound for both */
}

/* Whether it is worth while: there is as much time left as was spent. */
static bool can_boot_again(enum boot_guest what)
{
	return what == BOOT_GUEST_PANICKED && answering == ANSWER_BOOTED && !has_run &&
	       boots < BOOTS_MAX && (request.flags & BOOT_RESTORE) == 0 &&
	       at_most(BOOT_S) > spent_s && console_has(GUEST_NO_TIMER);
}

/* The guest is over. What is owed is answered with the failure. The server is told of the end of
 * every guest that has run: to it, a RESUME that failed is no end. */
static void end_guest(enum boot_guest what, int sys, enum boot_stage stage)
{
	enum answer owed = answering;
	bool again = can_boot_again(what);

	if (state == GONE)
		return;
	enter(again ? AGAIN : GONE, 0);
	leave_engine();
	if (again)
		return;
	if (owed == ANSWER_BOOTED)
		answer_booted(sys, stage);
	if (owed == ANSWER_BOOTED && !has_run)
		return; /* the answer says it */
	if (owed == ANSWER_SNAPSHOT)
		answer_snapshot(BOOT_SYS_ENDED, stage);
	report_gone(what, console_file());
}

static int sys_of(const struct err *e)
{
	return e->code == ERR_SYSTEM && e->sys > 0 && e->sys < 4096 ? e->sys : EIO;
}

void guest_life_breach(const struct err *e)
{
	console_note(e->msg);
	end_guest(BOOT_GUEST_BROKE, EPROTO, BOOT_AT_AGENT);
}

static void on_broken(const struct err *e)
{
	if (state == GONE)
		return;
	if (e->code != ERR_SYSTEM)
		guest_life_breach(e);
	else
		enter(LOST, LOST_S);
}

static void on_gone(const struct engine_host *h, enum boot_guest what, const char *why)
{
	(void)h;
	console_note(why);
	end_guest(what, EIO, what == BOOT_GUEST_PANICKED ? BOOT_AT_KERNEL : BOOT_AT_ENGINE);
}

/* The engine. */

static void begin_call(enum state next, unsigned seconds)
{
	enter(next, seconds);
	call = (struct engine_call){ .fds = { -1, -1 } };
	call.done.on_done = engine_done;
	completion_begin(&call.done, shim_loop, NULL);
}

static void start_engine(void)
{
	engine = ops->new (&host);
	if (engine == NULL) {
		end_guest(BOOT_GUEST_EXITED, ENOMEM, BOOT_AT_ENGINE);
		return;
	}
	boots++;
	begin_call(STARTING, at_most(ENGINE_S));
	ops->start(engine, &request, boot_fds, &call);
	if ((request.flags & BOOT_RESTORE) != 0)
		close_boot_fds();
}

void guest_life_settle(void)
{
	if (state == AGAIN) {
		ops->free(engine);
		generation = 0;
		start_engine();
	}
	if ((state == DRAINING && carrier_is_drained()) || (state == HOLDING && carrier_can_send()))
		quiesce();
	if (state == GIVING_UP && carrier_can_send())
		run_on();
	if (state != GONE || engine == NULL)
		return;
	ops->free(engine);
	engine = NULL;
}

static void begin_going_on(void)
{
	begin_call(GOING_ON, ENGINE_S);
	ops->go_on(engine, &call);
}

static void greet(void)
{
	bool first = generation == 0;
	struct guest_hello h;

	while (generation == 0)
		rand_bytes(&generation, sizeof(generation));
	h = guest_greeting(&request, generation, !ops->shares_network);
	carrier_hold(true);
	if (!guest_messages_hello(&h, first))
		end_guest(BOOT_GUEST_BROKE, EPROTO, BOOT_AT_AGENT);
	else
		enter(GREETING,
		      (request.flags & BOOT_RESTORE) != 0 || !first ? ANSWER_S : at_most(BOOT_S));
}

static void on_engine_started(void)
{
	struct err e;

	accel = call.accel;
	if (carrier_open(TAKE_FD(call.fds[0]), guest_messages_on_frame, on_broken, &e) < 0)
		end_guest(BOOT_GUEST_EXITED, ENOMEM, BOOT_AT_ENGINE);
	else if ((request.flags & BOOT_RESTORE) == 0)
		greet();
	else if ((request.flags & BOOT_PAUSED) == 0)
		begin_going_on();
	else {
		enter(PAUSED, 0);
		answer_booted(0, 0);
	}
}

static void on_saved(void)
{
	image[0] = TAKE_FD(call.fds[0]);
	image[1] = TAKE_FD(call.fds[1]);
	only_changes = call.only_changes;
	if (!stay) {
		begin_going_on();
		return;
	}
	enter(STOPPED, 0);
	answer_snapshot(0, 0);
}

/* The guest runs again. Its programs stand still until it has an identity of its own: a copy of it
 * may have what it had, and it may be the copy. */
static void on_going(void)
{
	greet();
	if (answering == ANSWER_SNAPSHOT && state != GONE)
		answer_snapshot(save_failed.sys, save_failed.stage);
	save_failed.sys = 0;
}

/* A snapshot that failed: the guest goes on, if the engine can let it. If that has ended, which is
 * often why the snapshot failed, the answer says so. */
static void on_save_failed(const struct err *e)
{
	console_note(e->msg);
	save_failed.sys = sys_of(e);
	save_failed.stage = call.stage;
	begin_going_on();
}

static void engine_done(struct completion *c, const struct err *e)
{
	enum state was = state;

	(void)c;
	if (e != NULL && (was == STOPPING || was == SAVING)) {
		on_save_failed(e);
		return;
	}
	if (e != NULL) {
		console_note(e->msg);
		end_guest(BOOT_GUEST_EXITED, sys_of(e), call.stage);
		return;
	}
	if (was == STARTING) {
		on_engine_started();
	} else if (was == GOING_ON) {
		on_going();
	} else if (was == STOPPING) {
		begin_call(SAVING, ticks); /* one bound for both */
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
		answer_booted(state != NONE ? EALREADY : EBADF, BOOT_AT_STATE);
		return;
	}
	answering = ANSWER_BOOTED;
	request = *r;
	host = (struct engine_host){ .loop = shim_loop, .on_gone = on_gone };
	host.console = console_open(shim_loop, &e);
	ops = engine_find((enum boot_engine)r->engine);
	memcpy(boot_fds, fds, nfds * sizeof(*fds));
	boot_nfds = nfds;
	if (ops == NULL || host.console < 0)
		end_guest(BOOT_GUEST_EXITED, ops == NULL ? EOPNOTSUPP : ENOMEM, BOOT_AT_ENGINE);
	else
		start_engine();
}

void guest_life_resume(const struct boot_request *r)
{
	if (state != PAUSED && state != STOPPED && state != RUNNING) {
		answer_booted(EAGAIN, BOOT_AT_STATE);
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
		greet();
	else
		begin_going_on();
}

void guest_life_snapshot(bool stay_stopped, uint64_t bytes)
{
	if (state != RUNNING || !ops->can_snapshot) {
		answer_snapshot(state != RUNNING ? EAGAIN : EOPNOTSUPP, BOOT_AT_STATE);
		return;
	}
	answering = ANSWER_SNAPSHOT;
	stay = stay_stopped;
	changes_max = bytes;
	streams_want_all();
	enter(DRAINING, DRAIN_S);
}

/* The guest's answers. */

void guest_life_on_ready(void)
{
	carrier_hold(false);
	has_run = true;
	enter(RUNNING, 0);
	if (answering == ANSWER_BOOTED)
		answer_booted(0, 0);
}

void guest_life_on_refused(const struct err *e, int sys)
{
	console_note(e->msg);
	end_guest(BOOT_GUEST_BROKE, sys == 0 ? EPROTO : sys, BOOT_AT_AGENT);
}

void guest_life_on_quiesced(void)
{
	if (state != QUIESCING)
		return; /* it was too late */
	begin_call(STOPPING, ENGINE_S);
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
	console_note("a program outlived its timeout, and the guest did not end it");
	end_guest(BOOT_GUEST_OVERDUE, ETIMEDOUT, BOOT_AT_TIME);
}

bool guest_life_is_changing(void)
{
	return state != NONE && state != PAUSED && state != STOPPED && state != LOST &&
	       state != GONE;
}

bool guest_life_shares_network(void)
{
	return ops != NULL && ops->shares_network;
}

/* Time. */

static void on_timeout(void)
{
	if (state == DRAINING) {
		carrier_hold(true);
		enter(HOLDING, ANSWER_S);
		return;
	}
	if (state == HOLDING || state == QUIESCING) {
		answer_snapshot(ETIMEDOUT, BOOT_AT_TIME);
		report_responsive(false);
		carrier_hold(state == QUIESCING);
		enter(state == HOLDING ? RUNNING : GIVING_UP, 0);
		return;
	}
	console_note(state == LOST ? "the guest's stream has ended" : "no answer in time");
	end_guest(state == LOST ? BOOT_GUEST_BROKE : BOOT_GUEST_EXITED, ETIMEDOUT, BOOT_AT_TIME);
}

static void on_tick(struct loop_timer *t)
{
	(void)t;
	if (state == RUNNING) {
		guest_ping_watch();
		tick_in(guest_ping_ms);
		return;
	}
	if (!has_run)
		spent_s++;
	if (ticks > 0 && --ticks == 0)
		on_timeout();
	else if (ticks > 0)
		tick_in(TICK_MS);
}

void guest_life_on_exit(pid_t pid, int status)
{
	if (engine != NULL)
		(void)ops->on_exit(engine, pid, status);
}
