#include "serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell_programs.h"
#include "config_doc.h"

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

/* Takes the options of this verb out of the words; those that remain are settings. */
static int split(int argc, char **argv, struct serve_options *o, int *ret_nsettings, struct err *e)
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

/* Variables with the prefix that are not settings. */
static const char *const others[] = { "CORDON_SERVER",	  "CORDON_API_KEY",	"CORDON_CONFIG",
				      "CORDON_MUST_WORK", "CORDON_SECRETS_KEY", NULL };

/* SIGHUP is blocked until supervisor_run() handles it: it would end a server that has not started
 * yet. Others, which may be blocked from before an upgrade, are not. */
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

static int run(int argc, char **argv)
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
	if (split(argc, words, &o, &n, &e) < 0) {
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
	if (serve_prepare(&s, &e) < 0) {
		(void)fprintf(stderr, "cordon serve: %s\n", e.msg);
		return 1;
	}
	return supervisor_run(&s);
}

const struct verb serve_verb = {
	.name = "serve",
	.usage = "[--config FILE] [--check] [settings]",
	.summary = "Runs the server.",
	.text = text,
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
