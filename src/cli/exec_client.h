/* exec_client.h - verbs that use a server are in another program, cordon-client, installed beside
 * this one. It needs TLS and JSON; loading those would take ten times as long as cordon itself
 * takes to start a cell. */
#pragma once

#include <stdbool.h>

/* Executes cordon-client with these arguments (argv[1] is the verb). Returns, with the exit code,
 * only if that fails; prints why unless quiet. */
int exec_client_become(char **argv, bool quiet);
