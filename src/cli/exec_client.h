/* exec_client.h - verbs that talk to a server are those of another program, cordon-client, which is
 * found beside this one: it needs TLS and JSON, and this one starts cells in a tenth of the time
 * that loading those would take. */
#pragma once

#include <stdbool.h>

/* Becomes cordon-client with these arguments (argv[1] is the verb). Returns, with the exit code,
 * only if it cannot, having said why unless quiet. */
int exec_client_become(char **argv, bool quiet);
