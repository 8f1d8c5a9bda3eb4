/* execution_marks.c - see execution_marks.h. */
#include "daemon/execution/execution_marks.h"

#include "daemon/execution/execution.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output.h"
#include "daemon/tenant/event_log.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"

#define FIRST_MS 4500 /* less than the time between two calls */
#define GROWTH 16
#define MARKS_MAX 8 /* written in one call */

static bool is_due(const struct execution *x, uint64_t now)
{
	uint64_t wait = (now - x->started_ns) / GROWTH, first = FIRST_MS * CLOCK_MS;

	return !x->ended && x->log.size > x->marked.bytes &&
	       now - (x->marked.at_ns == 0 ? x->started_ns : x->marked.at_ns) >=
		       (wait > first ? wait : first);
}

static int execution_marks_mark(struct execution *x, struct err *e)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		bytes += x->log.written[i];
	return event_log_append(
		x->session->core, NULL, x->row.tenant, x->row.session, x->row.id,
		"execution.output", e, "bytes\t%llu\nafter\t%llu\ncut\t%s\n",
		(unsigned long long)(bytes > x->marked.written ? bytes - x->marked.written : 0),
		(unsigned long long)output_cursor_at(x->marked.bytes),
		x->log.cut ? x->log.why : "");
}

static void execution_marks_marked(struct execution *x, uint64_t now)
{
	x->marked.bytes = x->log.size;
	x->marked.at_ns = now;
	x->marked.written = 0;
	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		x->marked.written += x->log.written[i];
}

static int write_marks(struct session *s, uint64_t now, struct err *e)
{
	unsigned n = 0;

	if (store_begin(s->core->store, e) < 0)
		return -1;
	LIST_WALK(struct execution, x, s->executions) {
		/* alone: an event is written, whose listeners are called later */
		if (n == MARKS_MAX || !is_due(x, now))
			continue;
		if (execution_marks_mark(x, e) < 0)
			return -1;
		n++;
	}
	if (store_commit(s->core->store, e) < 0)
		return -1;
	for (struct execution *x = s->executions; x != NULL && n > 0; x = x->next)
		if (is_due(x, now)) {
			execution_marks_marked(x, now);
			n--;
		}
	return 0;
}

void execution_marks_look(struct session *s)
{
	uint64_t now = clock_now_ns();
	struct err e;

	for (const struct execution *x = s->executions; x != NULL; x = x->next) {
		if (!is_due(x, now))
			continue;
		if (write_marks(s, now, &e) < 0) {
			store_rollback(s->core->store);
			log_debug("marks of output not written, tried again later",
				  "session_id=%s error=%s", s->row.id, e.msg);
		}
		return;
	}
}

void execution_marks_begin(struct execution *x)
{
	execution_marks_marked(x, clock_now_ns());
}
