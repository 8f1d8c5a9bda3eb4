/* server_link.h - one MCP server of a session: the server's own session, the execution of
 * mcp-gateway there, and the connection to that. Called by servers_part.c.
 *
 * Only the rows outlive a daemon: another daemon finds the session, its execution continues, and
 * the daemon connects again. The cell's bytes are untrusted (lib/mcp/client/peer.h). */
#pragma once

#include "daemon/execution/dial.h"
#include "daemon/execution/execution.h"
#include "daemon/session/session.h"
#include "front/mcpservers/server_spec.h"
#include "front/mcpservers/tool_policy.h"
#include "lib/loop/jobs.h"
#include "lib/mask/mask.h"
#include "lib/mcp/client/link_proof.h"
#include "lib/mcp/client/peer.h"
#include "lib/mcp/client/tool_list.h"

/* ---- tools without values of secrets
 *
 * Values of secrets in definitions of tools, which a server writes as it likes,
 * are covered as in results: in pieces, because a page may have a MiB. Called by server_link.c. */

/* All zero but for the first two at the beginning of a page. */
struct tool_masking {
	size_t at;   /* of the list: the next tool to mask */
	size_t kept; /* where it goes: tools before are done */
	struct mask_work work;
};

/* Mask some bytes of the list from `at` on. A tool with a value in its name is dropped. A
 * definition made invalid as JSON becomes an empty one. True: all of the list is masked. */
bool masked_tools_piece(struct tool_masking *w, struct tool_list *l, const struct session *s);
void masked_tools_release(struct tool_masking *w);

/* A result that waits until it is masked and answered. */
struct link_result {
	struct link_result *next, **link; /* of the link. Link NULL: not waiting */
	struct server_link *of;
	size_t n;
};

struct server_link {
	struct server_link *next, **link; /* all of the node */
	struct session *session;
	struct server_spec spec;
	struct peer peer;
	struct tool_pins pins;
	char failure[256]; /* why it cannot be used. "": it can, or it is starting */
	bool was_ready;
	/* Its tools are known, or it has failed. */
	void (*on_news)(struct server_link *k);
	/* The rest is server_link.c's. */
	struct loop *loop;
	struct dial dial;
	int fd; /* borrowed from the dial. -1: not connected */
	/* Until mcp-gateway has shown that it knows the token (link_proof.h). */
	bool proving;
	char token[LINK_WORD + 1], nonce[LINK_WORD + 1], greeting[2 * LINK_WORD + 3];
	size_t ngreeting;
	uint64_t dialed_ns;
	struct loop_fd ready;
	bool unwatched;	    /* the other side hung up while nothing may be read */
	struct job reading; /* of the tenant: bytes are read and understood in its turns */
	struct job masking; /* of the tenant, too: a page of its tools */
	struct tool_masking page;
	struct tenant *counted_for; /* of what waits in the peer, so many bytes: */
	size_t counted;
	struct link_result *results;
	size_t waiting; /* bytes of results */
	struct loop_timer timer;
	struct completion use, made;
	uint64_t started_ns; /* the program's last start. 0: by an earlier daemon */
	unsigned starts;
	unsigned losses; /* connections in a row over which the tools were not listed */
	bool ended;
};

/* NULL: no memory. Take the spec over. */
struct server_link *server_link_new(struct loop *l, struct server_spec *spec) MUST_USE;
/* Its session runs, or was left by an earlier daemon. */
void server_link_start(struct server_link *k);
/* The session continues without its cell: the program did not end by itself, and is started at once
 * in another cell. */
void server_link_cell_gone(struct server_link *k);
/* The session ends: all calls end. Repeatable. */
void server_link_end(struct server_link *k, const char *why);
void server_link_free(struct server_link *k);
/* Send the peer's output, after calls were begun or cancelled. */
void server_link_flush(struct server_link *k);
/* A result of n bytes waits. While the results of a link have more than some MiB, nothing is read
 * from it: so results of a tenant's servers take memory only as fast as they are answered. */
void server_link_hold(struct server_link *k, struct link_result *w, size_t n);
/* It does not any more. Repeatable, and safe if it is all zero or the link is gone. */
void server_link_let_go(struct link_result *w);
/* Its tools are not known yet to this daemon, or it is being connected to again. */
bool server_link_is_starting(const struct server_link *k);
/* "starting", "ready" or "failed". */
const char *server_link_state(const struct server_link *k);
