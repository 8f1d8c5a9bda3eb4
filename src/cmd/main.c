/* main.c - cordon: the verbs. Those that need a server are in cordon-client. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/base/complete.h"
#include "cmd/base/options.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/level.h"
#include "cmd/run/run_options.h"
#include "cmd/run/run_result.h"
#include "cmd/serve/serve.h"
#include "lib/base/fd_std.h"

/* Verbs that use a server are in another program, cordon-client, installed beside this one. It
 * needs TLS and JSON. To load these would take ten times as long as cordon takes to start a cell.
 */

#define PROGRAM "cordon-client"

/* The directory of the running program, then the client's name. */
static int find_client(char *ret_path, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", ret_path, cap - sizeof("/" PROGRAM));
	char *slash;

	if (n < 0)
		return -1;
	ret_path[n] = '\0';
	slash = strrchr(ret_path, '/');
	if (slash == NULL)
		return -1;
	(void)snprintf(slash, cap - (size_t)(slash - ret_path), "/" PROGRAM);
	return 0;
}

/* Execute cordon-client with these arguments (argv[1] is the verb). Return, with the exit code,
 * only if that fails. Print why unless quiet. */
static int exec_client(char **argv, bool quiet)
{
	char path[PATH_MAX];

	(void)fflush(stdout);
	if (find_client(path, sizeof(path)) == 0)
		(void)execv(path, argv);
	if (!quiet)
		(void)fprintf(stderr,
			      "cordon: '%.60s' needs " PROGRAM ", which cannot be started: %s\n",
			      argv[1], strerror(errno));
	return EXIT_CORDON;
}

static const struct verb *const verbs[] = { &run_verb,	 &serve_verb, &doctor_verb,
					    &guest_verb, &level_verb, &profile_verb };

static void print_own(void)
{
	(void)printf("cordon %s - runs code you do not trust, in cells\n\nwithout a server:\n",
		     CORDON_VERSION);
	for (size_t i = 0; i < COUNT(verbs); i++)
		(void)printf("  cordon %-9s %s\n", verbs[i]->name, verbs[i]->summary);
}

/* cordon-client adds its verbs and the last lines. Without it the list ends here. */
static int print_all(void)
{
	static char list_verbs[] = "--verbs";
	char program[] = "cordon";

	print_own();
	(void)exec_client((char *[]){ program, list_verbs, NULL }, true);
	(void)printf("\ncordon VERB --help describes one verb.\n");
	return 0;
}

static const struct verb *cmd_find(const char *name)
{
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (strcmp(name, verbs[i]->name) == 0)
			return verbs[i];
	return NULL;
}

/* `cordon help VERB` is `cordon VERB --help`. */
static int cmd_help(int argc, char **argv)
{
	static char option[] = "--help";
	const struct verb *v = argc > 2 ? cmd_find(argv[2]) : NULL;

	if (argc < 3)
		return print_all();
	if (v != NULL)
		return v->run(1, (char *[]){ option, NULL });
	return exec_client((char *[]){ argv[0], argv[2], option, NULL }, false);
}

/* `cordon --complete WORD...`, for shells: the candidates for the last word (complete.h). The other
 * program completes words of its own verbs. */
static int cmd_complete(int argc, char **argv)
{
	static char values[] = "--complete-values", server[] = "--server";
	const struct verb *v = argc > 3 ? cmd_find(argv[2]) : NULL;
	bool is_run = v == &run_verb;
	enum complete_want want;

	for (size_t i = 0; i < COUNT(verbs) && argc == 3; i++)
		complete_print(verbs[i]->name, verbs[i]->summary, stdout);
	if (argc == 3) {
		complete_print("--help", "lists the verbs", stdout);
		complete_print("--version", "prints the version", stdout);
	}
	if (v == NULL || (is_run && argc > 4 && strcmp(argv[3], server) == 0))
		return exec_client(argv, true);
	want = complete_words(v, argc - 3, argv + 3, stdout);
	if (is_run && argc == 4 && argv[3][0] == '-')
		complete_print(server, "in a session of a server", stdout);
	if (want >= COMPLETE_PRESETS)
		return exec_client(
			(char *[]){ argv[0], values, (char *)(uintptr_t)complete_name(want), NULL },
			true);
	complete_ask_shell(want, stdout);
	return 0;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
	const struct verb *v = argc > 1 ? cmd_find(argv[1]) : NULL;

	fd_std_fill(); /* the caller may have closed them */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(
		SIGCHLD,
		SIG_DFL); /* the caller may ignore it, but this program waits for its children */
	if (argc < 2)
		return print_all();
	/* A run on a server. Accepted as the first option only, so that no table of options is
	 * needed here. */
	if (argc > 2 && strcmp(argv[1], "run") == 0 && strncmp(argv[2], "--server", 8) == 0)
		return exec_client(argv, false);
	if (v != NULL)
		return v->run(argc - 2, argv + 2);
	if (strcmp(argv[1], "--man") == 0) {
		options_man(verbs, COUNT(verbs), stdout);
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "--complete") == 0)
		return cmd_complete(argc, argv);
	if (is_one_of(argv[1], "--version", "version", "-V")) {
		(void)printf("cordon %s\n", CORDON_VERSION);
		return 0;
	}
	if (is_one_of(argv[1], "--help", "help", "-h"))
		return cmd_help(argc, argv);
	if (argv[1][0] != '-')
		return exec_client(argv, false);
	(void)fprintf(stderr, "cordon: unknown option '%.60s'; see cordon --help\n", argv[1]);
	return EXIT_USAGE;
}
