#include "cell/shim/guest_messages.h"

#include <stdint.h>

#include "cell/shim/carrier.h"
#include "cell/shim/guest_programs.h"
#include "cell/shim/report.h"
#include "cell/shim/shim.h"
#include "lib/base/err.h"
#include "lib/wire/agent_msg.h"
#include "lib/wire/guest_msg.h"

/* Whether the guest answers: a PING from time to time, and one after FORGET, so that
 * the shim knows when no more events about a program can come. Called by guest_life.c and
 * requests.c.
 *
 * A guest that does not answer is reported as unresponsive, and nothing more: it may be busy. Time
 * is counted in calls, not by the clock: a cell may be frozen for hours at any instruction. */

#define MISSES 3

unsigned guest_messages_ping_ms = 10000;

static uint64_t pings, pongs;
static unsigned misses;

uint64_t guest_messages_ping(void)
{
	if (carrier_send(GUEST_PING, NULL, 0))
		pings++;
	return pings;
}

/* A PONG. -1: it was not asked for. */
static int guest_messages_on_pong(struct err *e)
{
	if (pongs == pings)
		return err_set(e, ERR_INVALID, "the guest's agent answered a PING too many");
	pongs++;
	misses = 0;
	report_responsive(true);
	guest_programs_on_pong(pongs);
	shim_wake();
	return 0;
}

void guest_messages_watch_ping(void)
{
	const uint64_t before = pings;

	/* One that cannot be sent, as the guest does not read, counts as one without answer. */
	if ((pings != pongs || guest_messages_ping() == before) && ++misses == MISSES)
		report_responsive(false);
	shim_wake();
}

void guest_messages_forgive(void)
{
	misses = 0;
}

/* The messages that the guest still owes. */
static uint64_t generation;
static bool ready_wanted, synced_wanted;
static unsigned quiesced_wanted;
/* Requests that the guest has not answered, and how many of these the connected server made. */
static unsigned stats, own_stats, kill_alls, own_kill_alls;

bool guest_messages_hello(const struct guest_hello *h, bool first)
{
	uint8_t body[GUEST_HELLO_SIZE];
	size_t len = guest_hello_write(h, body);

	generation = h->generation;
	ready_wanted = true;
	synced_wanted = first;
	return len > 0 && carrier_send(GUEST_HELLO, body, len);
}

void guest_messages_quiesce(void)
{
	static uint8_t zeros[GUEST_PAD];

	carrier_send_large(GUEST_QUIESCE, NULL, 0, zeros, sizeof(zeros));
	quiesced_wanted++;
}

void guest_messages_go_on(void)
{
	(void)carrier_send(GUEST_GO_ON, NULL, 0);
}

static bool guest_messages_ask(enum agent_type type, unsigned *all, unsigned *own)
{
	const struct agent_order none = { 0 };

	if (!carrier_send((uint16_t)type, &none, sizeof(none)))
		return false;
	(*all)++;
	(*own)++;
	return true;
}

void guest_messages_stat(void)
{
	(void)guest_messages_ask(AGENT_STAT, &stats, &own_stats);
}

void guest_messages_kill_all(void)
{
	(void)guest_messages_ask(AGENT_KILL_ALL, &kill_alls, &own_kill_alls);
}

void guest_messages_on_disconnect(void)
{
	own_stats = own_kill_alls = 0;
}

static int on_ready(const struct frame *f, struct err *e)
{
	struct guest_ready r;

	if (guest_ready_read(f, &r, e) < 0)
		return -1;
	if (!ready_wanted || r.generation != generation || r.version != GUEST_VERSION)
		return err_set(e, ERR_INVALID,
			       "the guest's agent: READY of version %u, unasked or "
			       "of another greeting",
			       r.version);
	ready_wanted = false;
	if (r.refused != 0 && guest_life_must_obey()) {
		(void)err_set(e, ERR_INVALID, "the guest's kernel refused its settings %#x",
			      r.refused);
		guest_life_on_refused(e, r.sys);
		return 0;
	}
	if (!synced_wanted)
		guest_life_on_ready();
	return 0;
}

/* One awaited answer. True if the connected server asked for it. The oldest come first, so those of
 * an earlier server. */
static int guest_messages_take(unsigned *all, unsigned *own, bool *ret_own, struct err *e)
{
	if (*all == 0)
		return err_set(e, ERR_INVALID, "the guest's agent sent an answer, unasked");
	*ret_own = *own == *all;
	(*all)--;
	if (*ret_own)
		(*own)--;
	return 0;
}

static int on_event(const struct frame *f, struct err *e)
{
	struct guest_event v;
	bool own = false;

	if (guest_event_read(f, &v, e) < 0)
		return -1;
	if (ready_wanted && synced_wanted)
		return err_set(e, ERR_INVALID, "the guest's agent sent message %u before READY",
			       f->type);
	if (f->type == AGENT_SYNCED) {
		if (!synced_wanted)
			return err_set(e, ERR_INVALID, "the guest's agent sent SYNCED, unasked");
		synced_wanted = false;
		guest_life_on_ready();
		return 0;
	}
	if (f->type == AGENT_STATED) {
		if (guest_messages_take(&stats, &own_stats, &own, e) < 0)
			return -1;
		if (own)
			report_stated(&v.event);
		return 0;
	}
	if (f->type == AGENT_ALL_DEAD) {
		if (guest_messages_take(&kill_alls, &own_kill_alls, &own, e) < 0)
			return -1;
		if (own)
			report_all_dead(&v.event);
		return 0;
	}
	return guest_programs_on_event(f->type, &v, synced_wanted && guest_life_is_restored(), e);
}

static int on_quiesced(const struct frame *f, struct err *e)
{
	if (guest_empty_read(f, e) < 0)
		return -1;
	if (quiesced_wanted == 0)
		return err_set(e, ERR_INVALID, "the guest's agent sent QUIESCED, unasked");
	if (--quiesced_wanted == 0)
		guest_life_on_quiesced();
	return 0;
}

static int on_message(const struct frame *f, struct err *e)
{
	if (f->type == GUEST_READY)
		return on_ready(f, e);
	if (f->type == GUEST_QUIESCED)
		return on_quiesced(f, e);
	if (f->type == GUEST_PONG)
		return guest_empty_read(f, e) < 0 ? -1 : guest_messages_on_pong(e);
	return on_event(f, e);
}

void guest_messages_on_frame(const struct frame *f)
{
	struct err e;

	if (on_message(f, &e) < 0)
		guest_life_breach(&e);
	shim_wake();
}
