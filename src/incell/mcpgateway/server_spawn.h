/* server_spawn.h - starts the program of an MCP server. Called by stdio_server.c. */
#pragma once

#include <sys/types.h>

#include "incell/mcpgateway/gateway_config.h"

/* Programs started from now on gain no rights by sudo and other set-user-id programs. */
void server_spawn_lock(void);

struct server_pipes {
	pid_t pid;
	int pidfd;
	int in, out, err; /* the gateway's ends, which do not block. in: the input of the program */
};

/* The program leads a process group of its own, has no other descriptors of the gateway, and its
 * environment is the gateway's without the token. As root it becomes the user `user`, or the one
 * with the id 1000. ERR_NOT_FOUND: there is none. install: run the entry's install command, too. */
int server_spawn(const struct gateway_entry *entry, bool install, struct server_pipes *ret,
		 struct err *e) MUST_USE;
