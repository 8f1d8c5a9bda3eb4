/* fixture.h - an MCP server with the tools, resources and prompts that the official conformance
 * suite calls for, on src/lib/mcp/server and the HTTP server of cordond. On loopback, without keys.
 *
 * fixture.c has the server and the streams, fixture_tools.c the tools, fixture_inputs.c those that
 * ask the user, fixture_content.c resources and prompts. */
#ifndef CORDON_TESTS_MCP_FIXTURE_H
#define CORDON_TESTS_MCP_FIXTURE_H

#include "lib/base/list.h"
#include "lib/loop/loop.h"
#include "lib/mcp/server/mcp_listen.h"
#include "sealed_state.h"
#include "lib/net/server.h"

/* A request that is being answered. */
struct call {
	struct exchange *x;
	struct mcp_request r;
	bool stream;		  /* the answer has begun as a stream of events */
	bool listening;		  /* subscriptions/listen */
	struct mcp_listen listen; /* then */
	struct loop_timer timer;
	unsigned step; /* of a tool that takes time */
	void (*on_step)(struct call *call);
	char question[40]; /* id of the request that a legacy client was sent; "": none */
	void (*on_answer)(struct call *call, const struct mcp_request *answer);
	struct call *next, **link; /* in the list of open calls */
};

extern struct mcp_server the_server;
extern const struct mcp_sealer the_sealer;

/* ---- fixture.c */
/* Sends the message and ends the answer. Releases j. */
void call_finish(struct call *call, struct json *j);
void call_refuse(struct call *call, const struct mcp_fault *f);
/* Sends a notification or request on the stream, which begins here if it has not. Releases j. */
void call_send(struct call *call, struct json *j);
/* Calls on_step later, with call->step one higher. */
void call_step_after(struct call *call, unsigned ms, void (*on_step)(struct call *call));
/* Sends a request to a legacy client; on_answer gets the response. */
void call_ask(struct call *call, const char *method, const char *params,
	      void (*on_answer)(struct call *call, const struct mcp_request *answer));
/* Tells all that listen. */
void announce(enum mcp_change what);

/* ---- the others */
void tools_call(struct call *call);
void resources_read(struct call *call);
void prompts_list(struct call *call);
void prompts_get(struct call *call);
void complete(struct call *call);
/* A result of one text, and the end. */
void finish_text(struct call *call, const char *text);

/* Handlers of fixture_inputs.c. */
void ask_elicitation(struct call *call);
void ask_sampling(struct call *call);
void ask_roots(struct call *call);
void ask_state(struct call *call);
void ask_several(struct call *call);
void ask_rounds(struct call *call);
void ask_tampered(struct call *call);
void ask_capabilities(struct call *call);
void ask_prompt(struct call *call);

extern const char fixture_png[], fixture_wav[]; /* base64 */
extern const struct mcp_tool fixture_tools[];
extern const size_t fixture_tools_n;
extern const struct mcp_resource fixture_resources[], fixture_templates[];
extern const size_t fixture_resources_n, fixture_templates_n;
extern bool fixture_changed; /* a trigger has changed the list of tools */

#endif
