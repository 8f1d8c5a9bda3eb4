/* main.c - cordon-client: the verbs of `cordon` that need a server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "fd_std.h"
#include "similar.h"
#include "verbs.h"

#define GROUP_MAX 16

/* The order of the list that `cordon --help` prints. */
static const struct group {
	const char *title;
	const struct verb *verbs[GROUP_MAX];
} groups[] = {
	{ "sessions",
	  { &verb_create, &verb_ls, &verb_inspect, &verb_pause, &verb_resume, &verb_reset,
	    &verb_snapshot, &verb_fork, &verb_timeout, &verb_rm, &verb_top, &verb_events } },
	{ "commands and code",
	  { &verb_run, &verb_exec, &verb_attach, &verb_logs, &verb_ps, &verb_kill } },
	{ "files", { &verb_cp, &verb_diff, &verb_watch, &verb_volume } },
	{ "network, packages, secrets",
	  { &verb_net, &verb_port, &verb_policy, &verb_packages, &verb_secret } },
	{ "templates and tools", { &verb_template, &verb_mcp } },
	{ "the server",
	  { &verb_node, &verb_limits, &verb_usage, &verb_key, &verb_tenant, &verb_layers,
	    &verb_gc } },
};

/* The verbs of the other program, and words that other tools use. */
static const struct synonym {
	const char *word, *meant;
} synonyms[] = {
	{ "run", "run" },	   { "serve", "serve" },     { "doctor", "doctor" },
	{ "guest", "guest" },	   { "profile", "profile" }, { "help", "help" },
	{ "version", "version" },  { "list", "ls" },	     { "delete", "rm" },
	{ "remove", "rm" },	   { "stop", "pause" },	     { "new", "create" },
	{ "start", "create" },	   { "shell", "exec" },	     { "ssh", "exec" },
	{ "status", "node" },	   { "info", "node" },	     { "show", "inspect" },
	{ "describe", "inspect" }, { "image", "template" },  { "images", "template" },
	{ "build", "template" },   { "quota", "limits" },    { "copy", "cp" },
};

typedef void on_verb(const struct verb *v, void *arg);

static void each_verb(const struct group *g, on_verb *on, void *arg)
{
	for (size_t k = 0; k < GROUP_MAX && g->verbs[k] != NULL; k++)
		on(g->verbs[k], arg);
}

static void print_verb(const struct verb *v, void *to)
{
	(void)fprintf(to, "  cordon %-9s %s\n", v == &verb_run ? "run --server" : v->name,
		      v->summary);
}

static int list(FILE *to)
{
	for (size_t i = 0; i < COUNT(groups); i++) {
		(void)fprintf(to, "\n%s:\n", groups[i].title);
		each_verb(&groups[i], print_verb, to);
	}
	(void)fprintf(to, "\ncordon VERB --help describes one verb. Verbs below `sessions` need a "
			  "server: CORDON_SERVER or --server\nnames it, CORDON_API_KEY or "
			  "--key-file has the key.\n");
	return 0;
}

struct all {
	const struct verb *verbs[COUNT(groups) * GROUP_MAX];
	size_t n;
};

static void collect(const struct verb *v, void *arg)
{
	struct all *all = arg;

	all->verbs[all->n++] = v;
}

static struct all all_verbs(void)
{
	struct all all = { .n = 0 };

	for (size_t i = 0; i < COUNT(groups); i++)
		each_verb(&groups[i], collect, &all);
	return all;
}

static int unknown(const struct all *all, const char *word)
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

/* Output that could not be written is a failure, whatever the verb returned. */
static int finish(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	return code == 0 ? ARGS_FAILED : code;
}

int main(int argc, char **argv)
{
	struct all all = all_verbs();

	fd_std_fill();
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc > 1 && i < all.n; i++)
		if (strcmp(argv[1], all.verbs[i]->name) == 0)
			return finish(all.verbs[i]->run(argc - 2, argv + 2));
	if (argc > 1 && strcmp(argv[1], "--man") == 0) {
		options_man_more("WITH A SERVER", all.verbs, all.n, stdout);
		return finish(0);
	}
	/* A reader that wants the first lines only (`| head`) is no failure of help. */
	if (argc > 1 && (strcmp(argv[1], "--verbs") == 0 || strcmp(argv[1], "--help") == 0))
		return list(stdout);
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cordon-client %s\n", CORDON_VERSION);
		return finish(0);
	}
	return unknown(&all, argc > 1 ? argv[1] : "");
}
