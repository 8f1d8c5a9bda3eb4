/* sandbox_metrics.c - what sandboxes use, from the samples that the core takes of them anyway. */
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/destination.h"
#include "front/e2b/control/sandbox.h"
#include "front/web/reply.h"

#define METRICS_JSON_MAX (128U << 10)
#define FRESH_MS 1000 /* a sample of at most that age counts as current */
#define MANY_MAX 100
#define SECONDS_MAX 100000000000ULL

/* In percent of all CPUs that it has, between two samples. A clock that stood still or went back
 * gives 0. */
static double cpu_percent(const struct session_sample *before, const struct session_sample *now,
			  uint64_t cpus)
{
	if (now->time_ms <= before->time_ms || now->cpu_us <= before->cpu_us)
		return 0;
	return (double)(now->cpu_us - before->cpu_us) / 10.0 /
	       (double)(now->time_ms - before->time_ms) / (double)cpus;
}

/* The processor's share is that since `before`. */
static void write_one(struct json *j, const char *name, const struct sandbox_size *size,
		      const struct session_sample *before, const struct session_sample *now)
{
	char percent[32];

	(void)snprintf(percent, sizeof(percent), "%.2f", cpu_percent(before, now, size->cpus));
	json_open(j, name, '{');
	sandbox_shape_time(j, "timestamp", now->time_ms);
	json_uint(j, "timestampUnix", now->time_ms / 1000);
	json_uint(j, "cpuCount", size->cpus);
	json_raw(j, "cpuUsedPct", percent);
	json_uint(j, "memUsed", now->memory_bytes);
	json_uint(j, "memTotal", size->memory_bytes);
	json_uint(j, "memCache", 0);
	json_uint(j, "diskUsed", now->disk_bytes);
	json_uint(j, "diskTotal", size->disk_bytes);
	json_close(j, '}');
}

/* The samples there are, oldest first, behind the one that the first is compared with: that of its
 * start, or the oldest, if older ones were forgotten. Return how many, with that one. fresh: the
 * last of them is of now, if the sandbox is running. */
static size_t sandbox_metrics_look(struct session *s, bool fresh,
				   struct session_sample ret[SESSION_SAMPLES + 2])
{
	size_t n = session_sample_history(s, ret + 1);
	struct session_sample now;

	ret[0] = (struct session_sample){ .time_ms = session_row(s)->started_ms };
	if (n == SESSION_SAMPLES)
		memmove(ret, ret + 1, n * sizeof(ret[0]));
	else
		n++;
	if (n > 1 && (!fresh || sandbox_is_paused(session_row(s))))
		return n;
	session_sample_now(s, &now);
	if (n == 1 || now.time_ms > ret[n - 1].time_ms + FRESH_MS)
		ret[n++] = now;
	return n;
}

/* start and end are seconds since 1970, both included. */
void sandbox_metrics(struct request *r)
{
	struct session_sample samples[SESSION_SAMPLES + 2];
	uint64_t start = 0, end = SECONDS_MAX;
	struct session *s = sandbox_find(r);
	struct sandbox_size size;
	struct err e = { 0 };
	struct json j;
	size_t n;

	if (s == NULL)
		return;
	if (request_number(r, "start", 0, SECONDS_MAX, &start, &e) < 0 ||
	    request_number(r, "end", 0, SECONDS_MAX, &end, &e) < 0 ||
	    (start > end &&
	     err_set(&e, ERR_INVALID, "parameter start: must not be after end") < 0)) {
		reply_error(r, &e);
		return;
	}
	n = sandbox_metrics_look(s, true, samples);
	sandbox_size(&session_row(s)->limits, &size);
	json_init_heap(&j, METRICS_JSON_MAX);
	json_open(&j, NULL, '[');
	for (size_t i = 1; i < n; i++) {
		uint64_t at = samples[i].time_ms / 1000;

		if (at >= start && at <= end)
			write_one(&j, NULL, &size, &samples[i - 1], &samples[i]);
	}
	json_close(&j, ']');
	reply_json(r, 200, &j);
}

/* Leave out sandboxes without one. Reading the kernel's numbers of a hundred is too much for one
 * answer, so the last sample is enough. */
static void write_latest(struct request *r, struct json *j, const char *id)
{
	struct session_sample samples[SESSION_SAMPLES + 2];
	struct sandbox_size size;
	struct session *s = session_find(r->core, id);
	size_t n;

	if (s == NULL || session_tenant(s) != r->tenant || !sandbox_exists(session_row(s)))
		return;
	n = sandbox_metrics_look(s, false, samples);
	sandbox_size(&session_row(s)->limits, &size);
	write_one(j, id, &size, &samples[n - 2], &samples[n - 1]);
}

/* Once each: they are names of members. */
static bool is_among(char ids[][STORE_ID_MAX], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(ids[i], ids[n]) == 0)
			return true;
	return false;
}

void sandbox_metrics_many(struct request *r)
{
	char text[MANY_MAX * (REQUEST_ID_MAX + 1)], ids[MANY_MAX][STORE_ID_MAX];
	struct err e = { 0 };
	struct json j;
	size_t n = 0;

	if (request_text(r, "sandbox_ids", text, sizeof(text), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	for (const char *at = text; *at != '\0';) {
		size_t len = strcspn(at, ",");

		if (n == MANY_MAX) {
			reply_code(r, 400, "invalid", "parameter sandbox_ids: at most 100");
			return;
		}
		if (!destination_id((struct http1_span){ at, len }, ids[n])) {
			reply_code(r, 400, "invalid", "Invalid sandbox ID");
			return;
		}
		n += !is_among(ids, n);
		at += len + (at[len] == ',');
	}
	json_init_heap(&j, METRICS_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "sandboxes", '{');
	for (size_t i = 0; i < n; i++)
		write_latest(r, &j, ids[i]);
	json_close(&j, '}');
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* Answer in envd's form. */
void sandbox_metrics_envd(struct request *r)
{
	struct session_sample samples[SESSION_SAMPLES + 2];
	struct session *s = session_find(r->core, r->session_id);
	size_t n = sandbox_metrics_look(s, true, samples);
	const struct session_sample *now = &samples[n - 1];
	struct sandbox_size size;
	char percent[32];
	struct json j;

	sandbox_size(&session_row(s)->limits, &size);
	(void)snprintf(percent, sizeof(percent), "%.2f",
		       cpu_percent(&samples[n - 2], now, size.cpus));
	json_init_heap(&j, METRICS_JSON_MAX);
	json_open(&j, NULL, '{');
	json_uint(&j, "ts", now->time_ms / 1000);
	json_uint(&j, "cpu_count", size.cpus);
	json_raw(&j, "cpu_used_pct", percent);
	json_uint(&j, "mem_total", size.memory_bytes);
	json_uint(&j, "mem_used", now->memory_bytes);
	json_uint(&j, "mem_cache", 0);
	json_uint(&j, "mem_total_mib", size.memory_bytes >> 20);
	json_uint(&j, "mem_used_mib", now->memory_bytes >> 20);
	json_uint(&j, "disk_used", now->disk_bytes);
	json_uint(&j, "disk_total", size.disk_bytes);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
