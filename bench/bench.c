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
 * fixed seed. A mere rotation would keep each one behind the same neighbour, and neighbours
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
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Does every contestant work at all? */
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
	const char *mode = argc > 1 ? argv[1] : "";
	int which;

	if (!strcmp(mode, "--help"))
		usage(0);
	optind = 2;
	while ((which = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set_option(&opt, which);
	if (optind != argc - 1 || !opt.rounds || !opt.timeout_s || !opt.slice_s || !opt.slices)
		usage(2);

	run_prepare();
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
