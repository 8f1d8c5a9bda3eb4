/* endpoint_call.h - one request to the endpoint of a session's MCP servers. For the files of the
 * endpoint: mcp_endpoint.c reads requests, endpoint_answer.c writes answers and lists tools,
 * endpoint_call.c calls them, endpoint_result.c masks what they return. Every request is answered
 * once; endpoint_send() is the last thing that its caller does. */
#pragma once

#include "call_record.h"
#include "jobs.h"
#include "mask.h"
#include "mcp_write.h"
#include "servers_part.h"
#include "sse_stream.h"

struct call {
	struct sse_stream stream; /* first, see sse_stream.c */
	struct request *r;
	struct mcp_request q;
	struct mcp_server about;
	struct call_record record;
	struct peer_call peer;
	struct completion use; /* until the session of the server runs: it may be paused */
	char server[JOIN_SERVER_MAX + 1]; /* whose call it is: the link may be gone */
	struct loop_timer timer;
	struct loop_timer look; /* until the server of a session that runs is ready */
	struct json answer;
	bool streams, done, counts; /* counts: there is a record to write */
	int status;
	unsigned waits, looks;
	/* endpoint_result.c's: the result, which is masked in place. */
	struct job job;
	struct mask_work mask;
	struct link_result wait;
	char *result; /* owned */
	size_t nresult;
	bool masked;
	size_t charged; /* bytes that are counted for the tenant */
};

/* ---- endpoint_answer.c */

/* Empties c->answer, which then grows up to max bytes. */
void endpoint_begin(struct call *c, size_t max);
/* Sends c->answer. The record is in the store before the client has the answer. */
void endpoint_send(struct call *c);
/* A result with isError. */
void endpoint_error(struct call *c, const char *fmt, ...) PRINTF(2, 3);
void endpoint_fault(struct call *c, struct mcp_fault *f);
void endpoint_list_tools(struct call *c);
/* The callback of its stream. */
void endpoint_on_room(struct request *r);

/* ---- endpoint_call.c */

/* The server of the tool that is called, and where the tool's own name begins in the record; NULL:
 * there is none. */
struct server_link *endpoint_server(struct call *c, const char **ret_tool);
void endpoint_call_tool(struct call *c);
/* Nothing is under way for it any more, here or at the server: neither era gets the answer. */
void endpoint_cancel(struct call *c);

/* ---- endpoint_result.c */

/* Answers with the result of the server, now or later. */
void endpoint_result(struct call *c, struct json_value result);
void endpoint_result_release(struct call *c);
/* The answer has left c->answer: its bytes are counted where they are now. */
void endpoint_result_sent(struct call *c);
