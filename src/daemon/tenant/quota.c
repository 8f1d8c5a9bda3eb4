/* quota.c - three kinds of bounds on sessions, for the node and for each tenant: their number, the
 * resources promised to them, and how fast they may be created (token buckets, in thousandths of a
 * session). */
#include "daemon/tenant/quota.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core_private.h"
#include "daemon/session/session_watch.h"
#include "daemon/tenant/image_charge.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/own.h"
#include "lib/base/units.h"
#include "lib/wire/watch_file.h"

#define MINUTE_MS 60000ULL

/* One key's use. A bucket holds a minute's allowance, in thousandths of a session. */
struct key_use {
	struct key_use *next;
	char id[STORE_ID_MAX];
	uint64_t sessions;
	uint64_t tokens_milli, at_ns;
};

static bool is_limited(const struct session *s)
{
	return s->row.creator_key[0] != '\0' && s->quota.key_max + s->quota.key_per_minute > 0;
}

static struct key_use *quota_find(const struct session *s)
{
	struct key_use *u = s->tenant->key_uses;

	while (u != NULL && strcmp(u->id, s->row.creator_key) != 0)
		u = u->next;
	return u;
}

static void count_one(struct session *s, void *arg)
{
	struct key_use *u = arg;

	u->sessions += s->quota.key && strcmp(s->row.creator_key, u->id) == 0;
}

/* Drop entries without information: no session, and a bucket full by now. */
static void drop_unused(struct tenant *t)
{
	uint64_t now = clock_now_ns();

	for (struct key_use **at = &t->key_uses; *at != NULL;) {
		struct key_use *u = *at;

		if (u->sessions > 0 || now - u->at_ns < MINUTE_MS * CLOCK_MS) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u);
	}
}

/* A new entry counts the key's sessions once. It is kept up to date from then on. */
static struct key_use *find_or_make(struct session *s)
{
	struct key_use *u = quota_find(s);

	if (u != NULL)
		return u;
	drop_unused(s->tenant);
	u = calloc(1, sizeof(*u));
	assert(u != NULL);
	memcpy(u->id, s->row.creator_key, sizeof(u->id));
	u->tokens_milli = s->quota.key_per_minute * 1000;
	u->at_ns = clock_now_ns();
	session_each(s->core, s->tenant, count_one, u);
	u->next = s->tenant->key_uses;
	s->tenant->key_uses = u;
	return u;
}

static void key_sessions_refill(struct key_use *u, uint64_t per_minute)
{
	uint64_t full = per_minute * 1000, ms = (clock_now_ns() - u->at_ns) / CLOCK_MS;
	uint64_t more;

	if (ms > MINUTE_MS)
		ms = MINUTE_MS;
	more = full * ms / MINUTE_MS;
	if (more == 0)
		return; /* counted with the next look */
	u->tokens_milli = u->tokens_milli + more < full ? u->tokens_milli + more : full;
	u->at_ns = clock_now_ns();
}

int key_sessions_fit(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	struct key_use *u;

	*ret_retry_s = 1;
	if (!is_limited(s))
		return 0;
	u = find_or_make(s);
	if (s->quota.key_max > 0 && u->sessions >= s->quota.key_max)
		return err_set_reason(e, REASON_QUOTA_SESSIONS,
				      "the key's sessions at a time are %llu",
				      (unsigned long long)s->quota.key_max);
	if (s->quota.key_per_minute == 0)
		return 0;
	key_sessions_refill(u, s->quota.key_per_minute);
	if (u->tokens_milli >= 1000)
		return 0;
	*ret_retry_s =
		(unsigned)((1000 - u->tokens_milli) * 60 / (s->quota.key_per_minute * 1000)) + 1;
	return err_set_reason(e, REASON_QUOTA_RATE, "the key's sessions in a minute are %llu",
			      (unsigned long long)s->quota.key_per_minute);
}

void key_sessions_count(struct session *s)
{
	struct key_use *u = s->tenant->key_uses == NULL ? NULL : quota_find(s);

	s->quota.key = true;
	if (u == NULL)
		return;
	u->sessions++;
	if (s->quota.key_per_minute > 0 && u->tokens_milli >= 1000)
		u->tokens_milli -= 1000;
}

void key_sessions_release(struct session *s)
{
	struct key_use *u = s->tenant->key_uses == NULL || !s->quota.key ? NULL : quota_find(s);

	s->quota.key = false;
	if (u != NULL && u->sessions > 0)
		u->sessions--;
}

void key_sessions_free(struct tenant *t)
{
	while (t->key_uses != NULL) {
		struct key_use *u = t->key_uses;

		t->key_uses = u->next;
		free(u);
	}
}

#define BURST (1U << 20)
#define PER_SECOND (256U << 10)

/* A bucket of BURST bytes, which fills at PER_SECOND. */
static void change_quota_refill(struct tenant *t, uint64_t now)
{
	uint64_t ms = (now - t->changed_at_ns) / CLOCK_MS, full_ms = BURST * 1000ULL / PER_SECOND;

	if (t->changed_at_ns == 0 || ms >= full_ms) {
		t->change_bytes = BURST;
		t->changed_at_ns = now;
		return;
	}
	t->change_bytes += ms * PER_SECOND / 1000;
	if (t->change_bytes > BURST)
		t->change_bytes = BURST;
	t->changed_at_ns += ms * CLOCK_MS; /* the rest counts next time */
}

int change_quota_take(struct tenant *t, size_t bytes, struct err *e)
{
	/* A document longer than the bucket is refused for its length elsewhere. */
	uint64_t want = bytes < BURST ? bytes : BURST;

	change_quota_refill(t, clock_now_ns());
	if (t->change_bytes < want)
		return err_set_reason(e, REASON_QUOTA_RATE,
				      "a tenant changes, or reads merged, at most %u bytes of "
				      "policies and secrets a second",
				      PER_SECOND);
	t->change_bytes -= want;
	return 0;
}

struct limit_text limit_text(const char *name, uint64_t value)
{
	static const char *const bytes[] = { "memory", "disk", "disk_read_bps", "disk_write_bps" };
	struct limit_text ret = { "" };

	for (size_t i = 0; i < COUNT(bytes); i++)
		if (strcmp(name, bytes[i]) == 0) {
			units_format_bytes(value, ret.s, sizeof(ret.s));
			return ret;
		}
	if (strcmp(name, "cpus") == 0 && value % 1000 != 0)
		(void)snprintf(ret.s, sizeof(ret.s), "%llu.%03u", (unsigned long long)value / 1000,
			       (unsigned)(value % 1000));
	else
		(void)snprintf(
			ret.s, sizeof(ret.s), "%llu",
			(unsigned long long)(strcmp(name, "cpus") == 0 ? value / 1000 : value));
	return ret;
}

/* The bounds of one tenant: its own where it has some, the settings otherwise. 0: not bounded. */
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

uint64_t quota_stored(const struct core *c, const struct tenant *t)
{
	return t == NULL ? 0 : bounds_of(t, c->o.config).stored;
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
static uint64_t quota_fit(uint64_t bound, uint64_t used, uint64_t each)
{
	if (bound == 0 || each == 0)
		return UINT64_MAX;
	return used >= bound ? 0 : (bound - used) / each;
}

uint64_t quota_room(const struct core *c, const struct tenant *t, const struct cell_limits *each,
		    const struct quota_taken *taken)
{
	const struct config *g = c->o.config;
	struct bounds b = bounds_of(t, g);
	const uint64_t rooms[] = {
		quota_fit(b.sessions, t->sessions + taken->sessions, 1),
		quota_fit(b.memory, t->memory_bytes + taken->memory, each->memory_bytes),
		quota_fit(b.pids, t->pids + taken->pids, each->pids),
		quota_fit(g->node_max_sessions, c->live + taken->sessions, 1),
		quota_fit(g->node_max_memory, c->memory_bytes + taken->memory, each->memory_bytes),
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

static void quota_refill(uint64_t *tokens, uint64_t *at_ns, uint64_t rate_milli, uint64_t burst,
			 uint64_t now)
{
	uint64_t full = (burst == 0 ? 1 : burst) * 1000;
	/* An hour fills any bucket. More would overflow. */
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
	/* The time of an incomplete thousandth counts next time: otherwise a slow bucket with many
	 * questions would never fill. */
	*at_ns += (ms - (rate_milli == 0 ? 0 : rate_milli * ms % 1000 / rate_milli)) * CLOCK_MS;
}

/* The remedy for a refusal: the limit's name in `cordon limits`, or its setting, and the tenant's
 * own options. The operator can raise each. */
static const char *quota_advice(enum err_reason why)
{
#define LESS "end a session, ask for less, or have it raised"
	static const struct {
		enum err_reason why;
		const char *text;
	} advice[] = {
		{ REASON_QUOTA_SESSIONS, "max_sessions: end one, or have it raised" },
		{ REASON_QUOTA_MEMORY, "max_memory: " LESS },
		{ REASON_QUOTA_STORAGE, "max_storage: " LESS },
		{ REASON_QUOTA_PIDS, "max_pids: " LESS },
		{ REASON_QUOTA_RECORDS, "tenant_max_records: old ones go after `retention`" },
		{ REASON_QUOTA_RATE, "create_rate: try again later" },
	};
#undef LESS

	for (size_t i = 0; i < COUNT(advice); i++)
		if (advice[i].why == why)
			return advice[i].text;
	return NULL;
}

static int quota_refuse(enum err_reason why, unsigned retry_s, unsigned *ret_retry_s, struct err *e,
			const char *words, uint64_t bound)
{
	const char *advice = quota_advice(why);

	*ret_retry_s = retry_s == 0 ? 1 : retry_s;
	if (advice == NULL) /* of the node: nothing that the tenant has */
		return err_set_reason(e, why, "%s %llu; try again later", words,
				      (unsigned long long)bound);
	return err_set_reason(e, why, "%s %llu (%s; see `cordon limits`)", words,
			      (unsigned long long)bound, advice);
}

static int refuse_persistent(unsigned *ret_retry_s, struct err *e, uint64_t bound)
{
	*ret_retry_s = 1;
	return err_set_reason(e, REASON_QUOTA_SESSIONS,
			      "the tenant's persistent sessions are %llu (tenant_max_persistent: "
			      "delete one, or have it raised)",
			      (unsigned long long)bound);
}

/* How long a client waits for one whole token. */
static unsigned seconds_for(uint64_t tokens, uint64_t rate_milli)
{
	return rate_milli == 0 ? 1 : (unsigned)((1000 - tokens + rate_milli - 1) / rate_milli);
}

/* What the session is promised: the file of its trace is in memory, too, if run_dir is. */
static uint64_t quota_memory(const struct session *s)
{
	return s->row.limits.memory_bytes +
	       (session_watch_flags(&s->row) == 0 ? 0 : WATCH_FILE_MAX);
}

/* Checks only. The bounds of the tenant come first, then those of the node, then the rates.
 * quota_take() counts. */
int quota_fits(struct session *s, unsigned *ret_retry_s, struct err *e)
{
	struct core *c = s->core;
	struct tenant *t = s->tenant;
	const struct config *g = c->o.config;
	struct bounds b = bounds_of(t, g);
	uint64_t memory = quota_memory(s) + image_charge_adds(c, s->row.image, s->row.image_bytes);
	uint64_t disk = s->quota.disk ? 0 : s->row.limits.disk_bytes;
	uint64_t now = clock_now_ns(), records;

	if (b.sessions > 0 && t->sessions >= b.sessions)
		return quota_refuse(REASON_QUOTA_SESSIONS, 1, ret_retry_s, e,
				    "the tenant's sessions at a time are", b.sessions);
	if (b.memory > 0 && t->memory_bytes + memory > b.memory)
		return quota_refuse(REASON_QUOTA_MEMORY, 1, ret_retry_s, e,
				    "the tenant's bytes of memory are", b.memory);
	if (b.storage > 0 && t->disk_bytes + disk > b.storage)
		return quota_refuse(REASON_QUOTA_STORAGE, 1, ret_retry_s, e,
				    "the tenant's bytes of disk are", b.storage);
	if (b.storage == 0 && disk > 0 && s->row.storage == SESSION_DISK && !s->quota.of_build &&
	    t->image_bytes + disk > layers_tenant_share(&c->layers))
		return quota_refuse(
			REASON_QUOTA_STORAGE, 1, ret_retry_s, e,
			"the tenant's bytes of sessions with storage disk (half of storage_dir) "
			"are",
			layers_tenant_share(&c->layers));
	if (g->tenant_max_persistent > 0 && s->row.keep_ms > 0 && !s->quota.disk &&
	    t->persistent >= g->tenant_max_persistent)
		return refuse_persistent(ret_retry_s, e, g->tenant_max_persistent);
	if (b.pids > 0 && t->pids + s->row.limits.pids > b.pids)
		return quota_refuse(REASON_QUOTA_PIDS, 1, ret_retry_s, e,
				    "the tenant's processes are", b.pids);
	if (record_quota_session(c, t, &records, e) > 0)
		return quota_refuse(REASON_QUOTA_RECORDS, 60, ret_retry_s, e,
				    "the tenant's bytes of records are", records);
	if (g->node_max_sessions > 0 && c->live >= g->node_max_sessions)
		return quota_refuse(REASON_CAPACITY_SESSIONS, 1, ret_retry_s, e,
				    "the node's sessions at a time are", g->node_max_sessions);
	if (c->memory_short)
		return quota_refuse(REASON_CAPACITY_MEMORY, 5, ret_retry_s, e,
				    "the machine is short of memory; promised bytes are",
				    c->memory_bytes);
	if (g->node_max_memory > 0 && c->memory_bytes + memory > g->node_max_memory)
		return quota_refuse(REASON_CAPACITY_MEMORY, 1, ret_retry_s, e,
				    "the node's bytes of memory are", g->node_max_memory);
	if (b.rate_milli > 0) {
		quota_refill(&t->tokens_milli, &t->tokens_at_ns, b.rate_milli, b.burst, now);
		if (t->tokens_milli < 1000)
			return quota_refuse(REASON_QUOTA_RATE,
					    seconds_for(t->tokens_milli, b.rate_milli), ret_retry_s,
					    e, "the tenant's sessions in 1000 s are", b.rate_milli);
	}
	if (g->node_create_rate_milli > 0) {
		quota_refill(&c->tokens_milli, &c->tokens_at_ns, g->node_create_rate_milli,
			     g->node_create_rate_milli / 1000, now);
		if (c->tokens_milli < 1000)
			return quota_refuse(REASON_CAPACITY_RATE,
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
		return quota_refuse(
			REASON_QUOTA_MEMORY, 1, &retry_s, e,
			"a copy of the session's memory does not fit: the tenant's bytes of "
			"memory are",
			max);
	if (g->node_max_memory > 0 && c->memory_bytes + bytes > g->node_max_memory)
		return quota_refuse(
			REASON_CAPACITY_MEMORY, 1, &retry_s, e,
			"a copy of the session's memory does not fit: the node's bytes of "
			"memory are",
			g->node_max_memory);
	return !c->memory_short ? 0
				: quota_refuse(REASON_CAPACITY_MEMORY, 5, &retry_s, e,
					       "the machine is short of memory; promised bytes are",
					       c->memory_bytes);
}

/* Any session without a cell counts as a persistent one: the daemon has it in memory. */
static void count_cold(struct session *s, bool cold)
{
	if (s->quota.cold == cold || s->row.keep_ms > 0)
		return;
	s->quota.cold = cold;
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

/* The bound of its disk in the file system of storage_dir. */
static uint64_t image_bytes(const struct session *s)
{
	return s->row.storage == SESSION_DISK && !s->quota.of_build ? s->row.limits.disk_bytes : 0;
}

void quota_count(struct session *s)
{
	count_cold(s, false);
	s->quota.live = true;
	s->core->live++;
	s->core->memory_bytes += quota_memory(s);
	s->tenant->sessions++;
	s->tenant->memory_bytes += quota_memory(s);
	s->tenant->pids += s->row.limits.pids;
	image_charge_use(s->core, s->tenant, s->row.image, s->row.image_bytes);
	if (s->quota.disk)
		return;
	s->quota.disk = true;
	s->tenant->disk_bytes += s->row.limits.disk_bytes;
	s->tenant->image_bytes += image_bytes(s);
	s->tenant->persistent += s->row.keep_ms > 0;
}

/* quota_fits() has said yes in this turn, so the buckets have a token. */
void quota_take(struct session *s)
{
	const struct config *g = s->core->o.config;

	quota_count(s);
	if (bounds_of(s->tenant, g).rate_milli > 0)
		s->tenant->tokens_milli -= 1000;
	if (g->node_create_rate_milli > 0)
		s->core->tokens_milli -= 1000;
}

/* The session's disk is not promised any more. */
static void release_disk(struct session *s)
{
	if (!s->quota.disk)
		return;
	s->quota.disk = false;
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
	if (!s->quota.live)
		return;
	s->quota.live = false;
	count_cold(s, true);
	s->core->live--;
	s->core->memory_bytes -= quota_memory(s);
	s->tenant->sessions--;
	s->tenant->memory_bytes -= quota_memory(s);
	s->tenant->pids -= s->row.limits.pids;
	image_charge_unuse(s->core, s->row.image);
	s->row.image[0] = '\0';		    /* its next cell maps another one */
	if (s->row.storage != SESSION_DISK) /* its disk stays without its cell */
		release_disk(s);
	if (s->core->queued > 0) /* served from the loop, not from inside the caller */
		loop_timer_set(s->core->loop, &s->core->queue_timer, clock_now_ns());
}
