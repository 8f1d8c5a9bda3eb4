/* Alarms of a session whose PID 1 breaks the protocol, and the ends of alarms that act: an alarm
 * that ends the session it was raised in, twice, and while the session is being made or ends. */
#include "bed.h"
#include "daemon/alarms/alarm.h"
#include "daemon/alarms/trace.h"
#include "daemon/cells/cell_socket.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_states.h"
#include "daemon/session/session_stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char seen[4096];

static int note_event(const struct store_event *row, void *cookie)
{
	size_t n = strlen(seen);

	if (strcmp(row->type, "alarm") == 0)
		(void)snprintf(seen + n, sizeof(seen) - n, "%s", row->data);
	return 0;
}

static unsigned alarms_of(const char *kind)
{
	struct store_event_filter f = { .limit = 0 };
	char line[64];
	unsigned n = 0;
	struct err e;

	seen[0] = '\0';
	CHECK(store_event_list(bed.core->store, &f, note_event, NULL, NULL, &e) == 0);
	(void)snprintf(line, sizeof(line), "kind\t%s\n", kind);
	for (const char *at = seen; (at = strstr(at, line)) != NULL; at++)
		n++;
	return n;
}

static bool is_ending(void)
{
	return bed.session->row.state >= SESSION_ENDING;
}

static struct session *begin(const char *rules)
{
	bed_make(30000);
	bed_session();
	free(*session_parts_of(bed.session, &alarms_part)); /* the session was made without rules */
	*session_parts_of(bed.session, &alarms_part) = NULL;
	bed.session->row.alarms = rules;
	return bed.session;
}

static void a_pid_1_that_breaks_the_protocol(void)
{
	const struct agent_event v = { .flags = ~0U };

	(void)begin("");
	bed_says(AGENT_EXITED, &v);
	bed_until(is_ending);
	CHECK(bed.session->row.reason == SESSION_CRASHED);
	CHECK(alarms_of("cell_fault") == 1);
	CHECK_HAS("facts", seen, "what\tPID 1 broke the protocol");
	bed_end();
}

static void below_the_threshold_and_at_most_one_in_ten_seconds(void)
{
	struct session *s = begin("refused_calls\t5\tinfo\tnone\n");

	alarm_raise(s, ALARM_REFUSED_CALLS, 4, "");
	CHECK(alarms_of("refused_calls") == 0);
	for (unsigned i = 0; i < 1000; i++)
		alarm_raise(s, ALARM_REFUSED_CALLS, 5 + i, "call\tmount\n");
	CHECK(alarms_of("refused_calls") == 1);
	CHECK_HAS("facts", seen, "value\t5\nthreshold\t5\nraised\t1\ncall\tmount\n");
	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	CHECK(alarms_of("escape_attempt") == 1);
	bed_end();
}

static void a_kind_that_is_off(void)
{
	struct session *s = begin("escape_attempt\t0\tinfo\tend\n");

	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	bed_turn(5);
	CHECK(alarms_of("escape_attempt") == 0 && s->row.state == SESSION_RUNNING);
	bed_end();
}

static void an_alarm_ends_its_session_from_the_loop(void)
{
	struct session *s =
		begin("escape_attempt\t1\tcritical\tend\nrefused_calls\t1\tinfo\tpause\n");

	alarm_raise(s, ALARM_REFUSED_CALLS, 1, "");
	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	CHECK(s->row.state == SESSION_RUNNING); /* not while its caller works with it */
	bed_until(is_ending);
	CHECK(s->row.reason == SESSION_ALARM && strstr(s->row.detail, "escape_attempt") != NULL);
	bed_end();
}

static void a_session_that_ends_at_the_same_time(void)
{
	struct session *s = begin("escape_attempt\t1\tcritical\tend\n");

	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	session_stop(s, SESSION_DELETED, "");
	bed_turn(5);
	CHECK(alarms_of("escape_attempt") == 1);
	bed_end();
}

static bool is_paused(void)
{
	return bed.session->row.state == SESSION_PAUSED;
}

static void on_used(struct completion *c, const struct err *e)
{
}

static void a_paused_one_waits_for_a_client(void)
{
	struct session *s = begin("escape_attempt\t1\tcritical\tpause\n");
	struct completion used = { .on_done = on_used }, state = { .on_done = on_used };

	alarm_raise(s, ALARM_ESCAPE_ATTEMPT, 1, "");
	bed_until(is_paused);
	CHECK(s->row.room == ROOM_ALARM);
	CHECK(!session_use(s, NULL, &used));
	bed_turn(5);
	CHECK(is_paused() && !completion_is_waiting(&used));
	session_resume(s, NULL, &state);
	CHECK(s->row.state == SESSION_RESUMING && s->row.room == ROOM_FREE);
	completion_cancel(&state);
	bed_end();
}

/* ---- a trace */

#define TRACED 600

static void write_trace(const struct session *s)
{
	const char *id = session_row(s)->id;
	struct watch_file head = { .version = WATCH_VERSION, .first = 1, .next = TRACED + 1 };
	OWN_FD fd = cell_watch_create(bed.core->cells.dir_fd, id);

	CHECK(fd >= 0 && pwrite(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head));
	for (uint64_t seq = 1; seq <= TRACED; seq++) {
		struct watch_entry e = {
			.seq = seq, .seq_again = seq, .kind = WATCH_EXEC, .args_len = WATCH_ARGS
		};

		memset(e.args, 'a', sizeof(e.args));
		CHECK(pwrite(fd, &e, sizeof(e),
			     (off_t)(WATCH_RING_AT + seq % WATCH_RING * sizeof(e))) ==
		      (ssize_t)sizeof(e));
	}
}

static int count_row(const struct trace_row *row, void *cookie)
{
	unsigned *n = cookie;

	CHECK(row->entry.seq == ++*n && row->lost == 0);
	return 0;
}

/* Covering values is work in proportion to the bytes and to the kinds of values: a page of a trace
 * takes several turns of the loop. */
static void a_trace_is_covered_in_turns(void)
{
	struct session *s = begin("");
	static char values[200][256];
	const char *texts[COUNT(values)];
	size_t lens[COUNT(values)], most;
	unsigned rows = 0, calls = 0;
	struct store_looked looked = { 0 };
	struct err e;

	for (size_t i = 0; i < COUNT(values); i++) {
		memset(values[i], 'b', 20 + i);
		texts[i] = values[i];
		lens[i] = 20 + i;
	}
	session_mask_set(s, session_mask_make(s, texts, lens, COUNT(values), &e));
	most = session_redact_turn(s);
	CHECK(most < (size_t)TRACED * WATCH_ARGS / 4);
	s->row.trace = SESSION_TRACE_PROGRAMS;
	write_trace(s);
	for (; !looked.end && calls < TRACED; calls++) {
		unsigned before = rows;

		CHECK(trace_list(s, looked.seq, TRACED, count_row, &rows, &looked, &e) == 0);
		CHECK((rows - before - 1) * (size_t)WATCH_ARGS < most && rows > before);
	}
	CHECK(rows == TRACED && calls > 4);
	s->row.trace = SESSION_TRACE_NONE;
	bed_end();
}

#define T(f)          \
	{             \
#f, f \
	}

TEST_MAIN(T(a_pid_1_that_breaks_the_protocol),
	  T(below_the_threshold_and_at_most_one_in_ten_seconds), T(a_kind_that_is_off),
	  T(an_alarm_ends_its_session_from_the_loop), T(a_session_that_ends_at_the_same_time),
	  T(a_paused_one_waits_for_a_client), T(a_trace_is_covered_in_turns))
