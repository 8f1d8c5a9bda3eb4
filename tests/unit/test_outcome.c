/* Goal: however a run ended, exit code, limit and JSON agree on it and are as documented. */
#include "cmd/run/run_result.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "json_check.h"
#include "support.h"

static char json[16384];
static size_t json_len;

/* Writes the outcome through a pipe into json. */
static void write_json(const struct run_result *o)
{
	struct err e = { 0 };
	int ends[2];
	ssize_t n;

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK(run_result_write(o, ends[1], &e) == 0);
	(void)close(ends[1]);
	for (json_len = 0; (n = read(ends[0], json + json_len, sizeof(json) - 1 - json_len)) > 0;)
		json_len += (size_t)n;
	(void)close(ends[0]);
	json[json_len] = '\0';
	CHECK(json_check_valid(json, json_len));
	CHECK(json_len > 2 && json[json_len - 1] == '\n' &&
	      strchr(json, '\n') == json + json_len - 1);
	for (size_t i = 0; i + 1 < json_len; i++)
		CHECK((unsigned char)json[i] >= 0x20 && json[i] != 0x7f);
}

static void check_field(const char *path, const char *want)
{
	char got[2048];

	CHECK_CASE(path, json_check_get(json, json_len, path, got, sizeof(got)));
	if (strcmp(got, want) != 0)
		printf("# field %s\n", path);
	CHECK_STR(got, want);
}

static struct run_result ended(uint32_t exit_code, uint32_t sig)
{
	return (struct run_result){ .id = "0123456789abcdef",
				    .started_at = "2026-01-02T03:04:05.678Z",
				    .wall_ms = 1234,
				    .ended = true,
				    .event = { .exit_code = exit_code, .signal = sig },
				    .cell_made = true };
}

static const struct {
	const char *name;
	struct run_result o;
	int want;
	const char *state;
} ends[] = {
	{ "success", { .ended = true }, 0, "\"exited\"" },
	{ "failure", { .ended = true, .event = { .exit_code = 7 } }, 7, "\"exited\"" },
	{ "largest code", { .ended = true, .event = { .exit_code = 255 } }, 255, "\"exited\"" },
	{ "a code that looks like ours",
	  { .ended = true, .event = { .exit_code = 125 } },
	  125,
	  "\"exited\"" },
	{ "SIGHUP", { .ended = true, .event = { .signal = 1 } }, 129, "\"killed\"" },
	{ "SIGKILL", { .ended = true, .event = { .signal = 9 } }, 137, "\"killed\"" },
	{ "SIGTERM", { .ended = true, .event = { .signal = 15 } }, 143, "\"killed\"" },
	{ "last signal", { .ended = true, .event = { .signal = 64 } }, 192, "\"killed\"" },
	{ "timeout, PID 1's work",
	  { .ended = true, .timed_out = true, .event = { .signal = 9, .timed_out = 1 } },
	  124,
	  "\"killed\"" },
	{ "timeout, ours", { .timed_out = true }, 124, "\"killed\"" },
	{ "timeout after an error",
	  { .timed_out = true, .err = { .code = ERR_SYSTEM } },
	  124,
	  "\"killed\"" },
	{ "timeout and out of memory",
	  { .timed_out = true, .usage = { .oom_kills = 1 } },
	  124,
	  "\"killed\"" },
	{ "out of memory",
	  { .ended = true, .event = { .signal = 9 }, .usage = { .oom_kills = 1 } },
	  137,
	  "\"killed\"" },
	{ "a child out of memory",
	  { .ended = true, .event = { .exit_code = 1 }, .usage = { .oom_kills = 1 } },
	  1,
	  "\"exited\"" },
	{ "PID 1 out of memory",
	  { .usage = { .oom_kills = 1 }, .err = { .code = ERR_SYSTEM } },
	  137,
	  "\"failed\"" },
	{ "not found",
	  { .start_failed = 127, .err = { .code = ERR_NOT_FOUND } },
	  127,
	  "\"failed\"" },
	{ "not executable",
	  { .start_failed = 126, .err = { .code = ERR_SYSTEM } },
	  126,
	  "\"failed\"" },
	{ "no such directory",
	  { .start_failed = 125, .err = { .code = ERR_SYSTEM } },
	  125,
	  "\"failed\"" },
	{ "not found, no memory left",
	  { .start_failed = 127, .usage = { .oom_kills = 1 }, .err = { .code = ERR_NOT_FOUND } },
	  127,
	  "\"failed\"" },
	{ "our own error", { .err = { .code = ERR_SYSTEM } }, 125, "\"failed\"" },
	{ "no end seen", { .ended = false }, 125, "\"failed\"" },
	{ "our own error afterwards",
	  { .ended = true, .err = { .code = ERR_SYSTEM } },
	  125,
	  "\"exited\"" },
};

static void exits_as_documented(void)
{
	for (size_t i = 0; i < COUNT(ends); i++) {
		char want[16];

		CHECK_CASE(ends[i].name, run_result_exit_code(&ends[i].o) == ends[i].want);
		write_json(&ends[i].o);
		(void)snprintf(want, sizeof(want), "%d", ends[i].want);
		check_field("exit_code", want);
		check_field("state", ends[i].state);
	}
}

static const char *const limits[] = {
	"timeout", "memory", "output", "pids", "disk", "inodes", "cpu"
};

/* The line for the user; "": none. */
static void say_limits(const struct run_result *o, char *ret, size_t cap)
{
	FILE *to = fmemopen(ret, cap, "w");

	CHECK(to != NULL);
	ret[0] = '\0';
	run_result_say_limits(o, to);
	(void)fclose(to);
}

/* Of every set of limits that were hit, all are told, first the one that ended the command. */
static void tells_the_limits_that_it_hit(void)
{
	for (unsigned set = 0; set < 1U << COUNT(limits); set++) {
		struct run_result o = ended(0, 0);
		const char *want = NULL;
		char quoted[32], list[128] = "[", text[256], line[256];

		o.timed_out = (set & 1) != 0;
		o.usage.oom_kills = (set & 2) != 0;
		o.output_truncated = (set & 4) != 0;
		o.usage.pids_refused = (set & 8) != 0;
		o.disk.bytes_full = (set & 16) != 0;
		o.disk.inodes_full = (set & 32) != 0;
		o.event.signal = (set & 64) != 0 ? SIGXCPU : 0;
		(void)snprintf(line, sizeof(line), "%s", set == 0 ? "" : "cordon: limit reached: ");
		for (size_t i = 0; i < COUNT(limits); i++) {
			size_t at = strlen(list), end = strlen(line);

			if ((set >> i & 1) == 0)
				continue;
			(void)snprintf(list + at, sizeof(list) - at, "%s\"%s\"",
				       want == NULL ? "" : ",", limits[i]);
			(void)snprintf(line + end, sizeof(line) - end, "%s%s",
				       want == NULL ? "" : ", ", limits[i]);
			want = want == NULL ? limits[i] : want;
		}
		(void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "]");
		(void)snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s",
			       set == 0 ? ""
			       : run_result_exit_code(&o) == 0
				       ? ", although the command ended with 0\n"
				       : "\n");
		say_limits(&o, text, sizeof(text));
		CHECK_STR(text, line);
		write_json(&o);
		check_field("limits_hit", list);
		(void)snprintf(quoted, sizeof(quoted), "\"%s\"", want == NULL ? "" : want);
		check_field("limit", want == NULL ? "null" : quoted);
	}
}

/* The first one, or NULL. */
static const char *first_limit(const struct run_result *o)
{
	const char *names[RUN_RESULT_LIMITS];

	return run_result_limits(o, names) == 0 ? NULL : names[0];
}

static void hears_of_limits_from_both_sides(void)
{
	struct run_result o = ended(1, 0);

	o.event.disk_full = 1; /* PID 1 saw it, at the end there was room again */
	CHECK_STR(first_limit(&o), "disk");
	o.event.disk_full = 0;
	o.event.inodes_full = UINT64_MAX;
	CHECK_STR(first_limit(&o), "inodes");
	o = ended(0, SIGXCPU);
	CHECK_STR(first_limit(&o), "cpu");
	o.ended = false; /* then the event means nothing */
	CHECK(first_limit(&o) == NULL);
	o = ended(0, SIGKILL);
	CHECK(first_limit(&o) == NULL); /* killed, but by no limit of ours */
}

static void has_every_field(void)
{
	struct run_result o = ended(3, 0);

	o.usage = (struct usage){ .cpu_us = 5999, .memory_peak_bytes = 4096, .pids_peak = 2 };
	o.disk.bytes = 77;
	o.event.cpu_us = 1;
	o.event.maxrss_bytes = 1;
	o.output_bytes = UINT64_MAX;
	o.restrictions = (struct cell_restrictions){ .ids = 65536,
						     .cgroup_version = 2,
						     .limits = CELL_LIMIT_ALL,
						     .landlock_abi = 6,
						     .redirect = 1,
						     .idmapped = 1 };
	write_json(&o);
	check_field("id", "\"0123456789abcdef\"");
	check_field("state", "\"exited\"");
	check_field("exit_code", "3");
	check_field("signal", "null");
	check_field("limit", "null");
	check_field("error", "null");
	check_field("started_at", "\"2026-01-02T03:04:05.678Z\"");
	check_field("wall_ms", "1234");
	check_field("cpu_ms", "5");
	check_field("memory_peak_bytes", "4096");
	check_field("pids_peak", "2");
	check_field("disk_bytes", "77");
	check_field("output_bytes", "18446744073709551615");
	check_field("output_truncated", "false");
	check_field("level", "\"container\"");
	check_field("profile", "\"standard\"");
	check_field("restrictions.namespaces", "\"user mount pid net ipc uts cgroup time\"");
	check_field("restrictions.ids", "65536");
	check_field("restrictions.rootless", "false");
	check_field("restrictions.idmapped_layers", "true");
	check_field("restrictions.seccomp", "\"standard\"");
	check_field("restrictions.no_new_privs", "false");
	check_field("restrictions.capabilities", "\"cut\"");
	check_field("restrictions.landlock", "6");
	check_field("restrictions.egress_redirect", "true");
	check_field("restrictions.cgroup", "2");
	check_field("restrictions.memory_limit", "true");
	check_field("restrictions.cpu_limit", "true");
	check_field("restrictions.pids_limit", "true");
	check_field("restrictions.missing", "null");
}

static void tells_what_is_not_there(void)
{
	struct run_result o = ended(0, 15);

	o.profile = CELL_LOCKED;
	o.level = NULL;
	o.output_truncated = true;
	o.event.cpu_us = 2000;
	o.event.maxrss_bytes = 8192;
	o.restrictions = (struct cell_restrictions){ .rootless = 1,
						     .ids = 1,
						     .limits = CELL_LIMIT_PIDS,
						     .no_limits_why = "no cgroup \"here\"" };
	write_json(&o);
	check_field("signal", "15");
	check_field("cpu_ms", "2"); /* without a cgroup, what PID 1 measured */
	check_field("memory_peak_bytes", "8192");
	check_field("pids_peak", "null");
	check_field("output_truncated", "true");
	check_field("profile", "\"locked\"");
	check_field("restrictions.seccomp", "\"locked\"");
	check_field("restrictions.no_new_privs", "true");
	check_field("restrictions.capabilities", "\"none\"");
	check_field("restrictions.rootless", "true");
	check_field("restrictions.ids", "1");
	check_field("restrictions.landlock", "0");
	check_field("restrictions.egress_redirect", "false");
	check_field("restrictions.cgroup", "null");
	check_field("restrictions.memory_limit", "false");
	check_field("restrictions.cpu_limit", "false");
	check_field("restrictions.pids_limit", "true");
	check_field("restrictions.missing", "\"no cgroup \\\"here\\\"\"");
	o.cell_made = false;
	write_json(&o);
	check_field("restrictions", "{}");
	o.ended = false;
	write_json(&o);
	check_field("signal", "null");
}

static void tells_errors(void)
{
	struct run_result o = { .user_fault = true, .start_failed = 127 };

	(void)err_set(&o.err, ERR_NOT_FOUND, "nope: command not found");
	write_json(&o);
	check_field("error.code", "\"not_found\"");
	check_field("error.message", "\"nope: command not found\"");
	check_field("error.fault", "\"user\"");
	o.user_fault = false;
	(void)err_set(&o.err, ERR_UNSUPPORTED, "%s", "");
	write_json(&o);
	check_field("error.code", "\"unsupported\"");
	check_field("error.message", "\"\"");
	check_field("error.fault", "\"platform\"");
}

/* Messages quote names of the caller and of the cell. */
static void is_json_whatever_the_words(void)
{
	struct run_result o = ended(0, 0);

	for (int c = 1; c < 256; c++) {
		o.err.code = ERR_SYSTEM;
		memset(o.err.msg, c, sizeof(o.err.msg) - 1);
		memset(o.restrictions.no_limits_why, c,
		       sizeof(o.restrictions.no_limits_why)); /* without an end */
		memset(o.id, c, sizeof(o.id) - 1);
		memset(o.started_at, c, sizeof(o.started_at) - 1);
		write_json(&o);
	}
	memset(&o.err.code, 0x7f, sizeof(o.err.code));
	write_json(&o);
	check_field("error.code", "\"unknown\"");
}

static void the_largest_values_fit(void)
{
	struct run_result o;

	memset(&o, 0xff, sizeof(o));
	o.ended = o.timed_out = o.output_truncated = o.user_fault = o.cell_made = true;
	o.start_failed = 0;
	o.event.exit_code = o.event.signal = 0;
	o.profile = CELL_LOCKED;
	o.level = NULL;
	o.id[CELL_ID_MAX - 1] = o.started_at[31] = o.err.msg[255] = '\0';
	write_json(&o);
	check_field("wall_ms", "18446744073709551615");
}

static void says_when_it_cannot_write(void)
{
	struct run_result o = ended(0, 0);
	struct err e = { 0 };
	OWN_FD full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK(full >= 0);
	CHECK(run_result_write(&o, full, &e) == -1);
	CHECK(e.code == ERR_SYSTEM && e.sys == ENOSPC);
}

TEST_MAIN({ "exits as documented", exits_as_documented },
	  { "tells the limits that it hit", tells_the_limits_that_it_hit },
	  { "hears of limits from both sides", hears_of_limits_from_both_sides },
	  { "has every field", has_every_field },
	  { "tells what is not there", tells_what_is_not_there }, { "tells errors", tells_errors },
	  { "is JSON whatever the words", is_json_whatever_the_words },
	  { "the largest values fit", the_largest_values_fit },
	  { "says when it cannot write", says_when_it_cannot_write })
