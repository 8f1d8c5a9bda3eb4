/*
 * bench: run command lines side by side and say how long each takes.
 *
 * Theory of operation
 *
 * The input is a plan, one contestant a line:
 *
 *	name | options | /absolute/command arg arg ...
 *
 * Words are split at blanks, there is no quoting, and "%d" in a word becomes a number that is never
 * used twice, for runtimes that want a fresh id. Options are: every=N (take part in one round of N,
 * for the slow), user=ID (run as that uid and gid, without groups), mntns=FILE (run in that mount
 * namespace).
 *
 * A single figure from a shared machine says little, so contestants are compared only within one
 * run and interleaved: each round runs every contestant once, in an order shuffled anew from a
 * fixed seed. A mere rotation would keep everybody behind the same neighbour, and neighbours
 * matter: a namespace just left is torn down by a kernel thread in the next one's time, and a
 * process attached to a cgroup makes the next attach cheap.
 *
 * What is timed is what a caller waits for: from before vfork() until wait4() has returned. vfork()
 * because its cost does not depend on the size of this program. Changing user or namespace is done
 * here, in the child, as another program in front (setpriv, nsenter) would cost as much as the
 * thing measured.
 *
 * A command that does not exit with 0 is not a sample. It is counted, its row is marked FAILED and
 * gets no ratio.
 *
 * Nothing but libc and /dev/null is needed: the binary works in a guest that has only busybox.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
	int64_t user;	  /* -1: whoever we are */
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

/* What one worker of a throughput slice reports, in memory shared with the parent. */
struct worker {
	uint64_t cycles;
	int64_t ns;
	uint32_t failed;
	char reason[REASON_MAX];
};

static int null_fd = -1;
static volatile sig_atomic_t alarm_fired;

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list ap;

	fputs("bench: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static void *zalloc(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die("out of memory");
	return p;
}

static char *copy_string(const char *s)
{
	char *p = strdup(s);

	if (!p)
		die("out of memory");
	return p;
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_SEC + ts.tv_nsec;
}

static void sleep_ms(uint32_t ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static uint32_t parse_number(const char *what, const char *text, uint32_t max)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value > max)
		die("%s: \"%s\" is not a number from 0 to %" PRIu32, what, text, max);
	return (uint32_t)value;
}

/* --- the plan --- */

static char *trim(char *s)
{
	size_t len;

	s += strspn(s, " \t\r\n");
	len = strlen(s);
	while (len && strchr(" \t\r\n", s[len - 1]))
		s[--len] = '\0';
	return s;
}

/* The next blank-separated word at *cursor, or NULL. Writes a terminator behind it. */
static char *next_word(char **cursor)
{
	char *word = *cursor + strspn(*cursor, " \t");
	size_t len = strcspn(word, " \t");

	if (!len)
		return NULL;
	*cursor = word + len;
	if (**cursor)
		*(*cursor)++ = '\0';
	return word;
}

static void parse_option(struct row *row, const char *word)
{
	if (!strncmp(word, "every=", 6)) {
		row->every = parse_number("every", word + 6, ROUNDS_MAX);
		if (!row->every)
			die("%s: every=0 would never run", row->name);
	} else if (!strncmp(word, "user=", 5)) {
		row->user = parse_number("user", word + 5, INT32_MAX);
	} else if (!strncmp(word, "mntns=", 6)) {
		row->mntns = open(word + 6, O_RDONLY | O_CLOEXEC);
		if (row->mntns < 0)
			die("%s: %s: %s", row->name, word + 6, strerror(errno));
	} else {
		die("%s: unknown option \"%s\"", row->name, word);
	}
}

static void add_word(struct row *row, const char *word)
{
	size_t i = row->nwords;

	if (i == WORDS_MAX)
		die("%s: more than %d words", row->name, WORDS_MAX);
	row->words[i] = copy_string(word);
	row->args[i] = row->words[i];
	if (strstr(word, "%d")) {
		row->arg_sizes[i] = strlen(word) + ID_DIGITS;
		row->args[i] = zalloc(row->arg_sizes[i], 1);
	}
	row->nwords++;
}

static void parse_line(struct plan *plan, char *line, unsigned lineno)
{
	char *options = strchr(line, '|');
	char *command = options ? strchr(options + 1, '|') : NULL;
	struct row *row = &plan->rows[plan->nrows];
	char *word;

	if (!options || !command)
		die("line %u: want \"name | options | command\"", lineno);
	if (plan->nrows == ROWS_MAX)
		die("line %u: more than %d contestants", lineno, ROWS_MAX);
	*options++ = '\0';
	*command++ = '\0';

	*row = (struct row){ .name = copy_string(trim(line)), .every = 1, .user = -1, .mntns = -1 };
	options = trim(options);
	while ((word = next_word(&options)))
		parse_option(row, word);
	command = trim(command);
	while ((word = next_word(&command)))
		add_word(row, word);
	/* No search in PATH: it would be timed, and differently for everyone. */
	if (!row->nwords || row->words[0][0] != '/')
		die("line %u: the command must be an absolute path", lineno);
	plan->nrows++;
}

static void read_plan(struct plan *plan, const char *path)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char line[LINE_MAX_BYTES];
	unsigned lineno = 0;

	if (!in)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), in)) {
		char *text;

		lineno++;
		if (strlen(line) == sizeof(line) - 1)
			die("line %u: too long", lineno);
		text = trim(line);
		if (*text && *text != '#')
			parse_line(plan, text, lineno);
	}
	if (ferror(in))
		die("%s: read error", path);
	fclose(in);
	if (!plan->nrows)
		die("%s: no contestants", path);
}

/* --- one run of one command --- */

static void fill_id(struct row *row, uint64_t id)
{
	for (size_t i = 0; i < row->nwords; i++) {
		const char *word = row->words[i];
		const char *mark;

		if (!row->arg_sizes[i])
			continue;
		mark = strstr(word, "%d");
		snprintf(row->args[i], row->arg_sizes[i], "%.*s%" PRIu64 "%s", (int)(mark - word),
			 word, id, mark + 2);
	}
}

/*
 * In the vfork() child: the memory is the parent's, so nothing is written but our own frame. The
 * ids are set by bare system calls because libc's own functions would carry them to "all threads"
 * of the parent.
 */
static _Noreturn void child_exec(const struct row *row, bool keep_stderr)
{
	setpgid(0, 0);
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	if (!keep_stderr)
		dup2(null_fd, STDERR_FILENO);
	if (row->mntns >= 0 && setns(row->mntns, CLONE_NEWNS) < 0)
		_exit(126);
	if (row->user >= 0) {
		long id = (long)row->user;

		if (syscall(SYS_setgroups, 0L, NULL) < 0 ||
		    syscall(SYS_setresgid, id, id, id) < 0 ||
		    syscall(SYS_setresuid, id, id, id) < 0)
			_exit(126);
	}
	execve(row->args[0], row->args, environ);
	_exit(127);
}

static void on_alarm(int signo)
{
	(void)signo;
	alarm_fired = 1;
}

/*
 * The timer repeats: a first tick that falls between vfork() and wait4() interrupts nothing, the
 * next one will.
 */
static void set_timer(uint32_t seconds)
{
	struct itimerval timer = {
		.it_value.tv_sec = (time_t)seconds,
		.it_interval.tv_usec = seconds ? 100000 : 0,
	};

	setitimer(ITIMER_REAL, &timer, NULL);
}

static struct run_result run_once(const struct row *row, uint32_t timeout_s, bool keep_stderr)
{
	struct run_result out = { 0 };
	int64_t start;
	pid_t pid;

	alarm_fired = 0;
	set_timer(timeout_s);
	start = now_ns();
	pid = vfork();
	if (pid == 0)
		child_exec(row, keep_stderr);
	if (pid < 0)
		die("vfork: %s", strerror(errno));
	while (wait4(pid, &out.status, 0, NULL) < 0) {
		if (errno != EINTR)
			die("wait4: %s", strerror(errno));
		if (!alarm_fired)
			continue;
		out.timed_out = true;
		kill(-pid, SIGKILL);
	}
	out.ns = now_ns() - start;
	set_timer(0);
	return out;
}

static bool outcome_good(const struct run_result *out)
{
	return !out->timed_out && WIFEXITED(out->status) && WEXITSTATUS(out->status) == 0;
}

static void outcome_reason(const struct run_result *out, char *text, size_t size)
{
	if (out->timed_out)
		snprintf(text, size, "timed out");
	else if (WIFSIGNALED(out->status))
		snprintf(text, size, "signal %d", WTERMSIG(out->status));
	else
		snprintf(text, size, "exit %d", WEXITSTATUS(out->status));
}

/* --- check: does every contestant work at all? --- */

static int run_check(struct plan *plan, const struct options *opt)
{
	int bad = 0;

	for (size_t i = 0; i < plan->nrows; i++) {
		struct row *row = &plan->rows[i];
		char reason[REASON_MAX] = "ok";
		struct run_result out;

		fill_id(row, i);
		out = run_once(row, opt->timeout_s, true);
		if (!outcome_good(&out)) {
			outcome_reason(&out, reason, sizeof(reason));
			bad = 1;
		}
		printf("%s\t%s\n", row->name, reason);
		fflush(stdout); /* or it would come after what later rows say on stderr */
	}
	return bad;
}

/* --- time: interleaved latency --- */

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

static const struct row *find_row(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->nrows; i++)
		if (!strcmp(plan->rows[i].name, name))
			return &plan->rows[i];
	return NULL;
}

static int name_width(const struct plan *plan)
{
	size_t width = strlen("cycles per second");

	for (size_t i = 0; i < plan->nrows; i++)
		if (strlen(plan->rows[i].name) > width)
			width = strlen(plan->rows[i].name);
	return (int)width;
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

static int run_time(struct plan *plan, const struct options *opt)
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

/* --- rate: how many complete runs per second --- */

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

static int run_rate(struct plan *plan, const struct options *opt)
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

/* --- command line --- */

static _Noreturn void usage(int code)
{
	fputs("usage: bench time|rate|check [options] PLAN\n"
	      "PLAN   a file (- for stdin) with lines of: name | options | /command args\n"
	      "       options: every=N user=ID mntns=FILE; %d in a word becomes a fresh number\n"
	      "time   interleaved latency: --rounds N --warmup N --base NAME (up to 3) --gap MS\n"
	      "       --quiet (wait for an idle machine before each round) --raw FILE\n"
	      "rate   runs per second: --workers 1,2 --seconds N (per slice) --slices N\n"
	      "check  run each once, with its stderr shown\n"
	      "all    --timeout SECONDS --tsv FILE\n"
	      "exit code: 0, 1 if any run failed, 2 for an error of bench itself\n",
	      code ? stderr : stdout);
	exit(code);
}

static FILE *open_output(const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		die("%s: %s", path, strerror(errno));
	return out;
}

static void parse_workers(struct options *opt, const char *list)
{
	char *text = copy_string(list);
	char *part = text;

	opt->nworkers = 0;
	while (part) {
		char *comma = strchr(part, ',');
		uint32_t count;

		if (comma)
			*comma++ = '\0';
		count = parse_number("workers", part, WORKERS_MAX);
		if (!count || opt->nworkers == COUNTS_MAX)
			die("workers: want up to %d counts from 1 to %d", COUNTS_MAX, WORKERS_MAX);
		opt->workers[opt->nworkers++] = count;
		part = comma;
	}
	free(text);
}

enum {
	OPT_ROUNDS = 1,
	OPT_WARMUP,
	OPT_BASE,
	OPT_GAP,
	OPT_QUIET,
	OPT_RAW,
	OPT_WORKERS,
	OPT_SECONDS,
	OPT_SLICES,
	OPT_TIMEOUT,
	OPT_TSV,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "rounds", required_argument, NULL, OPT_ROUNDS },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "base", required_argument, NULL, OPT_BASE },
	{ "gap", required_argument, NULL, OPT_GAP },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "raw", required_argument, NULL, OPT_RAW },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "slices", required_argument, NULL, OPT_SLICES },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "tsv", required_argument, NULL, OPT_TSV },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static void set_option(struct options *opt, int which)
{
	switch (which) {
	case OPT_ROUNDS:
		opt->rounds = parse_number("rounds", optarg, ROUNDS_MAX);
		break;
	case OPT_WARMUP:
		opt->warmup = parse_number("warmup", optarg, ROUNDS_MAX);
		break;
	case OPT_GAP:
		opt->gap_ms = parse_number("gap", optarg, 60000);
		break;
	case OPT_QUIET:
		opt->quiet = true;
		break;
	case OPT_RAW:
		opt->raw = open_output(optarg);
		break;
	case OPT_WORKERS:
		parse_workers(opt, optarg);
		break;
	case OPT_SECONDS:
		opt->slice_s = parse_number("seconds", optarg, 3600);
		break;
	case OPT_SLICES:
		opt->slices = parse_number("slices", optarg, 1000);
		break;
	case OPT_TIMEOUT:
		opt->timeout_s = parse_number("timeout", optarg, 3600);
		break;
	case OPT_TSV:
		opt->tsv = open_output(optarg);
		break;
	case OPT_BASE:
		if (opt->nbases == BASES_MAX)
			die("more than %d --base", BASES_MAX);
		opt->bases[opt->nbases++] = optarg;
		break;
	case OPT_HELP:
		usage(0);
	default:
		usage(2);
	}
}

int main(int argc, char **argv)
{
	static struct plan plan;
	struct options opt = {
		.rounds = 100,
		.warmup = 5,
		.timeout_s = 30,
		.slice_s = 1,
		.slices = 3,
		.workers = { 1, 2 },
		.nworkers = 2,
	};
	struct sigaction action = { .sa_handler = on_alarm };
	const char *mode = argc > 1 ? argv[1] : "";
	int which;

	if (!strcmp(mode, "--help"))
		usage(0);
	optind = 2;
	while ((which = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set_option(&opt, which);
	if (optind != argc - 1 || !opt.rounds || !opt.timeout_s || !opt.slice_s || !opt.slices)
		usage(2);

	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		die("/dev/null: %s", strerror(errno));
	sigaction(SIGALRM, &action, NULL);
	read_plan(&plan, argv[optind]);
	for (size_t i = 0; i < opt.nbases; i++)
		if (!find_row(&plan, opt.bases[i]))
			die("--base %s: no such contestant", opt.bases[i]);
	if (chdir("/") < 0)
		die("chdir: %s", strerror(errno));

	if (!strcmp(mode, "time"))
		return run_time(&plan, &opt);
	if (!strcmp(mode, "rate"))
		return run_rate(&plan, &opt);
	if (!strcmp(mode, "check"))
		return run_check(&plan, &opt);
	usage(2);
}
