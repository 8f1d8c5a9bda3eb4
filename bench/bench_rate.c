/* bench_rate.c - how many complete runs per second, by workers side by side. */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What one worker of a throughput slice reports, in memory shared with the parent. */
struct worker {
	uint64_t cycles;
	int64_t ns;
	uint32_t failed;
	char reason[REASON_MAX];
};

static void work(struct row *row, struct worker *self, uint64_t id, const struct options *opt)
{
	int64_t start = now_ns();
	int64_t end = start + (int64_t)opt->slice_s * NS_PER_SEC;

	while (now_ns() < end) {
		struct run_result out;

		fill_id(row, id++);
		out = run_once(row, opt->timeout_s, false);
		if (outcome_good(&out))
			self->cycles++;
		else if (!self->failed++)
			outcome_reason(&out, self->reason, sizeof(self->reason));
	}
	self->ns = now_ns() - start;
}

/* One slice: count workers side by side. Adds to the rate and to the row's failures. */
static double run_slice(struct row *row, uint32_t count, struct worker *shared,
			const struct options *opt)
{
	static uint64_t next_id;
	double rate = 0;

	memset(shared, 0, sizeof(*shared) * WORKERS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = next_id;
		pid_t pid;

		next_id += 1000000;
		pid = fork();
		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid == 0) {
			work(row, &shared[i], id, opt);
			_exit(0);
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		int status = 0;

		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			die("%s: a worker failed", row->name);
	}
	for (uint32_t i = 0; i < count; i++) {
		/* Each by its own time: the last run of a worker may end well after the slice. */
		rate += (double)shared[i].cycles * 1e9 / (double)shared[i].ns;
		if (shared[i].failed && !row->failed)
			memcpy(row->reason, shared[i].reason, sizeof(row->reason));
		row->failed += shared[i].failed;
	}
	return rate;
}

static int report_rate(const struct plan *plan, const struct options *opt,
		       double rates[ROWS_MAX][COUNTS_MAX])
{
	int width = name_width(plan);
	int bad = 0;

	printf("%-*s", width, "cycles per second");
	for (size_t w = 0; w < opt->nworkers; w++)
		printf(" %4" PRIu32 " worker%s", opt->workers[w], opt->workers[w] == 1 ? " " : "s");
	printf("  failed\n");
	for (size_t i = 0; i < plan->nrows; i++) {
		const struct row *row = &plan->rows[i];

		printf("%-*s", width, row->name);
		for (size_t w = 0; w < opt->nworkers; w++)
			printf(" %12.1f", rates[i][w] / opt->slices);
		printf("  %6" PRIu32 "%s%s\n", row->failed, row->failed ? "  FAILED: " : "",
		       row->reason);
		for (size_t w = 0; opt->tsv && w < opt->nworkers; w++)
			fprintf(opt->tsv, "%s\t%" PRIu32 "\t%" PRIu32 "\t%.2f\n", row->name,
				opt->workers[w], row->failed, rates[i][w] / opt->slices);
		bad |= row->failed > 0;
	}
	return bad;
}

int run_rate(struct plan *plan, const struct options *opt)
{
	double rates[ROWS_MAX][COUNTS_MAX] = { 0 };
	struct worker *shared = mmap(NULL, sizeof(*shared) * WORKERS_MAX, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	/* Slices of all contestants take turns: a noisy minute does not fall on one alone. */
	for (uint32_t slice = 0; slice < opt->slices; slice++) {
		for (size_t i = 0; i < plan->nrows; i++) {
			for (size_t w = 0; w < opt->nworkers; w++) {
				rates[i][w] +=
					run_slice(&plan->rows[i], opt->workers[w], shared, opt);
				sleep_ms(RATE_SETTLE_MS);
			}
		}
	}
	return report_rate(plan, opt, rates);
}
