/* kernel_start.c - how long a kernel may take until it is ready (kernel_process.h).
 *
 * A kernel that does nothing is given up after slow_ms. One that works gets twelve times as long:
 * on an emulated processor Java needs two minutes. Clients of E2B wait 60 s for the beginning of an
 * answer, and then for its end, so the owner is told after slow_ms and begins its answers.
 *
 * Ticks are counted, not time: a session may be paused meanwhile. */
#include <time.h>

#include "clock.h"
#include "kernel_process.h"

#define SLOW_TICKS 5
#define TICKS_MAX 60
#define IDLE_TICKS 2 /* a pause of the session makes one */

static void set_timer(struct kernel *k)
{
	loop_timer_set(k->loop, &k->start_timer,
		       clock_now_ns() + k->slow_ms * CLOCK_MS / SLOW_TICKS);
}

/* Of its process; 0: not known. */
static uint64_t processor_ns(const struct kernel *k)
{
	struct timespec t;
	clockid_t id;

	if (k->pid <= 0 || clock_getcpuclockid(k->pid, &id) != 0 || clock_gettime(id, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000 * CLOCK_MS + (uint64_t)t.tv_nsec;
}

/* Less than a thousandth of a processor counts as nothing. */
static void note_work(struct kernel *k)
{
	uint64_t now = processor_ns(k);
	bool worked = now > k->worked_ns &&
		      now - k->worked_ns >= k->slow_ms * CLOCK_MS / SLOW_TICKS / 1000;

	k->idle_ticks = worked ? 0 : k->idle_ticks + 1;
	k->worked_ns = now;
}

static void on_tick(struct loop_timer *t)
{
	struct kernel *k = t->arg;

	note_work(k);
	k->start_ticks++;
	if (k->start_ticks >= TICKS_MAX ||
	    (k->start_ticks >= SLOW_TICKS && k->idle_ticks >= IDLE_TICKS)) {
		kernel_fail(k, k->start_ticks >= TICKS_MAX ? "its start takes too long"
							   : "its start does not go on");
		return;
	}
	set_timer(k);
	if (k->start_ticks == SLOW_TICKS && k->calls->on_slow != NULL)
		k->calls->on_slow(k);
}

void kernel_start_begin(struct kernel *k)
{
	k->start_timer = (struct loop_timer){ .on_expire = on_tick, .arg = k };
	k->start_ticks = k->idle_ticks = 0;
	k->worked_ns = 0;
	set_timer(k);
}

bool kernel_start_is_slow(const struct kernel *k)
{
	return k->state == KERNEL_STARTING && k->start_ticks >= SLOW_TICKS;
}
