/* handshakes.c - whose TLS handshake is next; see handshakes.h. */
#include "handshakes.h"

#include <stdlib.h>

#include "clock.h"
#include "flow_inside.h"
#include "leaf_certs.h"

#define TURN_MAX 4    /* handshakes in a turn of the loop: about 2 ms */
#define SESSION_MAX 2 /* of one session */
/* Certificates for new names, of one session: so many at once, and so many a second. */
#define NAMES_BURST 64
#define NAMES_PER_S 20
#define RETRY_MS 25

struct handshakes {
	struct egress *egress;
	struct fair queue;
	struct loop_task task;
	struct loop_timer timer;
	uint64_t turns;
};

static struct flow *flow_of(struct fair_item *i)
{
	return (struct flow *)((char *)i - offsetof(struct flow, shake));
}

/* When the bucket will be full again says how full it is. */
static bool has_name(const struct egress_session *g, uint64_t now)
{
	uint64_t span = NAMES_BURST * (1000 / NAMES_PER_S) * CLOCK_MS;

	return g->names_full_ns < now + span;
}

static void take_name(struct egress_session *g, uint64_t now)
{
	if (g->names_full_ns < now)
		g->names_full_ns = now;
	g->names_full_ns += (1000 / NAMES_PER_S) * CLOCK_MS;
}

static bool is_known(const struct flow *f)
{
	char name[HOST_MAX];

	return leaf_certs_knows(f->session->egress->mint, flow_certified(f, name));
}

static bool may_begin(struct fair_item *i)
{
	const struct flow *f = flow_of(i);

	return has_name(f->session, loop_now_ns(f->session->egress->loop)) || is_known(f);
}

static void run(struct handshakes *h)
{
	struct loop *l = h->egress->loop;
	int n = 0;

	h->turns++;
	while (n < TURN_MAX) {
		struct fair_item *i = fair_take(&h->queue, h->turns, SESSION_MAX);

		if (i == NULL)
			break;
		if (!is_known(flow_of(i)))
			take_name(flow_of(i)->session, loop_now_ns(l));
		flow_handshake(flow_of(i)); /* may end it */
		n++;
	}
	if (h->queue.first == NULL)
		return;
	if (n > 0)
		loop_defer(l, &h->task);
	else if (h->timer.place == 0)
		loop_timer_set(l, &h->timer, loop_now_ns(l) + RETRY_MS * CLOCK_MS);
}

static void on_task(struct loop_task *t)
{
	run(t->arg);
}

static void on_timer(struct loop_timer *t)
{
	run(t->arg);
}

struct handshakes *handshakes_new(struct egress *e)
{
	struct handshakes *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->egress = e;
	h->queue.may = may_begin;
	h->task = (struct loop_task){ .run = on_task, .arg = h };
	h->timer = (struct loop_timer){ .fire = on_timer, .arg = h };
	return h;
}

void handshakes_wait(struct flow *f)
{
	struct handshakes *h = f->session->egress->handshakes;

	fair_add(&h->queue, &f->session->share->shakes, &f->session->shakes, &f->shake);
	loop_defer(h->egress->loop, &h->task);
}

void handshakes_drop(struct flow *f)
{
	if (f->shake.group != NULL)
		fair_drop(&f->session->egress->handshakes->queue, &f->shake);
}
