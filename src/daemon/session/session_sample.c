/* session_sample.c - samples the usage of sessions, now and over the last minutes. Reading the
 * files of a cgroup takes so long that a job of the node (jobs.h) reads all sessions in pieces. An
 * idle session is read once more, then its numbers do not change. */
#include "daemon/session/session_sample.h"

#include <assert.h>
#include <string.h>

#include "cell/cellctl/usage.h"
#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution_marks.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_history.h"
#include "daemon/session/session_hooks.h"
#include "daemon/tenant/meter.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

#define PIECE 8
#define FEW 4 /* initial capacity in samples: a power of two */
#define ACTIVE_NS (60ULL * 1000 * CLOCK_MS)

void session_sample_now(struct session *s, struct session_sample *ret)
{
	struct usage now;

	cells_usage(&s->core->cells, session_level(s), s->row.id, USAGE_SHOWN, &now);
	*ret = (struct session_sample){ .time_ms = core_now_ms(),
					.cpu_us = s->cpu_before_us + now.cpu_us,
					.memory_bytes = now.memory_bytes,
					.memory_peak_bytes = now.memory_peak_bytes,
					.pids = now.pids,
					.output_bytes = s->records.output_bytes };
	if (s->cell == NULL)
		return;
	/* From the last answer of PID 1. The next answer is for the next sample. */
	ret->disk_bytes = s->cell->disk_bytes;
	ret->inodes = s->cell->inodes;
	(void)live_cell_stat(s->cell);
}

/* Idle sessions have few samples and are many, so the ring grows by doubling. Until it has its full
 * size, no sample has been replaced. */
static void make_room(struct session *s)
{
	size_t n = s->samples.n, cap = n == 0 ? FEW : 2 * n;

	if (n == SESSION_SAMPLES || (n > 0 && (n < FEW || (n & (n - 1)) != 0)))
		return;
	if (cap > SESSION_SAMPLES)
		cap = SESSION_SAMPLES;
	s->samples.ring = reallocarray(s->samples.ring, cap, sizeof(*s->samples.ring));
	assert(s->samples.ring != NULL);
}

static void sample_sample(struct session *s)
{
	make_room(s);
	session_sample_now(s, &s->samples.ring[s->samples.last]);
	s->memory_bytes = s->samples.ring[s->samples.last].memory_bytes;
	s->cpu_us = s->samples.ring[s->samples.last].cpu_us;
	session_parts_sampled(s, &s->samples.ring[s->samples.last]);
	s->samples.last = (s->samples.last + 1) % SESSION_SAMPLES;
	if (s->samples.n < SESSION_SAMPLES)
		s->samples.n++;
}

/* Read the session if it is due. True if files were read, because this takes time. */
static bool look_at(struct session *s)
{
	struct usage now;

	if (s->row.state == SESSION_RUNNING &&
	    (s->running > 0 || clock_now_ns() - s->used_ns <= ACTIVE_NS)) {
		sample_sample(s);
		session_history_look(s);
		execution_marks_look(s);
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

/* Visit buckets of the table until PIECE sessions were read. Sessions that begin or end during a
 * round may be left out of it. */
static bool on_piece(struct job *j)
{
	struct core *c = j->arg;
	unsigned looked = 0;

	while (c->sampling.bucket < CORE_BUCKETS && looked < PIECE) {
		LIST_WALK(struct session, s, c->sessions[c->sampling.bucket]) {
			/* alone: figures are read, which ends no session */
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
		return; /* the last round has not ended */
	*s = (struct sampling){ .job = { .on_piece = on_piece, .arg = c } };
	core_job_add(c, NULL, &s->job);
}

size_t session_sample_history(const struct session *s, struct session_sample ret[SESSION_SAMPLES])
{
	size_t first = (s->samples.last + SESSION_SAMPLES - s->samples.n) % SESSION_SAMPLES;

	for (size_t i = 0; i < s->samples.n; i++)
		ret[i] = s->samples.ring[(first + i) % SESSION_SAMPLES];
	return s->samples.n;
}
