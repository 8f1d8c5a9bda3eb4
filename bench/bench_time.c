/* bench_time.c - interleaved latency: each round runs every contestant once, in another order. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void shuffle(size_t *order, size_t n, uint64_t *state)
{
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)(random_next(state) % i);
		size_t swap = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swap;
	}
}

static bool read_cpu(uint64_t *busy, uint64_t *total)
{
	uint64_t v[8] = { 0 };
	FILE *in = fopen("/proc/stat", "re");
	int got;

	if (!in)
		return false;
	got = fscanf(in,
		     "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		     " %" SCNu64 " %" SCNu64,
		     &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
	fclose(in);
	if (got < 4)
		return false;
	*busy = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
	*total = *busy + v[3] + v[4];
	return true;
}

/* Sleep until the rest of the machine is idle. False: it never was. */
static bool wait_for_quiet(void)
{
	for (int i = 0; i < QUIET_TRIES; i++) {
		uint64_t busy[2], total[2];

		if (!read_cpu(&busy[0], &total[0]))
			return true;
		sleep_ms(QUIET_MS);
		if (!read_cpu(&busy[1], &total[1]))
			return true;
		if ((busy[1] - busy[0]) * 100 <= (total[1] - total[0]) * QUIET_BUSY_PERCENT)
			return true;
	}
	return false;
}

static void record(struct row *row, const struct run_result *out, bool warm)
{
	if (outcome_good(out)) {
		if (warm)
			row->samples[row->n++] = out->ns;
		return;
	}
	if (!row->failed++)
		outcome_reason(out, row->reason, sizeof(row->reason));
	if (out->timed_out)
		row->timeouts++;
}

static bool takes_part(const struct row *row, uint32_t round, uint32_t warmup)
{
	if (row->timeouts >= GIVE_UP_TIMEOUTS)
		return false;
	if (round < warmup)
		return round == 0 || row->every == 1;
	return (round - warmup) % row->every == 0;
}

static void run_round(struct plan *plan, const struct options *opt, uint32_t round,
		      const size_t *order)
{
	static uint64_t id;

	for (size_t i = 0; i < plan->nrows; i++) {
		struct row *row = &plan->rows[order[i]];
		struct run_result out;

		if (!takes_part(row, round, opt->warmup))
			continue;
		fill_id(row, ++id);
		if (opt->gap_ms)
			sleep_ms(opt->gap_ms);
		out = run_once(row, opt->timeout_s, false);
		record(row, &out, round >= opt->warmup);
		if (opt->raw && round >= opt->warmup)
			fprintf(opt->raw, "%" PRIu32 "\t%zu\t%s\t%" PRId64 "\t%d\n",
				round - opt->warmup, i, row->name, out.ns, outcome_good(&out));
	}
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The smallest sample that at least p percent of all samples do not exceed. */
static int64_t percentile(const struct row *row, size_t p)
{
	return row->samples[(row->n * p + 99) / 100 - 1];
}

static double median(const struct row *row)
{
	size_t mid = row->n / 2;

	if (row->n % 2)
		return (double)row->samples[mid];
	return (double)(row->samples[mid - 1] + row->samples[mid]) / 2;
}

static double mean(const struct row *row)
{
	double sum = 0;

	for (size_t i = 0; i < row->n; i++)
		sum += (double)row->samples[i];
	return sum / (double)row->n;
}

/*
 * Half the width of the 95 % confidence interval of the median, in percent of the median: by order
 * statistics, as nothing may be assumed about the shape of these distributions (they have two
 * humps).
 */
static double median_noise(const struct row *row)
{
	size_t half = row->n / 2;
	size_t spread = 0;
	size_t low, high;

	while (spread * spread * 100 < row->n * 96) /* up to 0.98 times the square root of n */
		spread++;
	low = half > spread ? half - spread : 0;
	high = half + spread < row->n ? half + spread : row->n - 1;
	return (double)(row->samples[high] - row->samples[low]) / 2 / median(row) * 100;
}

static void print_ratio(const struct row *row, const struct row *base, const char *base_name)
{
	int width = (int)strlen(base_name) + 2;

	if (!base || row->failed || base->failed || !row->n || !base->n)
		printf("  %*s", width, "-");
	else
		printf("  %*.2f", width, median(row) / median(base));
}

static void print_row(const struct plan *plan, const struct options *opt, const struct row *row,
		      int width)
{
	printf("%-*s %6zu", width, row->name, row->n);
	if (row->n)
		printf(" %9.0f %9.0f %4.0f%% %9.0f %9.0f", (double)row->samples[0] / 1e3,
		       median(row) / 1e3, median_noise(row), mean(row) / 1e3,
		       (double)percentile(row, 99) / 1e3);
	else
		printf(" %9s %9s %5s %9s %9s", "-", "-", "-", "-", "-");
	printf(" %6" PRIu32, row->failed);
	for (size_t i = 0; i < opt->nbases; i++)
		print_ratio(row, find_row(plan, opt->bases[i]), opt->bases[i]);
	if (row->failed)
		printf("  FAILED: %s%s", row->reason,
		       row->timeouts >= GIVE_UP_TIMEOUTS ? ", given up" : "");
	putchar('\n');
}

static void tsv_row(FILE *tsv, const struct row *row)
{
	bool any = row->n > 0;

	fprintf(tsv, "%s\t%zu\t%" PRIu32 "\t%" PRId64 "\t%.0f\t%.0f\t%" PRId64 "\n", row->name,
		row->n, row->failed, any ? row->samples[0] : 0, any ? median(row) : 0.0,
		any ? mean(row) : 0.0, any ? percentile(row, 99) : 0);
}

static int report_time(const struct plan *plan, const struct options *opt, uint32_t noisy)
{
	int width = name_width(plan);
	int bad = 0;

	printf("%-*s %6s %9s %9s %5s %9s %9s %6s", width, "us", "n", "min", "median", "+-", "mean",
	       "p99", "failed");
	for (size_t i = 0; i < opt->nbases; i++)
		printf("  x %s", opt->bases[i]);
	putchar('\n');
	for (size_t i = 0; i < plan->nrows; i++) {
		print_row(plan, opt, &plan->rows[i], width);
		if (opt->tsv)
			tsv_row(opt->tsv, &plan->rows[i]);
		bad |= plan->rows[i].failed > 0;
	}
	if (opt->quiet)
		printf("rounds begun while other work kept the machine busy: %" PRIu32
		       " of %" PRIu32 "\n",
		       noisy, opt->rounds);
	return bad;
}

int run_time(struct plan *plan, const struct options *opt)
{
	uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
	size_t order[ROWS_MAX];
	uint32_t noisy = 0;

	for (size_t i = 0; i < plan->nrows; i++) {
		order[i] = i;
		plan->rows[i].samples = zalloc(opt->rounds, sizeof(int64_t));
	}
	for (uint32_t round = 0; round < opt->warmup + opt->rounds; round++) {
		shuffle(order, plan->nrows, &seed);
		if (opt->quiet && !wait_for_quiet() && round >= opt->warmup)
			noisy++;
		run_round(plan, opt, round, order);
	}
	for (size_t i = 0; i < plan->nrows; i++)
		qsort(plan->rows[i].samples, plan->rows[i].n, sizeof(int64_t), compare_ns);
	return report_time(plan, opt, noisy);
}
