/* test_loop.c - the loop: order, timers, and that what was removed stays silent. */
#include "lib/loop/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/loop/jobs.h"
#include "test.h"

static struct loop *l;
static struct err e;

static void start(void)
{
	l = loop_new(&e);
	CHECK(l);
}

static void run(void)
{
	CHECK(loop_run(l, &e) == 0);
}

static void stop_on_fire(struct loop_timer *t)
{
	loop_stop(l);
}

static void stop_after(uint64_t ms)
{
	static struct loop_timer t = { .on_expire = stop_on_fire };

	loop_timer_set(l, &t, clock_now_ns() + ms * CLOCK_MS);
}

/* ---- timers */

#define TIMERS 1000
static struct loop_timer timers[TIMERS];
static uint64_t last_at;
static size_t fired;

static void check_order(struct loop_timer *t)
{
	CHECK(t->place == 0);
	CHECK(t->at_ns >= last_at);
	CHECK(loop_now_ns(l) >= t->at_ns);
	last_at = t->at_ns;
	fired++;
}

static void timers_fire_in_order(void)
{
	uint64_t now = clock_now_ns();
	size_t cancelled = 0;

	start();
	srandom(1);
	for (size_t i = 0; i < TIMERS; i++) {
		timers[i].on_expire = check_order;
		loop_timer_set(l, &timers[i], now + (uint64_t)random() % (20 * CLOCK_MS));
	}
	for (size_t i = 0; i < TIMERS; i += 3) { /* moved, both ways */
		loop_timer_set(l, &timers[i], now + (uint64_t)random() % (20 * CLOCK_MS));
	}
	for (size_t i = 0; i < TIMERS; i += 7) {
		loop_timer_cancel(l, &timers[i]);
		loop_timer_cancel(l, &timers[i]); /* twice is nothing */
		cancelled++;
	}
	stop_after(60);
	run();
	CHECK(fired == TIMERS - cancelled);
	loop_free(l);
}

static void cancel_next(struct loop_timer *t)
{
	fired++;
	loop_timer_cancel(l, t->arg);
}

static void a_timer_can_cancel_another_that_is_due(void)
{
	struct loop_timer a = { .on_expire = cancel_next }, b = { .on_expire = cancel_next };

	start();
	a.arg = &b;
	b.arg = &a;
	loop_timer_set(l, &a, 1);
	loop_timer_set(l, &b, 2);
	stop_after(5);
	run();
	CHECK(fired == 1);
	loop_free(l);
}

static void set_again(struct loop_timer *t)
{
	fired++;
	loop_timer_set(l, t, 1); /* due already */
}

static void a_timer_for_now_starves_no_other(void)
{
	struct loop_timer t = { .on_expire = set_again };

	start();
	loop_timer_set(l, &t, 1);
	stop_after(5);
	run();
	CHECK(fired > 1);
	loop_free(l);
}

static void timers_are_precise(void)
{
	uint64_t began = clock_now_ns(), took;

	start();
	stop_after(20);
	run();
	took = clock_now_ns() - began;
	CHECK(took >= 20 * CLOCK_MS && took < 5000 * CLOCK_MS);
	loop_free(l);
}

/* ---- descriptors */

static struct loop_fd *pair[2];
static int ready_calls;

static void remove_both(struct loop_fd *f, uint32_t events)
{
	CHECK(events == EPOLLIN);
	ready_calls++;
	for (int i = 0; i < 2; i++) {
		int fd = pair[i]->fd;

		loop_remove(l, pair[i]);
		loop_remove(l, pair[i]); /* twice is nothing */
		CHECK(pair[i]->fd == -1);
		(void)close(fd);
		free(pair[i]); /* a stale event would be a use after free */
	}
}

static void removed_is_silent(void)
{
	start();
	for (int i = 0; i < 2; i++) {
		pair[i] = calloc(1, sizeof(**pair));
		CHECK(pair[i]);
		*pair[i] = (struct loop_fd){ .fd = -1, .on_ready = remove_both };
		CHECK(loop_add(l, pair[i], eventfd(1, EFD_CLOEXEC), EPOLLIN, &e) == 0);
	}
	stop_after(10);
	run();
	CHECK(ready_calls == 1);
	loop_free(l);
}

static void count_ready(struct loop_fd *f, uint32_t events)
{
	ready_calls++;
	CHECK(events & (EPOLLIN | EPOLLOUT));
	if (events & EPOLLOUT)
		loop_modify(l, f, EPOLLIN);
}

static void modify_changes_what_comes(void)
{
	struct loop_fd f = { .fd = -1, .on_ready = count_ready };

	start();
	CHECK(loop_add(l, &f, eventfd(0, EFD_CLOEXEC), EPOLLOUT, &e) == 0);
	stop_after(10);
	run();
	CHECK(ready_calls == 1);
	CHECK(close(f.fd) == 0);
	loop_free(l);
}

static void add_fails_for_files(void)
{
	struct loop_fd f = { .fd = -1, .on_ready = count_ready };

	start();
	CHECK(loop_add(l, &f, -1, EPOLLIN, &e) < 0);
	CHECK(f.fd == -1 && e.code == ERR_SYSTEM);
	loop_free(l);
}

/* ---- tasks */

static struct loop_task tasks[4];
static char order[16];

static void note(struct loop_task *t)
{
	order[strlen(order)] = (char)('a' + (t - tasks));
	if (t == &tasks[0]) {
		loop_task_cancel(l, &tasks[1]); /* of this turn */
		loop_defer(l, &tasks[3]);	/* for the next */
		loop_defer(l, t);
		loop_task_cancel(l, t);
	}
}

static void tasks_run_once_in_order(void)
{
	start();
	for (size_t i = 0; i < 4; i++)
		tasks[i].on_run = note;
	loop_defer(l, &tasks[0]);
	loop_defer(l, &tasks[1]);
	loop_defer(l, &tasks[2]);
	loop_defer(l, &tasks[0]); /* queued already */
	loop_defer(l, &tasks[3]);
	loop_task_cancel(l, &tasks[3]); /* the last: the list must go on behind the one before */
	stop_after(10);
	run();
	CHECK_STR(order, "acd");
	loop_free(l);
}

/* ---- long work in pieces */

static char worked[256];
static size_t expected; /* pieces, after which the loop is stopped; 0: it is not */
static struct jobs jobs;

struct work {
	struct job job;
	char name;
	unsigned left;
	uint64_t ms;	     /* that a piece takes at least */
	unsigned others[32]; /* at each piece, how often another callback had run */
	unsigned npieces;
};

static unsigned others;

static void wait_ms(uint64_t ms)
{
	uint64_t until = clock_now_ns() + ms * CLOCK_MS;

	while (clock_now_ns() < until)
		;
}

static bool on_work(struct job *j)
{
	struct work *w = j->arg;
	size_t n = strlen(worked);

	CHECK(j->link == NULL && n + 1 < sizeof(worked));
	worked[n] = w->name;
	w->others[w->npieces++] = others;
	wait_ms(w->ms);
	if (n + 1 == expected)
		loop_stop(l);
	return --w->left > 0;
}

static void add_work(struct job_queue *q, struct work *w, char name, unsigned pieces, uint64_t ms)
{
	*w = (struct work){ .job = { .on_piece = on_work, .arg = w },
			    .name = name,
			    .left = pieces };
	w->ms = ms;
	jobs_add(&jobs, q, &w->job);
	jobs_add(&jobs, q, &w->job); /* queued already */
}

static void owners_take_turns(void)
{
	struct job_queue a = { 0 }, b = { 0 };
	struct work w[5];

	start();
	jobs_init(&jobs, l);
	add_work(&a, &w[0], 'a', 3, 0);
	add_work(&a, &w[1], 'A', 2, 0);
	add_work(&a, &w[2], 'x', 2, 0);
	add_work(&b, &w[3], 'b', 2, 0);
	add_work(&b, &w[4], 'B', 1, 0);
	jobs_cancel(&jobs, &w[2].job);
	jobs_cancel(&jobs, &w[2].job);
	expected = 8;
	run();
	/* one piece of each owner in turn; an owner's jobs one after the other */
	CHECK_STR(worked, "ababaBAA");
	jobs_release(&jobs);
	loop_free(l);
}

static void on_other(struct loop_timer *t)
{
	others++;
	loop_timer_set(l, t, clock_now_ns());
}

static void others_are_served_between(void)
{
	struct loop_timer other = { .on_expire = on_other };
	struct job_queue a = { 0 };
	struct work w;

	start();
	jobs_init(&jobs, l);
	add_work(&a, &w, 'a', 20, 2); /* each takes longer than JOBS_TURN_NS */
	loop_timer_set(l, &other, clock_now_ns());
	expected = 20;
	run();
	CHECK(strlen(worked) == 20 && w.npieces == 20);
	for (unsigned i = 1; i < w.npieces; i++)
		CHECK(w.others[i] > w.others[i - 1]);
	CHECK(loop_turns(l)->count >= 20);
	jobs_release(&jobs);
	loop_free(l);
}

static struct work victim;

static bool on_cancel_other(struct job *j)
{
	jobs_cancel(&jobs, &victim.job);
	jobs_cancel(&jobs, j); /* itself, which is not queued while it runs */
	return false;
}

static void a_piece_may_cancel_others(void)
{
	struct job_queue a = { 0 }, b = { 0 };
	struct job killer = { .on_piece = on_cancel_other };

	start();
	jobs_init(&jobs, l);
	jobs_add(&jobs, &a, &killer);
	add_work(&b, &victim, 'v', 1, 0);
	stop_after(20);
	run();
	CHECK_STR(worked, "");
	jobs_release(&jobs);
	loop_free(l);
}

/* ---- how long turns take */

static void on_long_task(struct loop_task *t)
{
	loop_note(l, "/v1/long");
	wait_ms(30);
	stop_after(1); /* in another turn */
}

static void on_short_timer(struct loop_timer *t)
{
	loop_defer(l, t->arg);
}

static void the_slowest_turn_names_its_longest_callback(void)
{
	struct loop_task task = { .on_run = on_long_task };
	struct loop_timer timer = { .on_expire = on_short_timer, .arg = &task };
	char name[TURNS_NAME_MAX];
	const struct turns *t;

	start();
	loop_timer_set(l, &timer, clock_now_ns());
	run();
	t = loop_turns(l);
	CHECK(t->count >= 2 && t->sum_ns >= 30 * CLOCK_MS && t->max_ns >= 30 * CLOCK_MS);
	CHECK(turns_slowest(t)->longest.kind == TURNS_TASK && turns_slowest(t)->callbacks >= 2);
	turns_name(&turns_slowest(t)->longest, name);
	CHECK(strstr(name, "task ") == name && strstr(name, "test_loop.c: /v1/long") != NULL);
	loop_free(l);
}

static void turns_are_counted_by_their_length(void)
{
	struct turns_turn turn = { .ns = 60000, .callbacks = 1 };
	struct buf b = BUF_INIT(65536);
	struct turns t = { 0 };

	turn.longest =
		(struct turns_callback){ .kind = TURNS_TIMER, .file = "../src/daemon/node/core.c" };
	for (unsigned i = 0; i < 1000; i++)
		turns_add(&t, &turn, 1000);
	turn.ns = 30 * CLOCK_MS;
	turns_add(&t, &turn, 2000);
	turns_write(&t, "cordon", &b);
	CHECK(strstr(buf_text(&b), "bucket{le=\"0.000050000\"} 0\n") != NULL);
	CHECK(strstr(buf_text(&b), "bucket{le=\"0.000100000\"} 1000\n") != NULL);
	CHECK(strstr(buf_text(&b), "bucket{le=\"0.050000000\"} 1001\n") != NULL);
	CHECK(strstr(buf_text(&b),
		     "cordon_loop_turn_slowest_seconds{callback=\"timer daemon/node/core.c\"} "
		     "0.030000000\n") != NULL);
	/* Two windows later it is forgotten, but for the maximum. */
	turn.ns = 1000;
	turns_add(&t, &turn, (TURNS_WINDOW_S + 1) * 1000 * CLOCK_MS);
	CHECK(turns_slowest(&t)->ns == 30 * CLOCK_MS);
	turns_add(&t, &turn, 2 * (TURNS_WINDOW_S + 1) * 1000 * CLOCK_MS);
	CHECK(turns_slowest(&t)->ns == 1000 && t.max_ns == 30 * CLOCK_MS);
	buf_release(&b);
}

TEST_MAIN({ "timers fire in order", timers_fire_in_order },
	  { "a timer can cancel another that is due", a_timer_can_cancel_another_that_is_due },
	  { "a timer for now does not starve others", a_timer_for_now_starves_no_other },
	  { "timers are precise", timers_are_precise }, { "removed is silent", removed_is_silent },
	  { "modify changes what comes", modify_changes_what_comes },
	  { "add fails for files", add_fails_for_files },
	  { "tasks run once, in order", tasks_run_once_in_order },
	  { "owners of long work take turns", owners_take_turns },
	  { "others are served between pieces", others_are_served_between },
	  { "a piece may cancel others", a_piece_may_cancel_others },
	  { "the slowest turn names its longest callback",
	    the_slowest_turn_names_its_longest_callback },
	  { "turns are counted by their length", turns_are_counted_by_their_length })
