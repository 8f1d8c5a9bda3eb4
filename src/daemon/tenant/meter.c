/* meter.c - see meter.h. */
#include "daemon/tenant/meter.h"

#include <string.h>

#include "daemon/cells/live_cell.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_states.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define HOUR_MS 3600000ULL
#define DISK_MAX (1ULL << 44) /* 16 TiB: of a cell without a limit */
#define ACTIVE_NS (60000ULL * CLOCK_MS)
#define IDLE_NS (300000ULL * CLOCK_MS)

static uint64_t meter_growth(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* The time since which the session's use was not added. Its cell continued without a daemon: from
 * the last write of an earlier one, or from its start if there was none. */
static uint64_t not_added_since(const struct session *s)
{
	uint64_t now = clock_now_ns(), seen = s->meter.mark.seen_ns, wall = core_now_ms(), ms;

	if (!s->restored)
		return s->created_ns;
	if (s->cell == NULL || strcmp(s->row.boot_id, s->core->boot_id) != 0)
		return now; /* it is not known when it ended */
	if (seen > 0)
		return seen < now ? seen : now;
	ms = wall > s->row.started_ms ? wall - s->row.started_ms : 0;
	return s->row.started_ms == 0 || ms > now / CLOCK_MS ? s->created_ns : now - ms * CLOCK_MS;
}

/* ended: meter_end() of an earlier server was for it. */
static void meter_begin(struct session *s, bool ended)
{
	struct meter *m = &s->meter;
	struct err e;

	m->begun = true;
	m->written_ns = clock_now_ns();
	/* An earlier daemon's record of the session. */
	if (s->restored && ended)
		m->mark = (struct store_usage_mark){ s->row.usage.cpu_us, s->row.usage.net_bytes_in,
						     s->row.usage.net_bytes_out, 0 };
	else if (s->restored && store_usage_mark(s->core->store, s->row.id, &m->mark, &e) < 0)
		log_warn("usage of a session could not be read", "session_id=%s error=%s",
			 s->row.id, e.msg);
	m->seen_ns = not_added_since(s);
	m->held.sessions = !(s->restored && ended) &&
			   m->mark.cpu_us + m->mark.net_bytes_in + m->mark.net_bytes_out == 0;
}

/* PID 1 reports the size, and a cell may have taken over its PID 1: never more than the limit. */
static uint64_t disk_kib(const struct session *s)
{
	uint64_t limit = s->row.limits.disk_bytes, bytes = s->cell->disk_bytes;

	if (limit == 0)
		limit = DISK_MAX;
	return (bytes > limit ? limit : bytes) >> 10;
}

static void meter_hold(struct session *s)
{
	struct meter *m = &s->meter;
	uint64_t now = clock_now_ns(), ms = (now - m->seen_ns) / CLOCK_MS;

	m->held.memory_kib_ms += (s->memory_bytes >> 10) * ms;
	if (s->cell != NULL)
		m->held.disk_kib_ms += disk_kib(s) * ms;
	m->seen_ns = now;
}

/* The last one has no mark: the session's row has its use in the same transaction. */
static int write_down(struct session *s, bool last, struct err *e)
{
	struct meter *m = &s->meter;
	struct store_usage_mark mark = { m->cpu_us, s->row.usage.net_bytes_in,
					 s->row.usage.net_bytes_out, m->seen_ns };
	uint64_t now = core_now_ms();

	m->held.cpu_us = meter_growth(mark.cpu_us, m->mark.cpu_us);
	m->held.net_bytes_in = meter_growth(mark.net_bytes_in, m->mark.net_bytes_in);
	m->held.net_bytes_out = meter_growth(mark.net_bytes_out, m->mark.net_bytes_out);
	m->written_ns = clock_now_ns();
	if (store_usage_add(s->core->store, s->row.tenant, s->row.id, now - now % HOUR_MS, &m->held,
			    last ? NULL : &mark, e) < 0)
		return -1;
	m->held = (struct store_usage_sums){ 0 };
	m->mark = mark;
	return 0;
}

static void meter_take_sample(struct session *s, uint64_t cpu_us, bool ended)
{
	if (!s->meter.begun)
		meter_begin(s, ended);
	if (cpu_us > 0)
		s->meter.cpu_us = cpu_us;
	meter_hold(s);
}

void meter_look(struct session *s, uint64_t cpu_us, bool active)
{
	struct meter *m = &s->meter;
	struct err e;

	meter_take_sample(s, cpu_us, s->row.state >= SESSION_ENDING);
	if (m->seen_ns - m->written_ns < (active ? ACTIVE_NS : IDLE_NS))
		return;
	if (write_down(s, false, &e) < 0)
		log_warn("usage not written, tried again later", "session_id=%s error=%s",
			 s->row.id, e.msg);
}

/* In the caller's transaction, with the session's row. */
int meter_end(struct session *s, struct err *e)
{
	meter_take_sample(s, s->row.usage.cpu_us, false);
	return write_down(s, true, e);
}
