/* session_sample.c - samples of what sessions use, now and over the last minutes. Reading the files
 * of a cgroup takes so long that all sessions are read in pieces, by a job of the node (jobs.h). A
 * session that has become idle is read once more: its numbers do not change then. */
#include "session_sample.h"

#include <assert.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "core_private.h"
#include "live_cell.h"
#include "meter.h"
#include "session.h"
#include "usage.h"

#define PIECE 16
#define FEW 4 /* samples there is room for at first: a power of two */
#define ACTIVE_NS (60ULL * 1000 * CLOCK_MS)

void session_sample_now(struct session *s, struct session_sample *ret)
{
	struct usage now;
	struct err e;

	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_SHOWN, &now);
	*ret = (struct session_sample){ .time_ms = core_now_ms(),
					.cpu_us = s->cpu_before_us + now.cpu_us,
					.memory_bytes = now.memory_bytes,
					.memory_peak_bytes = now.memory_peak_bytes,
					.pids = now.pids };
	if (s->cell == NULL)
		return;
	/* By the last answer of PID 1, which is asked again for the next sample. */
	ret->disk_bytes = s->cell->disk_bytes;
	ret->inodes = s->cell->inodes;
	if (s->cell->connected && !s->cell->frozen && s->cell->state == LIVE_UP &&
	    agent_send_stat(&s->cell->agent, &e) == 0)
		live_cell_flush(s->cell);
}

/* Idle sessions have few samples and are many, so the ring grows by doubling. Until it is whole, no
 * sample has been replaced. */
static void make_room(struct session *s)
{
	size_t n = s->nsamples, cap = n == 0 ? FEW : 2 * n;

	if (n == SESSION_SAMPLES || (n > 0 && (n < FEW || (n & (n - 1)) != 0)))
		return;
	if (cap > SESSION_SAMPLES)
		cap = SESSION_SAMPLES;
	s->samples = reallocarray(s->samples, cap, sizeof(*s->samples));
	assert(s->samples != NULL);
}

static void sample(struct session *s)
{
	make_room(s);
	session_sample_now(s, &s->samples[s->last_sample]);
	s->memory_bytes = s->samples[s->last_sample].memory_bytes;
	s->cpu_us = s->samples[s->last_sample].cpu_us;
	s->last_sample = (s->last_sample + 1) % SESSION_SAMPLES;
	if (s->nsamples < SESSION_SAMPLES)
		s->nsamples++;
}

/* Reads the session if that is due. True if files were read, which takes time. */
static bool look_at(struct session *s)
{
	struct usage now;

	if (s->row.state == SESSION_RUNNING &&
	    (s->running > 0 || clock_now_ns() - s->used_ns <= ACTIVE_NS)) {
		sample(s);
		meter_look(s, s->cpu_us, true);
		return true;
	}
	if (s->memory_bytes > 0 || s->cell == NULL) {
		if (s->cell != NULL)
			meter_look(s, 0, false);
		return false;
	}
	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_SHOWN, &now);
	s->memory_bytes = now.memory_bytes;
	meter_look(s, s->cpu_before_us + now.cpu_us, false);
	return true;
}

/* Goes through buckets of the table until PIECE sessions were read. Sessions that begin or end
 * during a round may be left out of it. */
static bool on_piece(struct job *j)
{
	struct core *c = j->arg;
	unsigned looked = 0;

	while (c->sampling.bucket < CORE_BUCKETS && looked < PIECE) {
		for (struct session *s = c->sessions[c->sampling.bucket]; s != NULL; s = s->next) {
			looked += look_at(s) ? 1 : 0;
			c->sampling.memory_bytes += s->memory_bytes;
		}
		c->sampling.bucket++;
	}
	if (c->sampling.bucket < CORE_BUCKETS)
		return true;
	c->cell_memory_bytes = c->sampling.memory_bytes;
	return false;
}

void session_sample_all(struct core *c)
{
	struct sampling *s = &c->sampling;

	if (s->job.link != NULL)
		return; /* the last round is not over */
	*s = (struct sampling){ .job = { .on_piece = on_piece, .arg = c } };
	core_job_add(c, NULL, &s->job);
}

size_t session_sample_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES])
{
	size_t first = (s->last_sample + SESSION_SAMPLES - s->nsamples) % SESSION_SAMPLES;

	for (size_t i = 0; i < s->nsamples; i++)
		ret[i] = s->samples[(first + i) % SESSION_SAMPLES];
	return s->nsamples;
}
