#include "exec_client.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run_result.h"

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

int exec_client_become(char **argv, bool quiet)
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
