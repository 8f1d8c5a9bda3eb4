/* main.c - cordon: the verbs. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "fd_std.h"
#include "guest.h"
#include "options.h"
#include "profile.h"
#include "exec_client.h"
#include "run_options.h"
#include "serve.h"

static const struct verb *const verbs[] = { &run_verb, &serve_verb, &doctor_verb, &guest_verb,
					    &profile_verb };

static void usage(FILE *to)
{
	(void)fprintf(to, "cordon %s - runs code you do not trust, in cells\n\n", CORDON_VERSION);
	for (size_t i = 0; i < COUNT(verbs); i++)
		(void)fprintf(to, "  cordon %-8s %s\n", verbs[i]->name, verbs[i]->summary);
	(void)fprintf(to, "\ncordon VERB --help describes one verb.\n");
	(void)fflush(to);
}

int main(int argc, char **argv)
{
	static char list_verbs[] = "--verbs";

	fd_std_fill(); /* the caller may have closed them */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(
		SIGCHLD,
		SIG_DFL); /* the caller may ignore it, but this program waits for its children */
	/* A run on a server. Accepted as the first option only, so that no table of options is
	 * needed here. */
	if (argc > 2 && strcmp(argv[1], "run") == 0 && strncmp(argv[2], "--server", 8) == 0)
		return exec_client_become(argv, false);
	for (size_t i = 0; argc > 1 && i < COUNT(verbs); i++)
		if (strcmp(argv[1], verbs[i]->name) == 0)
			return verbs[i]->run(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "--man") == 0) {
		options_man(verbs, COUNT(verbs), stdout);
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cordon %s\n", CORDON_VERSION);
		return 0;
	}
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		usage(stdout);
		/* cordon-client adds its own verbs to the list, if it is installed. */
		(void)exec_client_become((char *[]){ argv[0], list_verbs, NULL }, true);
		return 0;
	}
	if (argc > 1 && argv[1][0] != '-')
		return exec_client_become(argv, false);
	if (argc > 1)
		(void)fprintf(stderr, "cordon: unknown option '%.60s'\n", argv[1]);
	usage(stderr);
	return 125;
}
