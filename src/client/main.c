/* main.c - cordon-client: the verbs of `cordon` that need a server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "fd_std.h"
#include "verbs.h"

static const struct verb *const verbs[] = {
	&verb_create,	&verb_ls,	&verb_exec,   &verb_run,     &verb_attach, &verb_cp,
	&verb_logs,	&verb_watch,	&verb_events, &verb_net,     &verb_ps,	   &verb_kill,
	&verb_diff,	&verb_pause,	&verb_resume, &verb_timeout, &verb_rm,	   &verb_top,
	&verb_key,	&verb_tenant,	&verb_node,   &verb_policy,  &verb_secret, &verb_template,
	&verb_snapshot, &verb_fork,	&verb_reset,  &verb_layers,  &verb_gc,	   &verb_volume,
	&verb_mcp,	&verb_packages,
};

static int list(FILE *to)
{
	(void)fprintf(to, "\nwith a server:\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		(void)fprintf(to, "  cordon %-8s %s\n", verbs[i]->name, verbs[i]->summary);
	return 0;
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
	fd_std_fill();
	(void)signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc > 1 && i < COUNT(verbs); i++)
		if (strcmp(argv[1], verbs[i]->name) == 0)
			return finish(verbs[i]->run(argc - 2, argv + 2));
	if (argc > 1 && strcmp(argv[1], "--man") == 0) {
		options_man_more("WITH A SERVER", verbs, COUNT(verbs), stdout);
		return finish(0);
	}
	if (argc > 1 && (strcmp(argv[1], "--verbs") == 0 || strcmp(argv[1], "--help") == 0))
		return finish(list(stdout));
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		(void)printf("cordon-client %s\n", CORDON_VERSION);
		return finish(0);
	}
	(void)fprintf(stderr, "cordon: no verb '%.60s'; see cordon --help\n",
		      argc > 1 ? argv[1] : "");
	return ARGS_USAGE;
}
