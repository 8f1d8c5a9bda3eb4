#include "lib/base/metrics.h"

#include <signal.h>

#include "lib/base/buf.h"
#include "support.h"

enum { REQUESTS, SESSIONS, CREATE, EXEC };

static const char *const states[] = { "running", "paused" };
static const struct metrics_def defs[] = {
	[REQUESTS] = { METRICS_COUNTER, "cordon_requests_total", "Requests.", NULL, NULL, 0 },
	[SESSIONS] = { METRICS_GAUGE, "cordon_sessions", "Sessions by state.", "state", states, 2 },
	[CREATE] = { METRICS_HISTOGRAM, "cordon_create_seconds", "Time to create.", NULL, NULL, 0 },
	[EXEC] = { METRICS_HISTOGRAM, "cordon_exec_seconds", "Time to run.", "state", states, 2 },
};

static void counts_and_writes(void)
{
	static const char start[] = "# HELP cordon_requests_total Requests.\n"
				    "# TYPE cordon_requests_total counter\n"
				    "cordon_requests_total 42\n"
				    "# HELP cordon_sessions Sessions by state.\n"
				    "# TYPE cordon_sessions gauge\n"
				    "cordon_sessions{state=\"running\"} 7\n"
				    "cordon_sessions{state=\"paused\"} -2\n"
				    "# HELP cordon_create_seconds Time to create.\n"
				    "# TYPE cordon_create_seconds histogram\n"
				    "cordon_create_seconds_bucket{le=\"0.0005\"} 0\n";
	struct buf b = BUF_INIT(65536);
	struct err e;

	metrics_setup(defs, COUNT(defs));
	metrics_add(REQUESTS, 0, 1);
	metrics_add(REQUESTS, 0, 41);
	metrics_set(SESSIONS, 0, 7);
	metrics_set(SESSIONS, 1, -2);
	CHECK(metrics_get(REQUESTS, 0) == 42 && metrics_get(SESSIONS, 1) == -2);
	metrics_write(&b);
	CHECK(buf_check(&b, &e) == 0);
	CHECK(strncmp(buf_text(&b), start, strlen(start)) == 0);
	buf_release(&b);
}

/* Bounds belong to their bucket, buckets add up, what is beyond the last is in +Inf only. */
static void histograms_add_up(void)
{
	struct buf b = BUF_INIT(65536);
	const char *text;

	metrics_setup(defs, COUNT(defs));
	metrics_observe_ns(EXEC, 1, 500000);
	metrics_observe_ns(EXEC, 1, 500001);
	metrics_observe_ns(EXEC, 1, 3000000);
	metrics_observe_ns(EXEC, 1, 61000000000ULL);
	CHECK(metrics_get(EXEC, 1) == 4 && metrics_get(EXEC, 0) == 0 &&
	      metrics_get(CREATE, 0) == 0);
	metrics_write(&b);
	text = buf_text(&b);
	CHECK_HAS("bound", text, "exec_seconds_bucket{state=\"paused\",le=\"0.0005\"} 1\n");
	CHECK_HAS("above", text, "exec_seconds_bucket{state=\"paused\",le=\"0.001\"} 2\n");
	CHECK_HAS("sum", text, "exec_seconds_bucket{state=\"paused\",le=\"0.004\"} 3\n");
	CHECK_HAS("last", text, "exec_seconds_bucket{state=\"paused\",le=\"60\"} 3\n");
	CHECK_HAS("inf", text, "exec_seconds_bucket{state=\"paused\",le=\"+Inf\"} 4\n");
	CHECK_HAS("sum", text, "exec_seconds_sum{state=\"paused\"} 61.004000001\n");
	CHECK_HAS("count", text, "exec_seconds_count{state=\"paused\"} 4\n");
	CHECK_HAS("other", text, "exec_seconds_count{state=\"running\"} 0\n");
	CHECK_HAS("none", text, "create_seconds_sum 0.000000000\n");
	buf_release(&b);
}

static void a_small_buffer_says_so(void)
{
	struct buf b = BUF_INIT(100);
	struct err e;

	metrics_setup(defs, COUNT(defs));
	metrics_write(&b);
	CHECK(buf_check(&b, &e) < 0 && e.code == ERR_LIMIT);
	buf_release(&b);
}

static void dies(const char *name, void (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		(void)close(STDERR_FILENO);
		metrics_setup(defs, COUNT(defs));
		run();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_CASE(name, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void wrong_kind(void)
{
	metrics_set(REQUESTS, 0, 1);
}

static void wrong_value(void)
{
	metrics_set(SESSIONS, 2, 1);
}

static void wrong_metric(void)
{
	metrics_add(EXEC + 1, 0, 1);
}

static void bad_label(void)
{
	static const char *const values[] = { "a\"} 1\nx" };
	static const struct metrics_def bad[] = {
		{ METRICS_GAUGE, "x", "y", "label", values, 1 },
	};

	metrics_setup(bad, 1);
}

static void bad_name(void)
{
	static const struct metrics_def bad[] = { { METRICS_GAUGE, "a-b", "y", NULL, NULL, 0 } };

	metrics_setup(bad, 1);
}

static void bugs_die(void)
{
	dies("kind", wrong_kind);
	dies("value", wrong_value);
	dies("metric", wrong_metric);
	dies("label", bad_label);
	dies("name", bad_name);
}

TEST_MAIN({ "counters and gauges", counts_and_writes }, { "histograms", histograms_add_up },
	  { "a buffer too small says so", a_small_buffer_says_so }, { "bugs die", bugs_die })
