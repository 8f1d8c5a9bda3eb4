/* tool.h - one call of a tool: from its arguments to its result.
 *
 * A call is the state of its request (POST /mcp). A tool is a small asynchronous operation over the
 * core: its start() reads arguments already checked against its schema, starts its work, and later
 * fills in the result:
 *
 *	tool_open(c);			members of the structured result follow in c->out
 *	json_text(&c->out, ...);
 *	tool_text(c, bytes, n);		content blocks, any number
 *	tool_done(c);			answers. c must not be used after it
 *
 * Failures that a model can correct are answered by reply_error() and its relatives
 * (front/web/reply.h), as in the other interfaces: this one's dialect makes a result with isError
 * of them. A tool's release() stops all that the tool has started: the client may be gone at any
 * moment. */
#pragma once

#include "front/web/request.h"
#include "front/web/sse_out.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"
#include "lib/json/json_tree.h"
#include "lib/mcp/server/mcp_request.h"
#include "lib/mcp/server/mcp_server.h"

struct tool_call;

struct tool {
	struct mcp_tool shown; /* arg is the tool itself */
	unsigned scope;	       /* TENANT_READ or TENANT_SESSIONS */
	size_t own_size;       /* of the tool's own state */
	void (*start)(struct tool_call *c);
	/* Once a second while it lasts: how far it is, for a client that asked. True: *ret_done and
	 * message (which may stay "") are set. May be NULL. */
	bool (*progress)(struct tool_call *c, uint64_t *ret_done, struct buf *message);
	/* Before release(): the client does not wait for it any more, and wants it ended. May be
	 * NULL. */
	void (*cancel)(struct tool_call *c);
	/* The server stops: answer with the known facts. May be NULL: 503. */
	void (*drain)(struct tool_call *c);
	void (*release)(struct tool_call *c); /* may be NULL */
};

struct tool_call {
	struct sse_out stream; /* first, see paced_stream.h */
	struct tool_call *next, **link;
	struct request *r;
	struct mcp_request q;
	struct mcp_server server;
	const struct tool *tool; /* NULL: another method */
	void *own;		 /* owned: the tool's state */
	struct json out;	 /* the structured result */
	struct json content;
	struct json answer;   /* the whole message, when it is complete */
	size_t held, counted; /* bytes counted for the tenant: of a file, and beyond */
	struct loop_timer tick;
	unsigned seconds;
	uint64_t shown_done; /* progress sent last */
	bool streams;	     /* the answer is a stream of events */
	bool done, cancelled;
	bool tls;
	/* Of resources/read: the tool's result becomes the content of a resource. */
	bool resource;
	int status;	  /* of the answer. 0: 200 */
	struct buf plain; /* text that the tool gave */
	char made[256];	  /* arguments that the URI stands for */
	struct json_tree made_tree;
	char client[64]; /* Mcp-Session-Id, which a client may choose: see open_calls_*() below */
};

#define TOOL_RESULT_MAX (4U << 20)
#define TOOL_PROGRESS_TEXT ((size_t)256)

/* The call of a request. */
struct tool_call *tool_of(const struct request *r);
/* Start the call. Arguments were checked. */
void tool_start(struct tool_call *c, const struct tool *t);
/* For the request's release function. */
void tool_release(struct tool_call *c, bool answered);
/* End the call because the client asked for it. It gets an empty answer. */
void tool_cancel(struct tool_call *c);

/* ---- arguments */
/* Copy a text argument, "" if absent. ERR_INVALID: too long, or with a NUL. */
int tool_arg_text(const struct tool_call *c, const char *name, char *ret, size_t cap,
		  struct err *e) MUST_USE;
uint64_t tool_arg_number(const struct tool_call *c, const char *name, uint64_t otherwise);
bool tool_arg_bool(const struct tool_call *c, const char *name);
/* Take session_id into the request. False: it is no id, and the call was answered. */
bool tool_take_session(struct tool_call *c) MUST_USE;
/* Find the named execution, and take its session into the request as r->id. False: this tenant has
 * none, and the call was answered. */
bool tool_take_execution(struct tool_call *c) MUST_USE;

/* ---- results */
void tool_open(struct tool_call *c);
/* A member of the structured result with text from a cell: control characters are shown, and values
 * of the secrets of the request's session covered. If the session is gone, so is its mask: then all
 * of the text is covered. */
void tool_shown(struct tool_call *c, const char *name, const char *text);
/* tool_shown() for any JSON. */
void tool_shown_in(const struct tool_call *c, struct json *j, const char *name, const char *text);
/* tool_shown() for text masked before it was stored. */
void tool_shown_stored(struct json *j, const char *name, const char *text);
void tool_text(struct tool_call *c, const void *text, size_t n);
void tool_image(struct tool_call *c, const char *type, const void *bytes, size_t n);
void tool_link(struct tool_call *c, const char *uri, const char *name, const char *type);
void tool_done(struct tool_call *c);
/* Send c->answer as it is. */
void tool_send(struct tool_call *c);
/* A result with isError and this text. */
void tool_failed(struct tool_call *c, const char *text);

/* ---- calls in progress
 *
 * The open calls, for notifications/cancelled of the legacy era.
 *
 * No session of the protocol is kept between requests. A call is known by its tenant, the key and
 * the address that it came with, the client's request id, and Mcp-Session-Id if the client sends
 * its own (cordon mcp does). If two clients behind one address share a key and a request id,
 * neither request is cancelled. */

void open_calls_add(struct tool_call *c);
void open_calls_remove(struct tool_call *c); /* safe if it was never added */

/* Cancel the call that this notification means, if there is exactly one. */
void open_calls_cancel(const struct tool_call *from);
