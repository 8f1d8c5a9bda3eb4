#include "cmd/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cellctl/installed.h"
#include "cell/template/cell_programs.h"
#include "cmd/base/nofile.h"
#include "cmd/serve/serve_sizes.h"
#include "lib/base/kernel.h"
#include "lib/config/config_value.h"

/* ---- defaults
 *
 * Some settings have the default 0, which means: a number that follows the machine. serve_prepare()
 * replaces it here once, when the limit of descriptors is raised. cordond gets the numbers.
 *
 * They are chosen for mostly idle sessions. The real use of sessions is bounded elsewhere: each
 * cell by its limits, all cells together by node_memory_limit and node_pids_limit, and no session
 * is made while the machine is short of memory. */

#define SESSION_BYTES (4ULL << 20) /* an idle one takes less than a quarter of it */
#define SESSIONS_MIN 1000
#define TENANT_SESSIONS_MIN 500
#define KEEPERS_MAX 4 /* with more of them, locks of the kernel are the limit */
#define EGRESS_MAX 4  /* each has caches of its own, and some MiB */

/* As many mostly idle sessions as memory and descriptors allow. The result is never below
 * SESSIONS_MIN. */
static uint64_t count_sessions(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	uint64_t n = pages * (uint64_t)sysconf(_SC_PAGESIZE) / SESSION_BYTES;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && nofile_wanted(n) > files.rlim_cur)
		n = nofile_sessions(files.rlim_cur);
	return n > SESSIONS_MIN ? n : SESSIONS_MIN;
}

/* One process for each `each` processors. */
static uint64_t by_processors(long each, uint64_t most)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN) / each;

	if (n < 1)
		return 1;
	return (uint64_t)n < most ? (uint64_t)n : most;
}

void serve_defaults(struct config *c)
{
	serve_sizes_set(c, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	if (c->keepers == 0)
		c->keepers = by_processors(1, KEEPERS_MAX);
	if (c->egress_processes == 0) /* cells, cordond and keepers need processors, too */
		c->egress_processes = by_processors(2, EGRESS_MAX);
	if (c->node_max_sessions == 0)
		c->node_max_sessions = count_sessions();
	if (c->tenant_max_sessions == 0)
		c->tenant_max_sessions = c->node_max_sessions / 2 > TENANT_SESSIONS_MIN
						 ? c->node_max_sessions / 2
						 : TENANT_SESSIONS_MIN;
}

/* ---- programs of this installation that check something before the server starts */

#define NOBODY 65534

/* The error is the last line. Warnings may come before it. The text is changed in its place. */
static char *last_line(char *text)
{
	size_t n = strlen(text);
	char *before;

	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	before = strrchr(text, '\n');
	return before == NULL ? text : before + 1;
}

/* Read the child's output and wait for its end. Success is exit status 0. Otherwise the last
 * line of the output becomes the error, or the status if the child printed nothing. The output
 * is bounded by the length of an error message. */
static int wait_result(const char *what, pid_t pid, int stderr_fd, struct err *e)
{
	char text[sizeof(e->msg)] = "", *words;
	size_t n = 0;
	ssize_t got;
	int status;

	while (n < sizeof(text) - 1 &&
	       ((got = read(stderr_fd, text + n, sizeof(text) - 1 - n)) > 0 ||
		(got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "%s", what);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	words = last_line(text);
	if (words[0] != '\0')
		return err_set(e, ERR_INVALID, "%s", words);
	return err_set(e, ERR_INVALID, "%s: ended with %s %d", what,
		       WIFEXITED(status) ? "status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int serve_precheck_run(const struct serve *s, struct serve_precheck *q, struct err *e)
{
	int ends[2];
	pid_t pid;

	if (installed_path(q->name, q->path, sizeof(q->path), e) < 0)
		return -1;
	/* By descriptor: the program may be in a folder that only this process can enter, such as
	 * /root. */
	OWN_FD program = open(q->path, O_PATH | O_CLOEXEC);
	if (program < 0)
		return err_sys(e, "%s", q->path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD reader = ends[0];
	q->program = program;
	q->stderr_fd = ends[1];
	pid = fork();
	if (pid == 0) {
		q->on_child(s, q);
		_exit(126);
	}
	fd_close(ends[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	return wait_result(q->what, pid, reader, e);
}

void serve_precheck_exec(const struct serve_precheck *q, int program, char **argv)
{
	char *envp[] = { NULL };

	if (getuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			      setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(126);
	(void)kernel_execveat(program, argv, envp);
	(void)execve(q->path, argv, envp); /* a script: its interpreter opens it by path */
	_exit(127);
}

/* ---- upgrade: whether the program on disk would start with the present settings and files */

#define TRY_S 10
#define WORDS_MAX 1024

/* In the child. Unblocks the signals that the supervisor blocks. */
static void NORETURN exec_next(const struct serve *s, const struct serve_precheck *q)
{
	char check[] = "--check";
	char *argv[WORDS_MAX + 2];
	size_t n = 0;
	sigset_t none;
	int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (; n < WORDS_MAX && s->argv[n] != NULL; n++)
		argv[n] = s->argv[n];
	argv[n++] = check;
	argv[n] = NULL;
	if (nowhere < 0 || dup2(nowhere, STDIN_FILENO) < 0 || dup2(nowhere, STDOUT_FILENO) < 0 ||
	    dup2(q->stderr_fd, STDERR_FILENO) < 0)
		_exit(126);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(TRY_S);
	(void)execve(q->path, argv, environ);
	_exit(127);
}

int serve_upgrade_check(const struct serve *s, struct err *e)
{
	struct serve_precheck q = { .name = "cordon",
				    .what = "cordon serve --check",
				    .on_child = exec_next };

	return serve_precheck_run(s, &q, e);
}

static const char text[] =
	"The server is several programs: cordon-keeper makes cells, cordond answers requests,\n"
	"cordon-egress makes the network connections of cells, cordon-storage keeps layers, disks\n"
	"and volumes, and cordon-pull fetches images. A program that ends is started again;\n"
	"sessions continue. SIGTERM ends the programs and leaves the sessions running for the "
	"next\n"
	"start. SIGHUP starts all programs again from the files on disk (an upgrade in place); "
	"waiting\n"
	"connections are kept.\n"
	"\n"
	"Every setting of doc/configuration.md is an option (--listen, --state-dir or --state, "
	"...), a\n"
	"variable (CORDON_LISTEN, ...) and a line of the configuration file.\n";

/* serve's own options. All settings are read by config_load() into struct config. */
struct serve_options {
	const char *config;
	bool check, help, settings;
};

static const struct option options[] = {
	{ "config", "FILE", OPTION_TEXT, offsetof(struct serve_options, config), 0, 0,
	  "the configuration file (default /etc/cordon/cordon.conf, if it exists)", 'c' },
	{ "check", NULL, OPTION_FLAG, offsetof(struct serve_options, check), 0, 0,
	  "checks the configuration and the files that it names, prints it, and ends", 0 },
	{ "settings", NULL, OPTION_FLAG, offsetof(struct serve_options, settings), 0, 0,
	  "lists every setting with its default", 0 },
	{ "help", NULL, OPTION_FLAG, offsetof(struct serve_options, help), 0, 0, "shows this help",
	  'h' },
};

/* Take the options of this verb out of the words. Those that remain are settings, and
 * config_load() reads them. A word of neither kind is an error. */
static int serve_split(int argc, char **argv, struct serve_options *o, int *ret_nsettings,
		       struct err *e)
{
	int n = 0;

	for (int i = 0; i < argc;) {
		int words = config_flag_words(argv[i], i + 1 < argc ? argv[i + 1] : NULL);

		if (words == 0) {
			int took = options_parse(&serve_verb, 1, argv + i, o, NULL,
						 &(struct err){ 0 });

			if (took <= 0 && i + 1 < argc)
				took = options_parse(&serve_verb, 2, argv + i, o, NULL, e);
			if (took <= 0)
				return err_set(e, ERR_INVALID, "%.60s: unknown option", argv[i]);
			i += took;
			continue;
		}
		for (; words > 0 && i < argc; words--)
			argv[n++] = argv[i++];
	}
	*ret_nsettings = n;
	return 0;
}

/* Variables with the prefix, but no settings. */
static const char *const others[] = { "CORDON_SERVER",	  "CORDON_API_KEY",	"CORDON_CONFIG",
				      "CORDON_MUST_WORK", "CORDON_SECRETS_KEY", NULL };

/* SIGHUP is blocked until supervisor_run() handles it: it would end a starting server. Other
 * signals, perhaps blocked from before an upgrade, are not. */
static void block_upgrades(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
}

static void warn_of_missing(void)
{
	const char *name = cell_programs_missing();

	if (name != NULL)
		(void)fprintf(stderr,
			      "cordon serve: warning: %s is not beside the other programs: cells "
			      "will not have it (make programs builds all)\n",
			      name);
}

static int serve_run(int argc, char **argv)
{
	static struct serve s;
	char *words[512];
	struct serve_options o = { 0 };
	struct err e = { 0 };
	int n = 0;

	if (argc > (int)COUNT(words)) {
		(void)fprintf(stderr, "cordon serve: too many options\n");
		return 2;
	}
	memcpy(words, argv, (size_t)argc * sizeof(*words));
	if (serve_split(argc, words, &o, &n, &e) < 0) {
		(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
		return 2;
	}
	if (o.help) {
		options_help(&serve_verb, stdout);
		return 0;
	}
	if (o.settings) {
		config_doc_help(stdout);
		return 0;
	}
	if (config_load(&s.config, o.config, n, words, environ, &e) < 0) {
		(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
		return 2;
	}
	const char *odd = config_unknown_env(environ, others);
	if (odd != NULL)
		(void)fprintf(stderr, "cordon serve: %.*s: ignored, there is no such setting\n",
			      (int)strcspn(odd, "="), odd);
	if (o.check) {
		if (serve_tls(&s, &e) < 0 || role_egress_check(&s, &e) < 0 ||
		    serve_network(&s, &e) < 0 || serve_secrets_check(&s, &e) < 0 ||
		    serve_levels_check(&s, &e) < 0) {
			(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
			return 2;
		}
		if (config_write(&s.config, STDOUT_FILENO, &e) < 0) {
			(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
			return 1;
		}
		return 0;
	}
	warn_of_missing();
	s.argv = argv - 2; /* as the kernel gave them */
	block_upgrades();
	installed_keep();
	if (serve_prepare(&s, &e) < 0) {
		(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
		return 1;
	}
	return supervisor_run(&s);
}

const struct verb serve_verb = {
	.name = "serve",
	.usage = "[--config FILE] [--check] [--SETTING VALUE ...]",
	.summary = "Runs the server.",
	.text = text,
	.examples = "cordon serve --check                       # the settings in force\n"
		    "cordon serve --listen 0.0.0.0:4983 --tls-local yes\n",
	.options = options,
	.noptions = COUNT(options),
	.run = serve_run,
};
