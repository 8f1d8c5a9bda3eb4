/* session_sample.c - what sessions use, now and over the last minutes. Sessions that nobody uses
 * are not looked at: they use what they used. */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "inside.h"
#include "usage.h"

#define ACTIVE_NS (60ULL * 1000 * CLOCK_MS)

void session_sample_now(struct session *s, struct session_sample *ret)
{
	struct usage now;
	struct err e;

	usage_read_little(&s->core->o.cgroups, s->row.id, &now);
	*ret = (struct session_sample){ .time_ms = core_now_ms(),
					.cpu_us = now.cpu_us,
					.memory_bytes = now.memory_bytes,
					.memory_peak_bytes = now.memory_peak_bytes,
					.pids = now.pids };
	if (s->cell == NULL)
		return;
	/* As PID 1 last told; asked again for the next time. */
	ret->disk_bytes = s->cell->disk_bytes;
	ret->inodes = s->cell->inodes;
	if (s->cell->connected && !s->cell->frozen && s->cell->state == LIVE_UP &&
	    agent_send_stat(&s->cell->agent, &e) == 0)
		live_cell_flush(s->cell);
}

void session_sample(struct session *s)
{
	if (s->row.state != SESSION_RUNNING ||
	    (s->running == 0 && clock_now_ns() - s->used_ns > ACTIVE_NS))
		return;
	if (s->samples == NULL) {
		s->samples = calloc(SESSION_SAMPLES, sizeof(*s->samples));
		assert(s->samples != NULL);
	}
	session_sample_now(s, &s->samples[s->last_sample]);
	s->last_sample = (s->last_sample + 1) % SESSION_SAMPLES;
	if (s->nsamples < SESSION_SAMPLES)
		s->nsamples++;
}

size_t session_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES])
{
	size_t first = (s->last_sample + SESSION_SAMPLES - s->nsamples) % SESSION_SAMPLES;

	for (size_t i = 0; i < s->nsamples; i++)
		ret[i] = s->samples[(first + i) % SESSION_SAMPLES];
	return s->nsamples;
}
