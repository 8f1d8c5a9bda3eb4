/* main.c - cordon-client: the verbs of `cordon` that need a server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cmd/client/args.h"
#include "cmd/client/complete_values.h"
#include "cmd/client/verbs.h"
#include "lib/base/fd_std.h"
#include "lib/base/similar.h"

/* ---- the table of verbs. Each verb is a struct in a file verb_*.c, with its options, help and
 * examples. `cordon` itself (src/cmd/main.c) starts this program for every verb that it does not
 * know, so `cordon VERB` is one command for users. */

#define GROUP_MAX 16

/* The order of the list that `cordon --help` prints. */
static const struct client_group {
	const char *title;
	const struct verb *verbs[GROUP_MAX];
} groups[] = {
	{ "sessions",
	  { &verb_create, &verb_ls, &verb_inspect, &verb_pause, &verb_resume, &verb_reset,
	    &verb_snapshot, &verb_fork, &verb_timeout, &verb_rm, &verb_top, &verb_events,
	    &verb_timeline, &verb_cast, &verb_replay } },
	{ "commands and code",
	  { &verb_run, &verb_exec, &verb_attach, &verb_logs, &verb_ps, &verb_kill, &verb_trace } },
	{ "files", { &verb_cp, &verb_diff, &verb_watch, &verb_volume } },
	{ "network, packages, secrets",
	  { &verb_net, &verb_port, &verb_policy, &verb_packages, &verb_secret } },
	{ "templates and tools", { &verb_template, &verb_mcp } },
	{ "the server",
	  { &verb_node, &verb_limits, &verb_usage, &verb_key, &verb_tenant, &verb_layers, &verb_gc,
	    &verb_audit, &verb_export, &verb_report } },
};

/* The verbs of the other program, and words that other tools use. Each row leads from a word
 * that people try to the verb that does it. A row that leads to itself is a verb of the other
 * program, offered for misspellings. */
static const struct synonym {
	const char *word, *meant;
} synonyms[] = {
	{ "run", "run" },	  { "serve", "serve" },	     { "doctor", "doctor" },
	{ "guest", "guest" },	  { "profile", "profile" },  { "help", "help" },
	{ "version", "version" }, { "level", "level" },	     { "list", "ls" },
	{ "delete", "rm" },	  { "remove", "rm" },	     { "stop", "pause" },
	{ "new", "create" },	  { "start", "create" },     { "shell", "exec" },
	{ "ssh", "exec" },	  { "status", "node" },	     { "info", "node" },
	{ "show", "inspect" },	  { "describe", "inspect" }, { "image", "template" },
	{ "images", "template" }, { "build", "template" },   { "quota", "limits" },
	{ "copy", "cp" },
};

/* Called once for each verb of a group, in its order. */
typedef void on_verb(const struct verb *v, void *arg);

static void each_verb(const struct client_group *g, on_verb *on, void *arg)
{
	for (size_t k = 0; k < GROUP_MAX && g->verbs[k] != NULL; k++)
		on(g->verbs[k], arg);
}

/* `run` exists in both programs. Here it is the one with a server. */
static void print_verb(const struct verb *v, void *to)
{
	(void)fprintf(to, "  cordon %-9s %s\n", v == &verb_run ? "run --server" : v->name,
		      v->summary);
}

/* For `cordon --help`, which prints the verbs of both programs one after the other. */
static int client_list(FILE *to)
{
	for (size_t i = 0; i < COUNT(groups); i++) {
		(void)fprintf(to, "\n%s:\n", groups[i].title);
		each_verb(&groups[i], print_verb, to);
	}
	(void)fprintf(to, "\nglobal options, of every verb that uses a server:\n");
	options_help_global(&verb_ls, to);
	(void)fprintf(to,
		      "\ncordon VERB --help describes one verb, with examples. Verbs below "
		      "`sessions` need a server: CORDON_SERVER\nor --server names it, "
		      "CORDON_API_KEY or --key-file has the key. doc/cell.md lists exit codes.\n");
	return 0;
}

/* All verbs in one list. The room is that of full groups. */
struct all {
	const struct verb *verbs[COUNT(groups) * GROUP_MAX];
	size_t n;
};

static void client_collect(const struct verb *v, void *arg)
{
	struct all *all = arg;

	all->verbs[all->n++] = v;
}

static struct all all_verbs(void)
{
	struct all all = { .n = 0 };

	for (size_t i = 0; i < COUNT(groups); i++)
		each_verb(&groups[i], client_collect, &all);
	return all;
}

/* `cordon --complete VERB WORD...`. The first word may also be the incomplete one. Arguments
 * come from the usage, values from the server. */
static int client_complete(const struct all *all, int argc, char **argv)
{
	for (size_t i = 0; i < all->n; i++)
		if (argc < 2)
			complete_print(all->verbs[i]->name, all->verbs[i]->summary, stdout);
	for (size_t i = 0; i < all->n && argc > 1; i++)
		if (strcmp(all->verbs[i]->name, argv[0]) == 0)
			complete_values(complete_words(all->verbs[i], argc - 1, argv + 1, stdout),
					all->verbs[i], argc - 1, argv + 1, stdout);
	return 0;
}

#define SECTION(title, rows) options_man_section(title, rows, COUNT(rows), stdout)

/* Sections of the manual page that belong to no verb. They are tables here, so that the page and
 * the help come from one place. */
static void man_sections(void)
{
	static const char *const examples[][2] = {
		{ "cordon run -- python3 script.py", "One command in a cell of its own, without a "
						     "server." },
		{ "id=$(cordon create --timeout 1h --policy pypi)",
		  "A session for an hour, which may reach PyPI." },
		{ "cordon cp ./project $id:work; cordon exec $id -- make -C work test",
		  "Files into it, and a command in it." },
		{ "cordon exec -t $id -- bash", "A terminal. Ctrl-] leaves it." },
		{ "cordon net --denied $id", "What it tried to reach and may not." },
		{ "cordon rm $id", "Its end." },
	};
	static const char *const exit_status[][2] = {
		{ "0", "Done." },
		{ "1", "The answer is no: doctor, policy check, policy explain. Or serve did not "
		       "start." },
		{ "2", "Wrong use: options or values that are not understood. Nothing was done." },
		{ "3", "There is no such thing, or the session has ended." },
		{ "1 to 3",
		  "Of audit verify: the log was changed, is not complete, cannot be read." },
		{ "4", "The server refuses: the key, a scope, a limit, a quota, a state." },
		{ "5", "No server answers, or it cannot answer now: try again." },
		{ "124 to 127, 128+N",
		  "Of run, exec and attach: timeout, Cordon failed, the command is not "
		  "executable, not found, ended by signal N. Otherwise the code "
		  "of the command." },
		{ "125", "Everything else." },
	};
	static const char *const environment[][2] = {
		{ "CORDON_SERVER", "The server: http://, https:// or unix:/path." },
		{ "CORDON_API_KEY", "The API key." },
		{ "SSL_CERT_FILE", "Certificates to trust (https)." },
		{ "NO_COLOR", "If it is set and not empty, no colours are printed." },
		{ "CORDON_SETTING", "Of serve: the setting of that name, such as CORDON_LISTEN "
				    "(cordon serve --settings)." },
	};
	static const char *const files[][2] = {
		{ "~/.config/cordon/key", "The API key, unless CORDON_API_KEY or --key-file gives "
					  "it." },
		{ "/var/lib/cordon/first.key, ~/.local/state/cordon/first.key",
		  "The key that a server on this machine wrote at its first start. Only that "
		  "server "
		  "gets it." },
		{ "/etc/cordon/cordon.conf", "Settings of serve." },
		{ "/var/lib/cordon", "State of a server that root started: records, disks, "
				     "templates, keys." },
	};
	static const char *const see_also[][2] = {
		{ "doc/README.md", "Index of the documentation." },
	};

	SECTION("EXAMPLES", examples);
	SECTION("EXIT STATUS", exit_status);
	SECTION("ENVIRONMENT", environment);
	SECTION("FILES", files);
	SECTION("SEE ALSO", see_also);
}

/* A synonym counts before a similar word: `cordon delete` means rm and not a misspelt verb.
 * Verbs of the other program are offered for misspellings of them. */
static int client_unknown(const struct all *all, const char *word)
{
	struct similar s = { .word = word };

	for (size_t i = 0; i < all->n; i++)
		similar_offer(&s, all->verbs[i]->name);
	for (size_t i = 0; i < COUNT(synonyms); i++) {
		if (strcmp(synonyms[i].word, word) == 0)
			s.best = synonyms[i].meant;
		else if (strcmp(synonyms[i].word, synonyms[i].meant) == 0)
			similar_offer(&s, synonyms[i].word);
	}
	if (s.best != NULL)
		(void)fprintf(stderr, "cordon: no verb '%.60s'; did you mean `cordon %s`?\n", word,
			      s.best);
	else
		(void)fprintf(stderr, "cordon: no verb '%.60s'; see cordon --help\n", word);
	return ARGS_USAGE;
}

/* Failed output is a failure, even if the verb succeeded. */
static int client_finish(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	return code == 0 ? ARGS_FAILED : code;
}

/* The order of the tests: verbs, the manual page, completion, help. SIGPIPE is ignored, so a
 * reader that has gone shows as an error of the write. */
int main(int argc, char **argv)
{
	struct all all = all_verbs();

	fd_std_fill();
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc > 1 && i < all.n; i++)
		if (strcmp(argv[1], all.verbs[i]->name) == 0)
			return client_finish(all.verbs[i]->run(argc - 2, argv + 2));
	if (argc > 1 && strcmp(argv[1], "--man") == 0) {
		options_man_more("WITH A SERVER", all.verbs, all.n, stdout);
		man_sections();
		return client_finish(0);
	}
	if (argc > 2 && strcmp(argv[1], "--complete") == 0)
		return client_complete(&all, argc - 2, argv + 2);
	if (argc > 2 && strcmp(argv[1], "--complete-values") == 0) {
		complete_values(complete_find(argv[2]), NULL, 0, NULL, stdout);
		return client_finish(0);
	}
	/* A reader that wants the first lines only (`| head`) is no failure of help. */
	if (argc > 1 && (strcmp(argv[1], "--verbs") == 0 || strcmp(argv[1], "--help") == 0))
		return client_list(stdout);
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cordon-client %s\n", CORDON_VERSION);
		return client_finish(0);
	}
	return client_unknown(&all, argc > 1 ? argv[1] : "");
}
