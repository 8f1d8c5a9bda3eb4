#include "egress/flow/handshakes.h"

#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/net/leaf_certs.h"

#define TURN_MAX 4    /* handshakes in a turn of the loop: about 2 ms */
#define SESSION_MAX 2 /* of one session */
/* Certificates for new names, of one session: a burst, and a rate. */
#define NAMES_BURST 64ULL
#define NAMES_PER_S 20
#define RETRY_MS 25

struct handshakes {
	struct egress *egress;
	struct fair_queue queue;
	struct loop_task task;
	struct loop_timer timer;
	uint64_t turns;
};

static struct handshake *handshake_of(struct fair_queue_item *i)
{
	return (struct handshake *)((char *)i - offsetof(struct handshake, item));
}

/* names_full_ns, the time at which the bucket is full again, shows how full it is now. */
static bool has_name(const struct egress_session *session, uint64_t now)
{
	uint64_t span = NAMES_BURST * (1000 / NAMES_PER_S) * CLOCK_MS;

	return session->names_full_ns < now + span;
}

static void take_name(struct egress_session *session, uint64_t now)
{
	if (session->names_full_ns < now)
		session->names_full_ns = now;
	session->names_full_ns += (1000 / NAMES_PER_S) * CLOCK_MS;
}

static bool is_known(const struct handshake *h)
{
	char name[HOST_MAX];

	return leaf_certs_knows(h->session->egress->leaf_certs, h->name(h, name));
}

static bool may_begin(struct fair_queue_item *i)
{
	const struct handshake *h = handshake_of(i);

	return has_name(h->session, loop_now_ns(h->session->egress->loop)) || is_known(h);
}

static void handshakes_run(struct handshakes *all)
{
	struct loop *l = all->egress->loop;
	int n = 0;

	all->turns++;
	while (n < TURN_MAX) {
		struct fair_queue_item *i = fair_queue_take(&all->queue, all->turns, SESSION_MAX);
		struct handshake *h = i != NULL ? handshake_of(i) : NULL;

		if (h == NULL)
			break;
		if (!is_known(h))
			take_name(h->session, loop_now_ns(l));
		h->on_turn(h); /* may free it */
		n++;
	}
	if (all->queue.first == NULL)
		return;
	if (n > 0)
		loop_defer(l, &all->task);
	else if (all->timer.place == 0)
		loop_timer_set(l, &all->timer, loop_now_ns(l) + RETRY_MS * CLOCK_MS);
}

static void on_task(struct loop_task *t)
{
	handshakes_run(t->arg);
}

static void on_timer(struct loop_timer *t)
{
	handshakes_run(t->arg);
}

struct handshakes *handshakes_new(struct egress *e)
{
	struct handshakes *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->egress = e;
	h->queue.may_take = may_begin;
	h->task = (struct loop_task){ .on_run = on_task, .arg = h };
	h->timer = (struct loop_timer){ .on_expire = on_timer, .arg = h };
	return h;
}

void handshakes_wait(struct handshake *h)
{
	struct egress_session *session = h->session;
	struct handshakes *all = session->egress->handshakes;

	fair_queue_add(&all->queue, &session->share.tenant->handshakes, &session->handshakes,
		       &h->item);
	loop_defer(all->egress->loop, &all->task);
}

bool handshakes_waits(const struct handshake *h)
{
	return h->item.session != NULL;
}

void handshakes_drop(struct handshake *h)
{
	if (handshakes_waits(h))
		fair_queue_drop(&h->session->egress->handshakes->queue, &h->item);
}
