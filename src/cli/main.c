/* main.c - cordon: the verbs. Those that need a server are in cordon-client. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "fd_std.h"
#include "guest.h"
#include "level.h"
#include "options.h"
#include "profile.h"
#include "exec_client.h"
#include "run_options.h"
#include "serve.h"

#define USAGE_CODE 2

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
	(void)exec_client_become((char *[]){ program, list_verbs, NULL }, true);
	(void)printf("\ncordon VERB --help describes one verb.\n");
	return 0;
}

static const struct verb *find(const char *name)
{
	for (size_t i = 0; i < COUNT(verbs); i++)
		if (strcmp(name, verbs[i]->name) == 0)
			return verbs[i];
	return NULL;
}

/* `cordon help VERB` is `cordon VERB --help`. */
static int help(int argc, char **argv)
{
	static char option[] = "--help";
	const struct verb *v = argc > 2 ? find(argv[2]) : NULL;

	if (argc < 3)
		return print_all();
	if (v != NULL)
		return v->run(1, (char *[]){ option, NULL });
	return exec_client_become((char *[]){ argv[0], argv[2], option, NULL }, false);
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
	const struct verb *v = argc > 1 ? find(argv[1]) : NULL;

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
		return exec_client_become(argv, false);
	if (v != NULL)
		return v->run(argc - 2, argv + 2);
	if (strcmp(argv[1], "--man") == 0) {
		options_man(verbs, COUNT(verbs), stdout);
		return 0;
	}
	if (is_one_of(argv[1], "--version", "version", "-V")) {
		(void)printf("cordon %s\n", CORDON_VERSION);
		return 0;
	}
	if (is_one_of(argv[1], "--help", "help", "-h"))
		return help(argc, argv);
	if (argv[1][0] != '-')
		return exec_client_become(argv, false);
	(void)fprintf(stderr, "cordon: unknown option '%.60s'; see cordon --help\n", argv[1]);
	return USAGE_CODE;
}
