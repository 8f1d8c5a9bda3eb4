/* front.h - answers MCP clients: requests about the gateway itself at once, calls of tools by the
 * servers. Called by http_front.c and line_front.c, which move the bytes.
 *
 * Every request gets exactly one answer, or none after front_drop(). */
#pragma once

#include "incell/mcpgateway/stdio_server.h"
#include "lib/mcp/server/mcp_write.h"

#define FRONT_CALL_MS 600000 /* how long a tool may take */
#define FRONT_ANSWER_MAX (PEER_LINE_MAX + 65536)

struct front {
	struct mcp_server about;
	struct stdio_server *servers;
	size_t n;
	bool joined; /* names of tools have their server's in front */
};

struct front_call;

/* The waiter for the answer to one request: a member of the caller's structure. */
struct front_sink {
	/* n is 0 if the answer has no body. Valid during the call. */
	void (*on_answer)(struct front_sink *s, int status, const char *json, size_t n);
	/* A notification that comes before the answer. */
	void (*on_event)(struct front_sink *s, const char *json, size_t n);
	void *arg;
	struct front_call *call; /* the front's. NULL: nothing is in progress */
};

/* joined: several servers as one. Otherwise there is one server. */
void front_init(struct front *f, struct stdio_server *servers, size_t n, bool joined);
/* Both may call on_answer before they return. The body is copied if it is needed longer. */
void front_http(struct front *f, struct front_sink *s, const struct mcp_http *head,
		const char *body, size_t len);
void front_line(struct front *f, struct front_sink *s, bool *legacy, const char *line, size_t len);
/* The client is gone. A call of the newer protocol is cancelled by that. One of the older
 * continues, and its answer is dropped. */
void front_drop(struct front_sink *s, bool cancel);
/* Does a request with this id (as JSON) wait in this sink? */
bool front_is(const struct front_sink *s, const char *id, size_t n);
