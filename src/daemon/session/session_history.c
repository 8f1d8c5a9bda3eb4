/* session_history.c - see session_history.h. */
#include "daemon/session/session_history.h"

#include "daemon/node/core_private.h"
#include "lib/base/log.h"

static int history_begin(struct session *s, struct err *e)
{
	struct session_history *h = &s->history;

	if (h->begun)
		return 0;
	h->step_ms = STORE_SAMPLE_MS;
	if (s->restored && store_sample_step(s->core->store, s->row.id, &h->step_ms, e) < 0)
		return -1;
	h->begun = true;
	return 0;
}

/* A point that cannot be written stays, and is joined with the next ones. */
static int history_write(struct session *s, struct err *e)
{
	struct session_history *h = &s->history;

	h->point.span_ms = h->point.time_ms - h->began_ms;
	if (store_sample_add(s->core->store, s->row.tenant, s->row.id, &h->point,
			     !s->restored && h->written_ms == 0, &h->step_ms, e) < 0)
		return -1;
	h->written_ms = h->point.time_ms;
	h->point.looks = 0;
	return 0;
}

static void history_try_write(struct session *s)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	unsigned long long dropped;
	struct err e;

	if (history_write(s, &e) < 0 && log_limit(&limit, &dropped))
		log_warn("history of a session could not be written, tried again later",
			 "session_id=%s error=%s dropped=%llu", s->row.id, e.msg, dropped);
}

/* Readings of different moments become one point. */
static void history_add(struct session *s, const struct store_sample *now)
{
	struct session_history *h = &s->history;

	if (h->point.looks > 0 && now->time_ms >= h->point.time_ms) {
		store_sample_join(&h->point, now);
		return;
	}
	h->point = *now;
	h->began_ms = now->time_ms - STORE_SAMPLE_MS;
	if (h->began_ms < s->row.created_ms)
		h->began_ms = s->row.created_ms;
	if (h->began_ms < h->written_ms)
		h->began_ms = h->written_ms;
	if (h->began_ms > now->time_ms) /* the clock was set back */
		h->began_ms = now->time_ms;
}

static struct store_sample history_reading(const struct session *s, uint64_t cpu_us,
					   uint64_t memory_bytes)
{
	return (struct store_sample){
		.time_ms = core_now_ms(),
		.looks = 1,
		.cpu_us = cpu_us,
		.memory_bytes = memory_bytes,
		.memory_max_bytes = memory_bytes,
		.net_bytes_in = s->row.usage.net_bytes_in,
		.net_bytes_out = s->row.usage.net_bytes_out,
	};
}

void session_history_look(struct session *s)
{
	const struct session_sample *last =
		&s->samples.ring[(s->samples.last + SESSION_SAMPLES - 1) % SESSION_SAMPLES];
	struct store_sample now = history_reading(s, last->cpu_us, last->memory_bytes);
	struct session_history *h = &s->history;
	struct err e;

	now.time_ms = last->time_ms;
	now.disk_bytes = last->disk_bytes;
	now.pids = last->pids;
	if (history_begin(s, &e) < 0)
		return; /* the store fails: tried again at the next one */
	/* After a time without readings the point before it is written as it is. */
	if (h->point.looks > 0 && (now.time_ms < h->point.time_ms ||
				   now.time_ms - h->began_ms > h->step_ms + STORE_SAMPLE_MS))
		history_try_write(s);
	history_add(s, &now);
	if (h->point.looks * STORE_SAMPLE_MS >= h->step_ms)
		history_try_write(s);
}

int session_history_end(struct session *s, struct err *e)
{
	struct store_sample now = history_reading(s, s->row.usage.cpu_us, s->memory_bytes);

	now.disk_bytes = s->row.usage.disk_bytes;
	/* A short session has no reading before this one: its highest use is known anyway. */
	if (s->samples.n == 0 && s->row.usage.memory_peak_bytes > now.memory_max_bytes)
		now.memory_max_bytes = s->row.usage.memory_peak_bytes;
	if (history_begin(s, e) < 0)
		return -1;
	history_add(s, &now);
	return history_write(s, e);
}

void session_history_forget(struct session *s)
{
	if (s->history.point.looks > 0 && s->row.state < SESSION_ENDING)
		history_try_write(s);
}

bool session_history_open(const struct session *s, struct store_sample *ret)
{
	*ret = s->history.point;
	ret->span_ms = ret->time_ms - s->history.began_ms;
	return ret->looks > 0;
}

uint64_t session_history_step(const struct session *s)
{
	return s->history.begun ? s->history.step_ms : STORE_SAMPLE_MS;
}
