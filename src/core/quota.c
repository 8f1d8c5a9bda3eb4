/* quota.c - three kinds of bounds on sessions, for the node and for each tenant: how many there may
 * be at a time, what they may be promised, and how fast they may be created (token buckets, in
 * thousandths of a session). */
#include "quota.h"

#include <stdio.h>

#include "clock.h"
#include "core_private.h"
#include "held_memory.h"
#include "key_sessions.h"
#include "record_quota.h"

struct bounds {
	uint64_t sessions, rate_milli, burst, memory, storage, pids, queue, stored;
};

static uint64_t or_else(uint64_t own, uint64_t common)
{
	return own == 0 ? common : own;
}

static struct bounds bounds_of(const struct tenant *t, const struct config *g)
{
	return (struct bounds){
		.sessions = or_else(t->row.max_sessions, g->tenant_max_sessions),
		.rate_milli = or_else(t->row.create_rate_milli, g->tenant_create_rate_milli),
		.burst = or_else(t->row.create_burst, g->tenant_create_burst),
		.memory = or_else(t->row.max_memory, g->tenant_max_memory),
		.storage = or_else(t->row.max_storage, g->tenant_max_storage),
		.pids = or_else(t->row.max_pids, g->tenant_max_pids),
		.queue = or_else(t->row.queue_length, g->tenant_queue_length),
		.stored = or_else(t->row.max_stored, g->tenant_max_stored),
	};
}

void quota_limits(const struct core *c, const struct tenant *t, struct quota_limits *ret)
{
	struct bounds b = bounds_of(t, c->o.config);

	*ret = (struct quota_limits){ .sessions = b.sessions,
				      .rate_milli = b.rate_milli,
				      .burst = b.burst,
				      .memory = b.memory,
				      .storage = b.storage,
				      .pids = b.pids,
				      .queue = b.queue,
				      .stored = b.stored,
				      .used_sessions = t->sessions,
				      .used_memory = t->memory_bytes,
				      .used_storage = t->disk_bytes,
				      .used_pids = t->pids };
}

/* How many of the size `each` fit below the bound (0: none). */
static uint64_t fit(uint64_t bound, uint64_t used, uint64_t each)
{
	if (bound == 0 || each == 0)
		return UINT64_MAX;
	return used >= bound ? 0 : (bound - used) / each;
}

uint64_t quota_room(const struct core *c, const struct tenant *t, const struct store_limits *each,
		    const struct quota_taken *taken)
{
	const struct config *g = c->o.config;
	struct bounds b = bounds_of(t, g);
	const uint64_t rooms[] = {
		fit(b.sessions, t->sessions + taken->sessions, 1),
		fit(b.memory, t->memory_bytes + taken->memory, each->memory_bytes),
		fit(b.pids, t->pids + taken->pids, each->pids),
		fit(g->node_max_sessions, c->live + taken->sessions, 1),
		fit(g->node_max_memory, c->memory_bytes + taken->memory, each->memory_bytes),
	};
	uint64_t least = c->memory_short ? 0 : UINT64_MAX;

	for (size_t i = 0; i < COUNT(rooms); i++)
		least = rooms[i] < least ? rooms[i] : least;
	return least;
}

uint64_t quota_queue_length(const struct session *s)
{
	return bounds_of(s->tenant, s->core->o.config).queue;
}

uint64_t quota_rate_milli(const struct core *c, const struct tenant *t)
{
	return bounds_of(t, c->o.config).rate_milli;
}

uint64_t quota_queue_ms(const struct session *s)
{
	return or_else(s->tenant->row.queue_ms, s->core->o.config->tenant_queue_ms);
}

static void refill(uint64_t *tokens, uint64_t *at_ns, uint64_t rate_milli, uint64_t burst,
		   uint64_t now)
{
	uint64_t full = (burst == 0 ? 1 : burst) * 1000;
	/* An hour fills any bucket; more would overflow. */
	uint64_t ms = (now - *at_ns) / CLOCK_MS < 3600000 ? (now - *at_ns) / CLOCK_MS : 3600000;

	if (*at_ns == 0) {
		*tokens = full;
		*at_ns = now;
		return;
	}
	if (ms == 0)
		return;
	*tokens += rate_milli * ms / 1000;
	if (*tokens > full)
		*tokens = full;
	/* What did not make a whole thousandth counts next time: a slow bucket that is asked often
	 * would never fill. */
	*at_ns += (ms - (rate_milli == 0 ? 0 : rate_milli * ms % 1000 / rate_milli)) * CLOCK_MS;
}

static int refuse(enum err_reason why, unsigned retry_s, unsigned *ret_retry_s, struct err *e,
		  const char *words, uint64_t bound)
{
	*ret_retry_s = retry_s == 0 ? 1 : retry_s;
	return err_set_reason(e, why, "%s %llu", words, (unsigned long long)bound);
}

static unsigned seconds_for(uint64_t tokens, uint64_t rate_milli)
{
	return rate_milli == 0 ? 1 : (unsigned)((1000 - tokens + rate_milli - 1) / rate_milli);
}

int quota_fits(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	struct core *c = s->core;
	struct tenant *t = s->tenant;
	const struct config *g = c->o.config;
	struct bounds b = bounds_of(t, g);
	uint64_t memory =
		s->row.limits.memory_bytes + held_memory_adds(c, s->row.image, s->row.image_bytes);
	uint64_t disk = s->disk_counted ? 0 : s->row.limits.disk_bytes;
	uint64_t now = clock_now_ns(), records;

	if (b.sessions > 0 && t->sessions >= b.sessions)
		return refuse(REASON_QUOTA_SESSIONS, 1, ret_retry_s, e,
			      "the tenant's sessions at a time are", b.sessions);
	if (b.memory > 0 && t->memory_bytes + memory > b.memory)
		return refuse(REASON_QUOTA_MEMORY, 1, ret_retry_s, e,
			      "the tenant's bytes of memory are", b.memory);
	if (b.storage > 0 && t->disk_bytes + disk > b.storage)
		return refuse(REASON_QUOTA_STORAGE, 1, ret_retry_s, e,
			      "the tenant's bytes of disk are", b.storage);
	if (b.storage == 0 && disk > 0 && s->row.storage == SESSION_DISK && !s->of_build &&
	    t->image_bytes + disk > layers_tenant_share(&c->layers))
		return refuse(REASON_QUOTA_STORAGE, 1, ret_retry_s, e,
			      "the tenant's bytes of sessions with storage disk, half of what the "
			      "file system of storage_dir has (tenant_max_storage is not set), are",
			      layers_tenant_share(&c->layers));
	if (g->tenant_max_persistent > 0 && s->row.keep_ms > 0 && !s->disk_counted &&
	    t->persistent >= g->tenant_max_persistent)
		return refuse(REASON_QUOTA_SESSIONS, 1, ret_retry_s, e,
			      "the tenant's persistent sessions are", g->tenant_max_persistent);
	if (b.pids > 0 && t->pids + s->row.limits.pids > b.pids)
		return refuse(REASON_QUOTA_PIDS, 1, ret_retry_s, e, "the tenant's processes are",
			      b.pids);
	if (record_quota_session(c, t, &records, e) > 0)
		return refuse(REASON_QUOTA_RECORDS, 60, ret_retry_s, e,
			      "the tenant's bytes of records are", records);
	if (g->node_max_sessions > 0 && c->live >= g->node_max_sessions)
		return refuse(REASON_CAPACITY_SESSIONS, 1, ret_retry_s, e,
			      "the node's sessions at a time are", g->node_max_sessions);
	if (c->memory_short)
		return refuse(REASON_CAPACITY_MEMORY, 5, ret_retry_s, e,
			      "the machine is short of memory; promised bytes are",
			      c->memory_bytes);
	if (g->node_max_memory > 0 && c->memory_bytes + memory > g->node_max_memory)
		return refuse(REASON_CAPACITY_MEMORY, 1, ret_retry_s, e,
			      "the node's bytes of memory are", g->node_max_memory);
	if (b.rate_milli > 0) {
		refill(&t->tokens_milli, &t->tokens_at_ns, b.rate_milli, b.burst, now);
		if (t->tokens_milli < 1000)
			return refuse(REASON_QUOTA_RATE, seconds_for(t->tokens_milli, b.rate_milli),
				      ret_retry_s, e, "the tenant's sessions in 1000 s are",
				      b.rate_milli);
	}
	if (g->node_create_rate_milli > 0) {
		refill(&c->tokens_milli, &c->tokens_at_ns, g->node_create_rate_milli,
		       g->node_create_rate_milli / 1000, now);
		if (c->tokens_milli < 1000)
			return refuse(REASON_CAPACITY_RATE,
				      seconds_for(c->tokens_milli, g->node_create_rate_milli),
				      ret_retry_s, e, "the node's sessions in 1000 s are",
				      g->node_create_rate_milli);
	}
	return 0;
}

int quota_memory_fits(const struct core *c, const struct tenant *t, uint64_t bytes, struct err *e)
{
	const struct config *g = c->o.config;
	uint64_t max = bounds_of(t, g).memory;
	unsigned retry_s;

	if (max > 0 && t->memory_bytes + bytes > max)
		return refuse(REASON_QUOTA_MEMORY, 1, &retry_s, e,
			      "a copy of the session's memory does not fit: the tenant's bytes of "
			      "memory are",
			      max);
	if (g->node_max_memory > 0 && c->memory_bytes + bytes > g->node_max_memory)
		return refuse(REASON_CAPACITY_MEMORY, 1, &retry_s, e,
			      "a copy of the session's memory does not fit: the node's bytes of "
			      "memory are",
			      g->node_max_memory);
	return !c->memory_short ? 0
				: refuse(REASON_CAPACITY_MEMORY, 5, &retry_s, e,
					 "the machine is short of memory; promised bytes are",
					 c->memory_bytes);
}

/* One without a cell that is not persistent counts as those do: the daemon has it in memory. */
static void count_cold(struct session *s, bool cold)
{
	if (s->cold_counted == cold || s->row.keep_ms > 0)
		return;
	s->cold_counted = cold;
	if (cold)
		s->tenant->persistent++;
	else
		s->tenant->persistent--;
}

int quota_cold_fits(const struct session *s, struct err *e)
{
	uint64_t max = s->core->o.config->tenant_max_persistent;

	if (max == 0 || s->row.keep_ms > 0 || s->tenant->persistent < max)
		return 0;
	return err_set_reason(e, REASON_QUOTA_SESSIONS,
			      "the tenant's sessions that are persistent or without a cell are "
			      "%llu (tenant_max_persistent)",
			      (unsigned long long)max);
}

/* What its disk may take of the file system of storage_dir. */
static uint64_t image_bytes(const struct session *s)
{
	return s->row.storage == SESSION_DISK && !s->of_build ? s->row.limits.disk_bytes : 0;
}

void quota_count(struct session *s)
{
	count_cold(s, false);
	s->counted = true;
	s->core->live++;
	s->core->memory_bytes += s->row.limits.memory_bytes;
	s->tenant->sessions++;
	s->tenant->memory_bytes += s->row.limits.memory_bytes;
	s->tenant->pids += s->row.limits.pids;
	held_memory_use(s->core, s->tenant, s->row.image, s->row.image_bytes);
	if (s->disk_counted)
		return;
	s->disk_counted = true;
	s->tenant->disk_bytes += s->row.limits.disk_bytes;
	s->tenant->image_bytes += image_bytes(s);
	s->tenant->persistent += s->row.keep_ms > 0;
}

void quota_take(struct session *s)
{
	const struct config *g = s->core->o.config;

	quota_count(s);
	if (bounds_of(s->tenant, g).rate_milli > 0)
		s->tenant->tokens_milli -= 1000;
	if (g->node_create_rate_milli > 0)
		s->core->tokens_milli -= 1000;
}

static void release_disk(struct session *s)
{
	if (!s->disk_counted)
		return;
	s->disk_counted = false;
	s->tenant->disk_bytes -= s->row.limits.disk_bytes;
	s->tenant->image_bytes -= image_bytes(s);
	s->tenant->persistent -= s->row.keep_ms > 0;
}

void quota_release(struct session *s)
{
	quota_uncount(s);
	count_cold(s, false);
	release_disk(s);
	key_sessions_release(s);
}

void quota_uncount(struct session *s)
{
	if (!s->counted)
		return;
	s->counted = false;
	count_cold(s, true);
	s->core->live--;
	s->core->memory_bytes -= s->row.limits.memory_bytes;
	s->tenant->sessions--;
	s->tenant->memory_bytes -= s->row.limits.memory_bytes;
	s->tenant->pids -= s->row.limits.pids;
	held_memory_unuse(s->core, s->row.image);
	s->row.image[0] = '\0';		    /* its next cell maps another one */
	if (s->row.storage != SESSION_DISK) /* its disk stays without its cell */
		release_disk(s);
	if (s->core->queued > 0) /* served from the loop, not from inside the caller */
		loop_timer_set(s->core->loop, &s->core->queue_timer, clock_now_ns());
}
