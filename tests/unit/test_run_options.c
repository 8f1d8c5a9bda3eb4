/* Goal: `cordon run` does what its words say or says which of them is wrong. */
#include "cmd/run/run_options.h"

#include <sys/resource.h>

#include "cmd/run/run.h"
#include "support.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIB (1ULL << 40)

/* The table of verbs points to it. */
int run_main(int argc, char **argv)
{
	return 0;
}

static struct run_options o;
static struct err e;

static int parse_words(size_t n, const char *const *words)
{
	static char *argv[64];

	CHECK(n < COUNT(argv));
	argv[n] = NULL;
	memcpy(argv, words, n * sizeof(*words)); /* parsing changes none of them */
	memset(&e, 0, sizeof(e));
	memset(&o, 0xee, sizeof(o));
	return run_options_parse(&o, (int)n, argv, &e);
}

#define PARSE(...)                                                                 \
	parse_words(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), \
		    (const char *const[]){ __VA_ARGS__ })

static void has_defaults(void)
{
	struct rlimit files;

	CHECK(PARSE("true") == 0);
	CHECK_STR(o.template, "host");
	CHECK_STR(o.level, "container");
	CHECK_STR(o.hostname, "cordon");
	CHECK_STR(o.user, "");
	CHECK_STR(o.cwd, "");
	CHECK(o.profile == CELL_STANDARD && o.result == NULL);
	CHECK(o.memory == GIB && o.disk == GIB / 4 * 3 && o.cpus == 0 && o.pids == 1024 &&
	      o.inodes == 131072);
	CHECK(o.timeout_ms == 0 && o.output_limit == 0);
	CHECK(o.env.n == 0 && o.mounts.n == 0 && o.limits_asked == 0);
	CHECK(!o.tty && !o.read_only && !o.diff && !o.best_effort && !o.help);
	CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
	CHECK(o.nofile == (files.rlim_max < 16384 ? files.rlim_max : 16384));
}

static void takes_every_option(void)
{
	CHECK(PARSE("--template", "host", "--profile", "locked", "--level", "container", "--memory",
		    "512M", "--cpus", "1.5", "--pids", "64", "--disk", "64M", "--inodes", "1000",
		    "--nofile", "256", "--timeout", "30s", "--output-limit", "1M", "--user", "root",
		    "--cwd", "/tmp", "--env", "A=1", "--env", "B=", "--hostname", "box", "--mount",
		    "/src:/dst", "--tty", "--read-only", "--diff", "--result", "r.json",
		    "--best-effort", "--", "cmd", "--flag") == 0);
	CHECK_STR(o.template, "host");
	CHECK(o.profile == CELL_LOCKED);
	CHECK(o.memory == 512 * MIB && o.cpus == 1500 && o.pids == 64 && o.disk == 64 * MIB &&
	      o.inodes == 1000);
	CHECK(o.nofile == 256 && o.timeout_ms == 30000 && o.output_limit == MIB);
	CHECK_STR(o.user, "root");
	CHECK_STR(o.cwd, "/tmp");
	CHECK(o.env.n == 2);
	CHECK_STR(o.env.items[1], "B=");
	CHECK_STR(o.hostname, "box");
	CHECK(o.mounts.n == 1);
	CHECK(o.tty && o.read_only && o.diff && o.best_effort && !o.help);
	CHECK_STR(o.result, "r.json");
	CHECK_STR(o.command[0], "cmd");
	CHECK_STR(o.command[1], "--flag");
	CHECK(o.command[2] == NULL);
	CHECK(o.limits_asked == CELL_LIMIT_ALL);
}

/* The table must name every field once: a slip in it would set another. */
static void the_table_is_sound(void)
{
	CHECK(run_verb.noptions <= 64); /* the set of those given is a uint64_t */
	CHECK(run_verb.run == run_main);
	for (size_t i = 0; i < run_verb.noptions; i++) {
		const struct option *a = &run_verb.options[i];

		CHECK_CASE(a->name, (a->kind == OPTION_FLAG) == (a->argument == NULL));
		CHECK_CASE(a->name, a->help != NULL && a->help[0] != '\0' && a->min <= a->max);
		for (size_t k = 0; k < i; k++) {
			CHECK_CASE(a->name, strcmp(a->name, run_verb.options[k].name) != 0);
			CHECK_CASE(a->name, a->offset != run_verb.options[k].offset);
		}
	}
}

static void finds_the_command(void)
{
	CHECK(PARSE("echo", "--tty") == 0 && !o.tty);
	CHECK_STR(o.command[0], "echo");
	CHECK(PARSE("--tty", "echo", "--", "x") == 0 && o.tty);
	CHECK_STR(o.command[1], "--");
	CHECK(PARSE("--", "--tty") == 0 && !o.tty);
	CHECK_STR(o.command[0], "--tty");
	CHECK(PARSE("--tty") == -1);
	CHECK_HAS("no command", e.msg, "no command given");
	CHECK(PARSE("--tty", "--") == -1);
	CHECK(e.code == ERR_INVALID);
}

static void help_needs_no_command(void)
{
	CHECK(PARSE("--help") == 0 && o.help);
	CHECK(PARSE("--profile", "nonsense", "--help") == 0 && o.help);
	CHECK(PARSE("true", "--help") == 0 && !o.help);
}

static const struct {
	const char *option, *value;
	enum err_code code;
} bad_values[] = {
	{ "--profile", "loose", ERR_INVALID },
	{ "--profile", "Standard", ERR_INVALID },
	{ "--profile", "standard ", ERR_INVALID },
	{ "--profile", "unknown", ERR_INVALID },
	{ "--profile", "", ERR_INVALID },
	{ "--template", "", ERR_INVALID },
	{ "--level", "vm", ERR_UNSUPPORTED },
	{ "--level", "", ERR_INVALID },
	{ "--memory", "4095K", ERR_INVALID },
	{ "--memory", "65T", ERR_INVALID },
	{ "--memory", "0", ERR_INVALID },
	{ "--memory", "-1", ERR_INVALID },
	{ "--memory", "lots", ERR_INVALID },
	{ "--memory", "", ERR_INVALID },
	{ "--cpus", "0", ERR_INVALID },
	{ "--cpus", "0.009", ERR_INVALID },
	{ "--cpus", "1000.001", ERR_INVALID },
	{ "--cpus", "all", ERR_INVALID },
	{ "--pids", "0", ERR_INVALID },
	{ "--pids", "1", ERR_INVALID },
	{ "--pids", "4194305", ERR_INVALID },
	{ "--pids", "1K", ERR_INVALID },
	{ "--disk", "63K", ERR_INVALID },
	{ "--disk", "65T", ERR_INVALID },
	{ "--inodes", "63", ERR_INVALID },
	{ "--inodes", "4294967001", ERR_INVALID },
	{ "--nofile", "15", ERR_INVALID },
	{ "--nofile", "1048577", ERR_INVALID },
	{ "--timeout", "0", ERR_INVALID },
	{ "--timeout", "367d", ERR_INVALID },
	{ "--timeout", "never", ERR_INVALID },
	{ "--output-limit", "65T", ERR_INVALID },
	{ "--output-limit", "0", ERR_INVALID },
	{ "--output-limit", "none", ERR_INVALID },
	{ "--user", "", ERR_INVALID },
	{ "--user", "0123456789012345678901234567890123456789012345678901234567890123",
	  ERR_INVALID },
	{ "--cwd", "tmp", ERR_INVALID },
	{ "--cwd", "./tmp", ERR_INVALID },
	{ "--cwd", "", ERR_INVALID },
	{ "--env", "NAME", ERR_INVALID },
	{ "--env", "=value", ERR_INVALID },
	{ "--env", "", ERR_INVALID },
	{ "--hostname", "", ERR_INVALID },
	{ "--hostname", "a b", ERR_INVALID },
	{ "--hostname", "a_b", ERR_INVALID },
	{ "--hostname", "a/b", ERR_INVALID },
	{ "--hostname", "-a", ERR_INVALID },
	{ "--hostname", "caf\xc3\xa9", ERR_INVALID },
	{ "--hostname", "0123456789012345678901234567890123456789012345678901234567890123",
	  ERR_INVALID },
	{ "--mount", "", ERR_INVALID },
	{ "--mount", "/src", ERR_INVALID },
	{ "--mount", "/src:", ERR_INVALID },
	{ "--mount", "/src:dst", ERR_INVALID },
	{ "--mount", ":/dst", ERR_INVALID },
	{ "--mount", ":", ERR_INVALID },
	{ "--mount", "/src:ro", ERR_INVALID },
	{ "--mount", "/src:/dst:xx", ERR_INVALID },
	{ "--mount", "/src:/dst:RO", ERR_INVALID },
	{ "--mount", "/src:/dst:", ERR_INVALID },
	{ "--mount", "/src:/dst:r", ERR_INVALID },
	{ "--mount", "/src:/dst:rwx", ERR_INVALID },
	{ "--mount", "/src:/dst:rw:", ERR_INVALID },
	{ "--mount", "/src:/dst:read-only", ERR_INVALID },
	{ "--mount", "/src:/", ERR_INVALID },
	{ "--mount", "/src:/:rw", ERR_INVALID },
	{ "--mount", "/src://", ERR_INVALID },
	{ "--mount", "/src:///:ro", ERR_INVALID },
	{ "--result", "", ERR_INVALID },
	{ "--tty", "--tty=yes", ERR_INVALID },
};

static void every_bad_value_names_its_option(void)
{
	for (size_t i = 0; i < COUNT(bad_values); i++) {
		const char *value = bad_values[i].value;
		bool flag = strchr(value, '=') == value + 5;
		int got = flag ? PARSE(value, "--", "true")
			       : PARSE(bad_values[i].option, value, "--", "true");

		if (got != -1)
			printf("# %s\n", bad_values[i].option);
		CHECK_CASE(value, got == -1);
		CHECK_CASE(value, e.code == bad_values[i].code);
		CHECK_HAS(value, e.msg, bad_values[i].option);
	}
}

static const struct {
	const char *option, *value;
} edges[] = {
	{ "--memory", "4M" },
	{ "--memory", "64T" },
	{ "--cpus", "0.01" },
	{ "--cpus", "1000" },
	{ "--pids", "2" },
	{ "--pids", "4194304" },
	{ "--disk", "64K" },
	{ "--disk", "64T" },
	{ "--inodes", "64" },
	{ "--inodes", "4294967000" },
	{ "--nofile", "16" },
	{ "--nofile", "1048576" },
	{ "--timeout", "1ms" },
	{ "--timeout", "366d" },
	{ "--output-limit", "64T" },
	{ "--output-limit", "1" },
	{ "--hostname", "a" },
	{ "--hostname", "a.b-c" },
	{ "--cwd", "/" },
	{ "--env", "A=" },
	{ "--env", "A=b=c" },
	{ "--user", "12345" },
	{ "--user", "012345678901234567890123456789012345678901234567890123456789012" },
	{ "--hostname", "012345678901234567890123456789012345678901234567890123456789012" },
};

static void every_bound_is_allowed(void)
{
	for (size_t i = 0; i < COUNT(edges); i++) {
		int got = PARSE(edges[i].option, edges[i].value, "--", "true");

		if (got < 0)
			printf("# %s\n", e.msg);
		CHECK_CASE(edges[i].value, got == 0);
	}
}

static const struct {
	const char *text, *source, *at;
	bool writable;
} mounts[] = {
	{ "/src:/dst", "/src", "/dst", false },
	{ "/src:/dst:ro", "/src", "/dst", false },
	{ "/src:/dst:rw", "/src", "/dst", true },
	{ "src:/dst", "src", "/dst", false },
	{ ".:/dst:rw", ".", "/dst", true },
	{ "/:/dst", "/", "/dst", false },
	{ "/src:/a/b/c", "/src", "/a/b/c", false },
	{ "/src:/dst/", "/src", "/dst", false },
	{ "/src:/dst//:rw", "/src", "/dst", true },
	{ "/src/:/d", "/src/", "/d", false },
	{ "/with space:/d", "/with space", "/d", false },
	{ "a:b:/d", "a:b", "/d", false }, /* a source with a colon */
	{ "/src:/rw", "/src", "/rw", false },
	{ "/src:/ro:rw", "/src", "/ro", true },
	{ "/src:/d:d/e", "/src", "/d:d/e", false },
	{ "/src:/d:d:rw", "/src", "/d:d", true },
};

static void reads_mounts(void)
{
	for (size_t i = 0; i < COUNT(mounts); i++) {
		CHECK_CASE(mounts[i].text, PARSE("--mount", mounts[i].text, "true") == 0);
		CHECK_CASE(mounts[i].text, o.mounts.n == 1);
		CHECK_STR(o.mount[0].source, mounts[i].source);
		CHECK_STR(o.mount[0].at, mounts[i].at);
		CHECK_CASE(mounts[i].text, o.mount[0].writable == mounts[i].writable);
	}
}

/* Places that the keeper would refuse without knowing which option they came from. */
static void mounts_to_improper_places_name_their_option(void)
{
	static const char *const bad[] = { "/src:/a/../b", "/src:/..", "/src:/a/..",  "/src:/./a",
					   "/src:/a//b",   "/src://a", "/src:/a/.:rw" };

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK_CASE(bad[i], PARSE("--mount", bad[i], "true") == -1);
		CHECK_HAS(bad[i], e.msg, "--mount");
	}
}

static void mounts_are_bounded(void)
{
	static const struct {
		size_t source, at;
		bool ok;
	} cases[] = { { 4095, 255, true },
		      { 4096, 255, false },
		      { 4095, 256, false },
		      { 20000, 1, false },
		      { 1, 20000, false } };
	static char text[50000];

	for (size_t i = 0; i < COUNT(cases); i++) {
		char *at = text + cases[i].source + 1;

		memset(text, 's', cases[i].source);
		at[-1] = ':';
		memset(at, 'd', cases[i].at);
		at[0] = '/';
		at[cases[i].at] = '\0';
		if (cases[i].at == 1)
			memcpy(at, "/d", 3);
		CHECK(PARSE("--mount", text, "true") == (cases[i].ok ? 0 : -1));
		CHECK(!cases[i].ok || (strlen(o.mount[0].source) == cases[i].source &&
				       strlen(o.mount[0].at) == cases[i].at));
		CHECK_HAS("long", cases[i].ok ? "too long" : e.msg, "too long");
	}
}

static void mounts_are_counted(void)
{
#define M "--mount", "/s:/d"
	CHECK(PARSE(M, M, M, M, M, M, M, M, "true") == 0 && o.mounts.n == CELL_MOUNTS_MAX);
	CHECK_STR(o.mount[CELL_MOUNTS_MAX - 1].at, "/d");
	CHECK(PARSE(M, M, M, M, M, M, M, M, M, "true") == -1);
	CHECK(e.code == ERR_LIMIT);
	CHECK_HAS("nine", e.msg, "--mount: 9 given, at most 8");
#undef M
}

/* What a cell writes is kept in memory: each of the two follows the other. */
static void memory_and_disk_follow_each_other(void)
{
	CHECK(PARSE("--memory", "4G", "true") == 0 && o.memory == 4 * GIB && o.disk == 3 * GIB);
	CHECK(PARSE("--memory", "4M", "true") == 0 && o.disk == 3 * MIB);
	CHECK(PARSE("--disk", "64M", "true") == 0 && o.memory == GIB && o.disk == 64 * MIB);
	CHECK(PARSE("--disk", "768M", "true") == 0 && o.memory == GIB);
	CHECK(PARSE("--disk", "3G", "true") == 0 && o.memory == 4 * GIB && o.disk == 3 * GIB);
	CHECK(PARSE("--disk", "63T", "true") == 0 && o.memory == 84 * TIB);
	CHECK(PARSE("--disk", "2G", "--memory", "1G", "true") == 0 && o.memory == GIB &&
	      o.disk == 2 * GIB);
}

static void knows_which_limits_were_asked(void)
{
	CHECK(PARSE("--memory", "1G", "true") == 0 && o.limits_asked == CELL_LIMIT_MEMORY);
	CHECK(PARSE("--cpus", "1", "true") == 0 && o.limits_asked == CELL_LIMIT_CPU);
	CHECK(PARSE("--pids", "1024", "true") == 0 && o.limits_asked == CELL_LIMIT_PIDS);
	CHECK(PARSE("--pids", "9", "--cpus=2", "true") == 0 &&
	      o.limits_asked == (CELL_LIMIT_PIDS | CELL_LIMIT_CPU));
	CHECK(PARSE("--disk", "1G", "--inodes=99", "--nofile=99", "true") == 0 &&
	      o.limits_asked == 0);
}

static void nofile_is_what_the_caller_has(void)
{
	struct rlimit files = { 64, 64 };

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	CHECK(PARSE("true") == 0 && o.nofile == 64);
	CHECK(PARSE("--nofile", "128", "true") == 0 && o.nofile == 128); /* the keeper will tell */
}

/* So that what went wrong can be written there. */
static void a_failure_leaves_the_result(void)
{
	CHECK(PARSE("--result", "r.json", "--bogus", "true") == -1);
	CHECK_STR(o.result, "r.json");
	CHECK(PARSE("--result=r.json", "--memory", "x", "true") == -1);
	CHECK_STR(o.result, "r.json");
	CHECK(PARSE("--profile", "x", "--result", "r.json", "true") == -1);
	CHECK_STR(o.result, "r.json");
	CHECK(PARSE("--bogus", "--result", "r.json", "true") == -1);
	CHECK_STR(o.result, "r.json");
	CHECK(PARSE("--memory", "x", "--result=r.json", "--", "true") == -1);
	CHECK_STR(o.result, "r.json");
	CHECK(PARSE("--bogus", "true") == -1);
	CHECK(o.result == NULL);
}

/* Its file would be overwritten with our JSON. */
static void the_command_s_own_result_is_not_ours(void)
{
	CHECK(PARSE("--bogus", "--", "prog", "--result", "theirs") == -1);
	CHECK(o.result == NULL);
	CHECK(PARSE("--memory", "x", "prog", "--result", "theirs") == -1);
	CHECK(o.result == NULL);
	CHECK(PARSE("--bogus", "prog", "--result=theirs") == -1);
	CHECK(o.result == NULL);
}

static void the_last_of_a_variable_counts(void)
{
	CHECK(PARSE("--env", "A=1", "--env", "B=2", "--env", "AB=3", "--env", "A=4", "--env",
		    "A=", "true") == 0);
	CHECK(o.env.n == 3);
	CHECK_STR(o.env.items[0], "B=2");
	CHECK_STR(o.env.items[1], "AB=3");
	CHECK_STR(o.env.items[2], "A=");
}

TEST_MAIN({ "has defaults", has_defaults }, { "takes every option", takes_every_option },
	  { "the table is sound", the_table_is_sound }, { "finds the command", finds_the_command },
	  { "help needs no command", help_needs_no_command },
	  { "every bad value names its option", every_bad_value_names_its_option },
	  { "every bound is allowed", every_bound_is_allowed }, { "reads mounts", reads_mounts },
	  { "mounts to improper places name their option",
	    mounts_to_improper_places_name_their_option },
	  { "mounts are bounded", mounts_are_bounded },
	  { "mounts are counted", mounts_are_counted },
	  { "memory and disk follow each other", memory_and_disk_follow_each_other },
	  { "knows which limits were asked for", knows_which_limits_were_asked },
	  { "nofile is what the caller has", nofile_is_what_the_caller_has },
	  { "a failure leaves the result", a_failure_leaves_the_result },
	  { "the command's own result is not ours", the_command_s_own_result_is_not_ours },
	  { "the last of a variable counts", the_last_of_a_variable_counts })
