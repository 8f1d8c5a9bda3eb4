/* stdio_server.h - one MCP server: its program, started as the cell's ordinary user with pipes for
 * its standard streams, and started again when it ends, and the peer that speaks with it. Called by
 * mcp-gateway's main and by its fronts.
 *
 * The program is not trusted. It runs as another user than the gateway, so it cannot read the
 * gateway's memory or its token, unless it becomes root by sudo (server_spawn_lock()). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "incell/mcpgateway/gateway_config.h"
#include "lib/base/log.h"
#include "lib/loop/loop.h"
#include "lib/mcp/client/peer.h"

/* The lines that an MCP server writes to its standard error: logged, and the last ones kept for the
 * report of its end.
 *
 * The log and the report are output of a program of the session, in which cordond masks whole
 * values of secrets. So nothing here divides a line, unless it is longer than the bounds: of the
 * kept lines one whose beginning is gone is left out. */
#define SERVER_WORDS 2048 /* bytes of the kept lines */

struct server_words {
	const char *name; /* of the server */
	char last[SERVER_WORDS];
	size_t n;
	bool cut; /* last[0] is not the beginning of its output */
	size_t total;
	char line[LOG_VALUE_MAX];
	size_t nline;
	bool waited; /* the line has been there at the last tick */
};

/* The last lines as they were written, but for control characters, with a NUL. "" if there are
 * none.
 */
void server_words_last(const struct server_words *w, char ret[SERVER_WORDS + 1]);

struct stdio_server;

struct server_owner {
	/* Its tools are known, for the first time or again. */
	void (*on_tools)(struct stdio_server *s);
	/* It has ended, or does not speak the protocol. why has no control characters. The owner
	 * may stop the loop, but not free the server. */
	void (*on_ended)(struct stdio_server *s, const char *why);
	void *arg;
};

struct stdio_server {
	struct server_owner owner;
	const struct gateway_entry *entry;
	struct loop *loop;
	struct peer peer;
	bool was_ready;
	bool paused;		 /* what it writes is not read now */
	pid_t pid;		 /* 0: no program now */
	int pidfd, in, out, err; /* in: its input. -1 if closed */
	struct loop_fd pid_ready, in_ready, out_ready, err_ready;
	struct loop_timer again;
	unsigned failures; /* in a row */
	uint64_t began_ns;
	struct server_words words;
};

void server_init(struct stdio_server *s, struct loop *l, const struct gateway_entry *entry,
		 struct server_owner owner);
/* Start the program. A failure is reported by on_ended, later. */
void server_start(struct stdio_server *s);
/* About once a second. */
void server_tick(struct stdio_server *s);
/* Send the peer's messages. To be called after calls were begun or cancelled. */
void server_flush(struct stdio_server *s);
/* While paused, its output stays in its pipe: a client reads its answers more slowly. */
void server_pause(struct stdio_server *s, bool pause);
/* Kill the program with its process group, and end all calls. */
void server_stop(struct stdio_server *s, const char *why);
