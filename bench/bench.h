/*
 * bench.h - what the parts of bench share: the plan, the options, and one run of one command.
 *
 * bench.c reads the command line; bench_plan.c reads the plan; bench_run.c runs a command once;
 * bench_time.c and bench_rate.c measure.
 */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
	ROWS_MAX = 64,
	WORDS_MAX = 128,
	BASES_MAX = 3,
	WORKERS_MAX = 64,
	COUNTS_MAX = 8,
	ROUNDS_MAX = 1000000,
	LINE_MAX_BYTES = 8192,
	REASON_MAX = 48,
	GIVE_UP_TIMEOUTS = 3, /* a row that hangs is dropped, or one run would take hours */
	ID_DIGITS = 20,
	QUIET_MS = 60,		 /* over this long ... */
	QUIET_BUSY_PERCENT = 10, /* ... at most this much of the machine may be at work */
	QUIET_TRIES = 20,
	RATE_SETTLE_MS = 300, /* dying network namespaces of one slice must not burden the next */
};

#define NS_PER_SEC INT64_C(1000000000)

struct row {
	char *name;
	char *words[WORDS_MAX + 1];	 /* as in the plan */
	char *args[WORDS_MAX + 1];	 /* as executed: "%d" filled in */
	size_t arg_sizes[WORDS_MAX + 1]; /* 0: args[i] is words[i] */
	size_t nwords;
	uint32_t every;
	int64_t user;	  /* -1: the one that runs this */
	int mntns;	  /* -1: where we are */
	int64_t *samples; /* ns, sorted once the run is over */
	size_t n;
	uint32_t failed;
	uint32_t timeouts;
	char reason[REASON_MAX]; /* of the first failure */
};

struct options {
	uint32_t rounds;
	uint32_t warmup;
	uint32_t gap_ms;
	uint32_t timeout_s;
	uint32_t slice_s;
	uint32_t slices;
	bool quiet;
	const char *bases[BASES_MAX];
	size_t nbases;
	uint32_t workers[COUNTS_MAX];
	size_t nworkers;
	FILE *tsv;
	FILE *raw;
};

struct plan {
	struct row rows[ROWS_MAX];
	size_t nrows;
};

/* How one run of one command ended. */
struct run_result {
	int64_t ns;
	int status;
	bool timed_out;
};

/* bench_plan.c */
_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
void *zalloc(size_t count, size_t size);
char *copy_string(const char *s);
uint32_t parse_number(const char *what, const char *text, uint32_t max);
void read_plan(struct plan *plan, const char *path);
const struct row *find_row(const struct plan *plan, const char *name);
int name_width(const struct plan *plan);

/* bench_run.c */
void run_prepare(void);
int64_t now_ns(void);
void sleep_ms(uint32_t ms);
void fill_id(struct row *row, uint64_t id);
struct run_result run_once(const struct row *row, uint32_t timeout_s, bool keep_stderr);
bool outcome_good(const struct run_result *out);
void outcome_reason(const struct run_result *out, char *text, size_t size);

/* Each prints its table, and returns 1 if a run failed. */
int run_time(struct plan *plan, const struct options *opt);
int run_rate(struct plan *plan, const struct options *opt);
