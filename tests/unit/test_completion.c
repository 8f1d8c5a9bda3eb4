/* Goal: a completion ends exactly once or is cancelled, in whatever order begin, end, cancel, its
 * deadline and the end of its list come; its callback never comes from inside the callback that
 * began it, and may free, begin, end or cancel anything. */
#include "lib/loop/completion.h"

#include <errno.h>

#include "lib/base/clock.h"
#include "support.h"

#define STEPS 8

/* Runs a list of steps, each in a callback of its own, then the loop stops. */
struct script {
	struct loop *loop;
	struct loop_timer timer;
	void (*steps[STEPS])(void);
	unsigned at;
};

static struct script script;
static struct completion one, two, three;
static struct completions list;
static int ends, last_sys;
static enum err_reason last_reason;
static bool inside, from_inside;

static void on_step(struct loop_timer *t)
{
	if (script.at == STEPS || script.steps[script.at] == NULL) {
		loop_stop(script.loop);
		return;
	}
	loop_timer_set(script.loop, t, clock_now_ns());
	inside = true;
	script.steps[script.at++]();
	inside = false;
}

static void run(void (*const steps[])(void), size_t n)
{
	struct err e;

	script = (struct script){ .loop = loop_new(&e), .timer = { .on_expire = on_step } };
	CHECK(script.loop != NULL && n <= STEPS);
	for (size_t i = 0; i < n; i++)
		script.steps[i] = steps[i];
	loop_timer_set(script.loop, &script.timer, clock_now_ns());
	CHECK(loop_run(script.loop, &e) == 0);
	loop_free(script.loop);
}

#define RUN(...)                                               \
	do {                                                   \
		void (*const steps[])(void) = { __VA_ARGS__ }; \
		run(steps, sizeof(steps) / sizeof(steps[0]));  \
	} while (0)

static void on_done(struct completion *c, const struct err *e)
{
	CHECK(!completion_is_waiting(c));
	ends++;
	last_sys = e == NULL ? 0 : e->sys;
	last_reason = e == NULL ? REASON_NONE : e->reason;
	from_inside = from_inside || inside;
}

static void begin(void)
{
	one.on_done = two.on_done = three.on_done = on_done;
	completion_begin(&one, script.loop, &list);
}

static void begin_three(void)
{
	begin();
	completion_begin(&two, script.loop, &list);
	completion_begin(&three, script.loop, &list);
}

static void end(void)
{
	struct err e = { .code = ERR_SYSTEM, .sys = EIO };

	completion_end(&one, &e);
	e.sys = 0; /* it was copied, if it was kept */
}

static void end_well(void)
{
	completion_end(&one, NULL);
}

static void end_all(void)
{
	completions_end_all(&list, &(struct err){ .code = ERR_SYSTEM, .sys = EIO });
}

static void cancel(void)
{
	completion_cancel(&one);
}

static void begin_and_end(void)
{
	begin();
	end();
	CHECK(ends == 0 && !completion_is_waiting(&one) && list.first == NULL);
}

static void begin_and_end_all(void)
{
	begin_three();
	end_all();
	CHECK(ends == 0 && list.first == NULL);
}

static void begin_end_cancel(void)
{
	begin_and_end();
	cancel();
}

static void soon(void)
{
	one.on_done = on_done;
	completion_end_soon(&one, script.loop, NULL);
	CHECK(ends == 0);
}

static void begin_for_1_ms(void)
{
	begin();
	completion_set_deadline(&one, 1, "test");
}

static void begin_for_a_minute(void)
{
	begin();
	completion_set_deadline(&one, 60000, "test");
}

static void wait_5_ms(void)
{
	(void)usleep(5000);
}

static void ends_once(void)
{
	RUN(begin, end);
	CHECK(ends == 1 && last_sys == EIO && list.first == NULL);
}

static void a_second_end_is_nothing(void)
{
#ifdef CORDON_TEST_ABORTS
	SKIP("this build aborts on a second end");
#endif
	RUN(begin, end, end_well, end_all);
	CHECK(ends == 1 && last_sys == EIO);
}

static void an_early_end_comes_from_the_loop(void)
{
	RUN(begin_and_end);
	CHECK(ends == 1 && last_sys == EIO && !from_inside);
}

static void an_early_end_of_all_comes_from_the_loop(void)
{
	RUN(begin_and_end_all);
	CHECK(ends == 3 && !from_inside);
}

static void a_known_outcome_comes_from_the_loop(void)
{
	RUN(soon);
	CHECK(ends == 1 && last_sys == 0 && !from_inside);
}

static void cancelled_ones_do_not_end(void)
{
	RUN(cancel, begin, cancel, cancel, end_all);
	CHECK(ends == 0 && list.first == NULL);
}

static void an_early_end_can_be_cancelled(void)
{
	RUN(begin_end_cancel, wait_5_ms);
	CHECK(ends == 0);
}

static void a_deadline_ends_it(void)
{
	RUN(begin_for_1_ms, wait_5_ms, wait_5_ms, end_all);
	CHECK(ends == 1 && last_reason == REASON_TIMEOUT && list.first == NULL);
}

static void an_end_switches_its_deadline_off(void)
{
	RUN(begin_for_1_ms, end_well, wait_5_ms, wait_5_ms);
	CHECK(ends == 1 && last_sys == 0);
}

static void a_cancel_switches_its_deadline_off(void)
{
	RUN(begin_for_1_ms, cancel, wait_5_ms, wait_5_ms);
	CHECK(ends == 0);
}

static void beginning_again_forgets_the_deadline(void)
{
	RUN(begin_for_1_ms, begin_for_a_minute, wait_5_ms, end_well);
	CHECK(ends == 1 && last_sys == 0);
}

static void cancel_the_others(struct completion *c, const struct err *e)
{
	on_done(c, e);
	completion_cancel(&one);
	completion_cancel(&two);
	completion_cancel(&three);
}

static void set_cancel_the_others(void)
{
	one.on_done = two.on_done = three.on_done = cancel_the_others;
}

static void others_can_be_cancelled_meanwhile(void)
{
	RUN(begin_three, set_cancel_the_others, end_all, end_all);
	CHECK(ends == 1 && list.first == NULL);
}

static void again(struct completion *c, const struct err *e)
{
	on_done(c, e);
	completion_begin(c, script.loop, &list);
}

static void set_again(void)
{
	one.on_done = two.on_done = three.on_done = again;
}

static void one_that_begins_again_is_not_told_twice(void)
{
	RUN(begin_three, set_again, end_all);
	CHECK(ends == 3 && list.first != NULL);
}

/* The owner of a completion and of its list. */
struct owner {
	struct completion a, b;
	struct completions list;
};
static struct owner *owner;

static void on_freeing(struct completion *c, const struct err *e)
{
	struct owner *o = c->arg;

	on_done(c, e);
	completion_cancel(&o->a);
	completion_cancel(&o->b);
	memset(o, 0xa5, sizeof(*o));
	free(o);
	owner = NULL;
}

static void make_owner(void)
{
	owner = calloc(1, sizeof(*owner));
	CHECK(owner != NULL);
	owner->a = (struct completion){ .on_done = on_freeing, .arg = owner };
	owner->b = owner->a;
	completion_begin(&owner->a, script.loop, &owner->list);
	completion_begin(&owner->b, script.loop, &owner->list);
}

static void end_owners(void)
{
	completions_end_all(&owner->list, NULL);
}

static void end_early(void)
{
	make_owner();
	end_owners();
	CHECK(ends == 0);
}

static void the_owner_may_be_freed(void)
{
	RUN(make_owner, end_owners);
	CHECK(ends == 1 && owner == NULL);
}

static void the_owner_may_be_freed_after_an_early_end(void)
{
	RUN(end_early);
	CHECK(ends == 1 && owner == NULL && !from_inside);
}

static void move_and_end(void)
{
	struct completions local = { 0 };

	completions_move(&list, &local);
	CHECK(list.first == NULL && local.first != NULL);
	completion_cancel(&two);
	completions_end_all(&local, NULL);
}

static void lists_can_be_moved(void)
{
	RUN(begin_three, move_and_end);
	CHECK(ends == 2);
}

TEST_MAIN({ "ends once", ends_once }, { "a second end is nothing", a_second_end_is_nothing },
	  { "an early end comes from the loop", an_early_end_comes_from_the_loop },
	  { "an early end of all comes from the loop", an_early_end_of_all_comes_from_the_loop },
	  { "a known outcome comes from the loop", a_known_outcome_comes_from_the_loop },
	  { "cancelled ones do not end", cancelled_ones_do_not_end },
	  { "an early end can be cancelled", an_early_end_can_be_cancelled },
	  { "a deadline ends it", a_deadline_ends_it },
	  { "an end switches its deadline off", an_end_switches_its_deadline_off },
	  { "a cancel switches its deadline off", a_cancel_switches_its_deadline_off },
	  { "beginning again forgets the deadline", beginning_again_forgets_the_deadline },
	  { "others can be cancelled meanwhile", others_can_be_cancelled_meanwhile },
	  { "one that begins again is not told twice", one_that_begins_again_is_not_told_twice },
	  { "the owner may be freed", the_owner_may_be_freed },
	  { "the owner may be freed after an early end",
	    the_owner_may_be_freed_after_an_early_end },
	  { "lists can be moved", lists_can_be_moved })
