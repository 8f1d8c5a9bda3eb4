/* Goal: several keepers behind one queue (keeper_link.h). A request goes to the keeper with the
 * fewest unanswered ones; the loss or silence of one keeper ends its own requests only; ends of
 * cells go to the keeper that made them and take turns with urgent requests; the pool waits for
 * both; tenants take turns in each of these, and a request ends for want of time only if its own
 * tenant has so many.
 *
 * The test holds the other ends of the keepers' channels and plays them. */
#include "daemon/cells/keeper_link.h"

#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "support.h"

#define SLOTS 3
#define CALLS_MAX 600

static struct loop *loop;
static struct keeper_link all;
static int keepers[SLOTS]; /* the test's ends; -1 */
static unsigned hellos, hung_mask;
static struct loop_timer stop;

static struct call {
	unsigned ends;
	enum err_reason why; /* REASON_NONE: answered */
	unsigned slot;
	struct keeper_call *call;
} calls[CALLS_MAX];
static unsigned ncalls;

static void on_stop(struct loop_timer *t)
{
	loop_stop(loop);
}

static void turn(unsigned ms)
{
	struct err e = { 0 };

	stop = (struct loop_timer){ .on_expire = on_stop };
	loop_timer_set(loop, &stop, clock_now_ns() + ms * CLOCK_MS);
	CHECK(loop_run(loop, &e) == 0);
}

static void on_hello(void *arg, unsigned slot, const struct err *e)
{
	CHECK(slot < SLOTS && e == NULL);
	hellos++;
}

static void on_hung(void *arg, unsigned slot)
{
	hung_mask |= 1U << slot;
}

static void on_done(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct call *c = arg;

	CHECK((reply == NULL) == (e != NULL) && fd < 0);
	c->ends++;
	c->why = e == NULL ? REASON_NONE : e->reason;
	c->slot = keeper_link_call_slot(c->call);
}

static void reply(unsigned slot, uint32_t op)
{
	struct keeper_reply r = { .op = op, .version = KEEPER_VERSION };
	struct err e = { 0 };

	CHECK(io_send(keepers[slot], &r, sizeof(r), NULL, 0, &e) == 0);
}

static void attach(unsigned slot)
{
	struct err e = { 0 };
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	keepers[slot] = ends[0];
	CHECK(keeper_link_attach(&all, slot, ends[1], &e) == 0);
	reply(slot, KEEPER_HELLO);
	turn(1);
}

/* The op of the request that waits in that keeper's socket, or 0. */
static uint32_t next_op(unsigned slot)
{
	union keeper_request r;
	ssize_t n = recv(keepers[slot], &r, sizeof(r), MSG_DONTWAIT);

	return n > 0 ? r.op : 0;
}

static struct call *ask_for(const char *tenant, enum keeper_priority t)
{
	const struct keeper_named r = { .op = t == KEEPER_URGENT ? KEEPER_FREEZE : KEEPER_CREATE };
	struct call *c = &calls[ncalls++];

	c->call = keeper_link_ask(&all, tenant, &r, sizeof(r), -1, t, on_done, c);
	return c;
}

static void ask(enum keeper_priority t)
{
	(void)ask_for("ten_a", t);
}

static struct call *ask_end_for(const char *tenant, int slot)
{
	const struct keeper_named r = { .op = KEEPER_DESTROY };
	struct call *c = &calls[ncalls++];

	c->call = keeper_link_ask_end(&all, tenant, &r, slot, on_done, c);
	return c;
}

static void ask_end(int slot)
{
	(void)ask_end_for("ten_a", slot);
}

static void begin(unsigned nkeepers)
{
	struct err e;

	loop = loop_new(&e);
	CHECK(loop != NULL);
	keeper_link_init(&all, loop, SLOTS);
	all.on_hello = on_hello;
	all.on_hung = on_hung;
	for (unsigned i = 0; i < SLOTS; i++)
		keepers[i] = -1;
	for (unsigned i = 0; i < nkeepers; i++)
		attach(i);
	CHECK(hellos == nkeepers && keeper_link_greeted(&all) == nkeepers);
}

static void end(void)
{
	keeper_link_release(&all);
	loop_free(loop);
	for (unsigned i = 0; i < SLOTS; i++)
		if (keepers[i] >= 0)
			(void)close(keepers[i]);
}

static void requests_go_where_fewest_wait(void)
{
	begin(3);
	for (int i = 0; i < 7; i++)
		ask(KEEPER_URGENT);
	turn(5);
	for (unsigned i = 0; i < SLOTS; i++)
		CHECK(all.slots[i].sent.n == 2);
	CHECK(all.urgent.waiting == 1);
	CHECK(next_op(1) == KEEPER_FREEZE);
	reply(1, KEEPER_FREEZE);
	turn(5);
	CHECK(all.urgent.waiting == 0 && all.slots[1].sent.n == 2);
	for (unsigned i = 0, answered = 0; i < 7; i++) {
		answered += calls[i].ends;
		CHECK(calls[i].ends == 0 || calls[i].slot == 1);
		CHECK(i < 6 || answered == 1);
	}
	end();
}

static void a_lost_keeper_ends_its_own_requests_only(void)
{
	unsigned lost = 0;

	begin(2);
	for (int i = 0; i < 6; i++)
		ask(KEEPER_URGENT);
	turn(5);
	CHECK(close(keepers[0]) == 0);
	keepers[0] = -1;
	turn(5);
	for (int i = 0; i < 6; i++)
		lost += calls[i].ends == 1 && calls[i].why == REASON_PEER_DIED;
	CHECK(lost == 2 && keeper_link_greeted(&all) == 1);
	CHECK(all.slots[1].sent.n == 2 && all.urgent.waiting == 2);
	for (int i = 0; i < 4; i++) {
		CHECK(next_op(1) == KEEPER_FREEZE);
		reply(1, KEEPER_FREEZE);
		turn(5);
	}
	for (int i = 0; i < 6; i++)
		CHECK(calls[i].ends == 1);
	end();
}

static void a_silent_keeper_is_given_up_alone(void)
{
	unsigned lost = 0;

	begin(2);
	all.timeout_ms = 100;
	for (int i = 0; i < 4; i++)
		ask(KEEPER_URGENT);
	turn(5);
	for (int i = 0; i < 2; i++) /* slot 1 works */
		reply(1, KEEPER_FREEZE);
	turn(300);
	CHECK(hung_mask == 1U << 0);
	for (int i = 0; i < 4; i++) {
		CHECK(calls[i].ends == 1);
		lost += calls[i].why == REASON_PEER_DIED;
	}
	CHECK(lost == 2 && keeper_link_greeted(&all) == 1);
	(void)close(keepers[0]);
	attach(0); /* its replacement */
	ask(KEEPER_URGENT);
	turn(5);
	CHECK(all.slots[0].sent.n + all.slots[1].sent.n == 1);
	end();
}

/* A request larger than the socket's buffer is EMSGSIZE for ever, and its keeper lives. */
static void a_keeper_whose_channel_fails_is_killed(void)
{
	const struct keeper_create r = { .op = KEEPER_CREATE };
	struct call *c = &calls[ncalls++];

	begin(1);
	CHECK(setsockopt(all.slots[0].channel.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 0 },
			 sizeof(int)) == 0);
	c->call = keeper_link_ask(&all, "ten_a", &r, sizeof(r), -1, KEEPER_URGENT, on_done, c);
	turn(5);
	CHECK(hung_mask == 1U << 0 && keeper_link_greeted(&all) == 0);
	CHECK(c->ends == 0 && all.urgent.waiting == 1); /* it waits for another keeper */
	(void)close(keepers[0]);
	attach(0);
	turn(5);
	CHECK(next_op(0) == KEEPER_CREATE);
	reply(0, KEEPER_CREATE);
	turn(5);
	CHECK(c->ends == 1 && c->why == REASON_NONE && hung_mask == 1U << 0);
	end();
}

/* A keeper that has exited is the supervisor's to replace: its slot may have a new one already. */
static void a_keeper_that_exited_is_not_killed(void)
{
	begin(1);
	CHECK(shutdown(keepers[0], SHUT_RD) == 0); /* EPIPE, and no event that shows it before */
	ask(KEEPER_URGENT);
	turn(5);
	CHECK(hung_mask == 0 && keeper_link_greeted(&all) == 0 && all.urgent.waiting == 1);
	end();
}

static void ends_go_to_the_keeper_that_made_the_cell(void)
{
	begin(3);
	ask_end(2);
	ask_end(2);
	turn(5);
	CHECK(all.slots[2].sent.n == 2);
	ask_end(2); /* waits for it, although others are free */
	turn(5);
	CHECK(all.slots[0].sent.n == 0 && all.slots[1].sent.n == 0);
	CHECK(close(keepers[2]) == 0);
	keepers[2] = -1;
	turn(5);
	CHECK(calls[0].why == REASON_PEER_DIED && calls[1].why == REASON_PEER_DIED &&
	      calls[2].ends == 0);
	CHECK(all.slots[0].sent.n + all.slots[1].sent.n == 1);
	ask_end(2);
	turn(5);
	CHECK(all.slots[0].sent.n + all.slots[1].sent.n == 2);
	end();
}

/* From the first one on, however many urgent ones wait. */
static void ends_take_turns_with_urgent_requests(void)
{
	uint32_t want[] = { KEEPER_FREEZE, KEEPER_DESTROY, KEEPER_FREEZE, KEEPER_DESTROY,
			    KEEPER_FREEZE, KEEPER_FREEZE,  KEEPER_CREATE };

	begin(1);
	ask(KEEPER_BACKGROUND);
	for (int i = 0; i < 4; i++)
		ask(KEEPER_URGENT);
	ask_end(0);
	ask_end(-1);
	for (size_t i = 0; i < COUNT(want); i++) {
		uint32_t op;

		turn(2);
		op = next_op(0);
		CHECK(op == want[i]);
		reply(0, op);
	}
	turn(2);
	for (unsigned i = 0; i < ncalls; i++)
		CHECK(calls[i].ends == 1 && calls[i].why == REASON_NONE);
	end();
}

/* Answers one request. */
static void serve_one(unsigned slot)
{
	uint32_t op = next_op(slot);

	CHECK(op != 0);
	reply(slot, op);
	turn(1);
}

/* The keeper has been sent some requests of a tenant, and hundreds wait: one of another tenant is
 * sent next. */
static void burst_delays_no_other(struct call *(*ask_one)(const char *tenant))
{
	struct call *other;

	begin(1);
	for (int i = 0; i < 500; i++)
		(void)ask_one("ten_a");
	turn(2);
	other = ask_one("ten_b");
	turn(2);
	for (int i = 0; i < 3; i++)
		serve_one(0);
	CHECK(other->ends == 1 && other->why == REASON_NONE);
	end();
}

static struct call *ask_urgent(const char *tenant)
{
	return ask_for(tenant, KEEPER_URGENT);
}

static struct call *ask_background(const char *tenant)
{
	return ask_for(tenant, KEEPER_BACKGROUND);
}

static struct call *ask_own_end(const char *tenant)
{
	return ask_end_for(tenant, 0);
}

static struct call *ask_any_end(const char *tenant)
{
	return ask_end_for(tenant, -1);
}

static void a_burst_of_pauses_delays_no_other(void)
{
	burst_delays_no_other(ask_urgent);
}

static void a_burst_of_ends_delays_no_other(void)
{
	burst_delays_no_other(ask_own_end);
}

static void a_burst_of_ends_for_any_delays_no_other(void)
{
	burst_delays_no_other(ask_any_end);
}

static void a_pool_of_one_delays_no_other(void)
{
	burst_delays_no_other(ask_background);
}

/* Three tenants whose requests all wait. */
static void tenants_take_turns(void)
{
	static const char *const tenants[] = { "ten_a", "ten_b", "ten_c" };
	unsigned n[COUNT(tenants)] = { 0 };

	begin(1);
	for (int i = 0; i < 60; i++)
		(void)ask_for(tenants[i / 20], KEEPER_URGENT);
	turn(2);
	for (int i = 0; i < 30; i++)
		serve_one(0);
	for (int i = 0; i < 60; i++)
		n[i / 20] += calls[i].ends;
	for (size_t i = 0; i < COUNT(tenants); i++)
		CHECK(n[i] >= 9 && n[i] <= 11);
	end();
}

/* The keeper is slow. Requests that could not be sent in time end with an error: those of the
 * tenant that has so many. */
static void a_burst_takes_the_time_of_its_tenant(void)
{
	struct call *other;

	begin(1);
	for (int i = 0; i < 300; i++)
		ask(KEEPER_URGENT);
	other = ask_for("ten_b", KEEPER_URGENT);
	turn(2);
	serve_one(0);
	serve_one(0);
	all.timeout_ms = 1;
	serve_one(0);
	turn(20);
	CHECK(other->ends == 1 && other->why == REASON_NONE);
	CHECK(calls[299].ends == 1 && calls[299].why == REASON_TIMEOUT);
	end();
}

/* Ends that waited for a keeper that exits keep their tenants' turns. */
static void ends_of_a_lost_keeper_take_turns(void)
{
	struct call *other;

	begin(2);
	for (int i = 0; i < 100; i++)
		ask_end(0);
	turn(2);
	other = ask_end_for("ten_b", 0);
	turn(2);
	CHECK(close(keepers[0]) == 0);
	keepers[0] = -1;
	turn(5);
	CHECK(all.slots[0].ends.waiting == 0 && all.ends.waiting > 90);
	for (int i = 0; i < 3; i++)
		serve_one(1);
	CHECK(other->ends == 1 && other->why == REASON_NONE);
	end();
}

TEST_MAIN({ "a burst of pauses delays no other", a_burst_of_pauses_delays_no_other },
	  { "a burst of ends delays no other", a_burst_of_ends_delays_no_other },
	  { "a burst of ends for any delays no other", a_burst_of_ends_for_any_delays_no_other },
	  { "a pool of one delays no other", a_pool_of_one_delays_no_other },
	  { "tenants take turns", tenants_take_turns },
	  { "a burst takes the time of its tenant", a_burst_takes_the_time_of_its_tenant },
	  { "ends of a lost keeper take turns", ends_of_a_lost_keeper_take_turns },
	  { "requests go where fewest wait", requests_go_where_fewest_wait },
	  { "a lost keeper ends its own requests only", a_lost_keeper_ends_its_own_requests_only },
	  { "a silent keeper is given up alone", a_silent_keeper_is_given_up_alone },
	  { "a keeper whose channel fails is killed", a_keeper_whose_channel_fails_is_killed },
	  { "a keeper that exited is not killed", a_keeper_that_exited_is_not_killed },
	  { "ends go to the keeper that made the cell", ends_go_to_the_keeper_that_made_the_cell },
	  { "ends take turns with urgent requests", ends_take_turns_with_urgent_requests })
