/* Goal: a PID 1 that reads nothing costs the server little: requests to it are refused as soon as
 * AGENT_OUT_BUSY wait, those that end something are not, all is counted for the tenant, and when
 * PID 1 reads again everything that was accepted arrives. */
#include "bed.h"
#include "core_private.h"
#include "dial.h"
#include "execution.h"
#include "live_cell.h"

#define LARGE (64U << 10)

static struct completion killed;
static unsigned ends;
static struct err last;

static void note(const struct err *e)
{
	ends++;
	last = e == NULL ? (struct err){ 0 } : *e;
}

static bool has_ended(void)
{
	return ends > 0;
}

static void on_killed(struct completion *c, const struct err *e)
{
	(void)c;
	note(e);
}

static void on_dialed(struct dial *d, int fd, const struct err *e)
{
	(void)d;
	CHECK(fd < 0);
	note(e);
}

static struct execution *start_large(struct err *e)
{
	static char strings[2 + LARGE];
	const struct execution_spec spec = {
		.argc = 1, .envc = 1, .strings = strings, .strings_len = sizeof(strings)
	};

	memset(strings, 'x', sizeof(strings) - 1);
	strings[1] = '\0';
	strings[3] = '=';
	return execution_start(bed.session, &spec, e);
}

static bool has_read_all(void)
{
	bed_pid1_reads();
	return bed.session->cell->agent.out == NULL;
}

static void requests_are_refused_while_many_wait(void)
{
	const struct agent *a;
	struct execution *first;
	struct dial dial = { .on_done = on_dialed };
	unsigned started = 1;
	struct err e = { 0 };

	bed_make(30000);
	bed_session();
	a = &bed.session->cell->agent;
	bed.deaf = true;
	first = start_large(&e);
	CHECK(first != NULL);
	while (start_large(&e) != NULL)
		CHECK(++started < 100);
	CHECK(e.reason == REASON_UNAVAILABLE && started >= 4);
	CHECK(a->out_bytes >= AGENT_OUT_BUSY && a->out_bytes < AGENT_OUT_BUSY + 2 * LARGE);
	CHECK(bed.session->tenant->orders.bytes == a->out_bytes);
	dial_start(bed.session, 80, &dial);
	bed_until(has_ended);
	CHECK(last.reason == REASON_UNAVAILABLE);
	CHECK(execution_signal(first, 1, &e) == -1 && e.reason == REASON_UNAVAILABLE);
	killed = (struct completion){ .on_done = on_killed };
	execution_kill(first, &killed); /* accepted: it ends something */
	bed_turn(5);
	CHECK(ends == 1);
	bed.deaf = false;
	bed_until(has_read_all);
	CHECK(bed.session->tenant->orders.bytes == 0);
	CHECK(bed.ordered[AGENT_SPAWN] == started && bed.ordered[AGENT_KILL_TREE] == 1);
	CHECK(start_large(&e) != NULL);
	bed_delete();
	bed_end();
}

/* The end of the session takes what waits along. */
static void a_deaf_pid_1_ends_with_its_session(void)
{
	struct tenant *t;
	struct err e = { 0 };

	bed_make(30000);
	bed_session();
	t = bed.session->tenant;
	bed.deaf = true;
	while (start_large(&e) != NULL)
		;
	CHECK(t->orders.bytes > 0);
	bed_begin_delete();
	bed_turn(1000);
	CHECK(t->orders.bytes == 0);
	bed_end();
}

TEST_MAIN({ "requests are refused while many wait", requests_are_refused_while_many_wait },
	  { "a deaf PID 1 ends with its session", a_deaf_pid_1_ends_with_its_session })
