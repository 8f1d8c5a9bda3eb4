/* stdio_server.h - one MCP server: its program, started as the cell's ordinary user with pipes for
 * its standard streams, and started again when it ends; and the peer that speaks with it. Called by
 * mcp-gateway's main and by its fronts.
 *
 * The program is not trusted. It runs as another user than the gateway, so it cannot read the
 * gateway's memory or its token; unless it becomes root by sudo (server_spawn_lock()). */
#pragma once

#include <sys/types.h>

#include "gateway_config.h"
#include "loop.h"
#include "peer.h"
#include "server_words.h"

struct server;

struct server_owner {
	/* Its tools are known, for the first time or again. */
	void (*on_tools)(struct server *s);
	/* It has ended, or does not speak the protocol. why has no control characters. The owner
	 * may stop the loop, but not free the server. */
	void (*on_ended)(struct server *s, const char *why);
	void *arg;
};

struct server {
	struct server_owner owner;
	const struct gateway_entry *entry;
	struct loop *loop;
	struct peer peer;
	bool was_ready;
	bool paused;		 /* what it writes is not read now */
	pid_t pid;		 /* 0: no program now */
	int pidfd, in, out, err; /* in: what it reads. -1 if closed */
	struct loop_fd pid_ready, in_ready, out_ready, err_ready;
	struct loop_timer again;
	unsigned failures; /* in a row */
	uint64_t began_ns;
	struct server_words words;
};

void server_init(struct server *s, struct loop *l, const struct gateway_entry *entry,
		 struct server_owner owner);
/* Starts the program. A failure is reported by on_ended, later. */
void server_start(struct server *s);
/* About once a second. */
void server_tick(struct server *s);
/* Sends what the peer has written; to be called after calls were begun or cancelled. */
void server_flush(struct server *s);
/* While paused, what it writes stays in its pipe: a client reads its answers more slowly. */
void server_pause(struct server *s, bool pause);
/* Kills the program with its process group, and ends all calls. */
void server_stop(struct server *s, const char *why);
