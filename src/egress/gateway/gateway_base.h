/* gateway_base.h - the structure of a gateway, and what all its parts use. For gateway*.c only.
 *
 * gateway.c has the states and waits. gateway_request.c reads a request and decides.
 * gateway_judge.c asks the policy. gateway_head.c writes heads. gateway_server.c gets connections
 * to servers. gateway_answer.c reads answers. gateway_body.c and gateway_splice.c move bodies.
 * gateway_end.c ends requests. gateway_tap.c verifies package files. gateway_file.c answers without
 * a server.
 *
 * The rule that prevents use after free: only advance() in gateway.c ends a gateway, and only the
 * loop calls it. All other code sets a state, or `over`. */
#pragma once

#include "egress/flow/flow.h"
#include "egress/flow/idle_conns.h"
#include "egress/secrets/secrets.h"
#include "lib/base/buf.h"
#include "lib/http/chunk.h"
#include "lib/http/ws.h"

struct llm_call;     /* llm_call.h */
struct gateway_file; /* gateway_file.c */
struct gateway_tap;  /* gateway_tap.c */
struct package_gate; /* package_gate_base.h */
struct gateway;

#define GATEWAY_HEAD_MS 30000	   /* to receive a whole head, from its first byte */
#define GATEWAY_IDLE_MS 300000	   /* between requests */
#define GATEWAY_HANDSHAKE_MS 15000 /* a TLS handshake, either side */
#define GATEWAY_ANSWER_MS 300000   /* without progress of request or answer */
#define GATEWAY_TUNNEL_MS 900000
#define GATEWAY_LINGER_MS 2000
#define GATEWAY_YOUNG_MS 2000  /* idle time of a kept connection, for a request not sent twice */
#define GATEWAY_INTERIM_MAX 16 /* 1xx answers before the final one */

enum gateway_state {
	GATEWAY_HANDSHAKE, /* TLS with the cell */
	GATEWAY_HEAD,	   /* waiting for a request, or inside its head */
	GATEWAY_COLLECT,   /* collecting its body, to put secrets in */
	GATEWAY_PACKAGE,   /* the package gate waits for facts it must know */
	GATEWAY_DIAL,	   /* waiting for a connection to the server */
	GATEWAY_EXCHANGE,  /* request and answer in progress */
	GATEWAY_TUNNEL,	   /* WebSocket frames, both ways */
	GATEWAY_FILE,	   /* answered by egress itself: gateway_file.h */
	/* Answered, and the sending side shut. Input is read and dropped: closing with unread bytes
	 * sends a reset, which may overtake the answer. */
	GATEWAY_LINGER
};

/* The body of one direction. */
struct gateway_body {
	enum http1_framing framing;
	uint64_t left;		    /* HTTP1_LENGTH */
	struct chunk chunk;	    /* HTTP1_CHUNKED */
	bool rechunk;		    /* sent on in chunks. Else as it came */
	enum http1_framing goes_on; /* of a request: framing towards the server, in head and body */
	uint64_t length, sent;	    /* HTTP1_LENGTH: as in the head, and sent so far */
	bool done;
	bool limit_reached; /* more has arrived, but a limit is reached */
	bool frames;	    /* WebSocket: the first `ready` bytes of the input are valid frames */
	struct ws_walk walk;
	size_t ready;
	const char *bad; /* NULL, or why it cannot be read on */
	int bad_status;	 /* the status for its sender then, if one can be sent */
};

/* The package gate's part in a request, at the places where the gateway asks. It knows the gateway,
 * not the other way round: package_gate.c sets x->gate. */
struct gateway_gate {
	/* The head of the server's final answer. False: it is dealt with, and not passed on. */
	bool (*on_head)(struct gateway *x, const struct http1_response *a);
	/* The request is recorded. It ends. */
	void (*on_record)(struct gateway *x);
	void (*on_end)(struct gateway *x);
	/* The policy has changed, and its rules still allow the request. False: x->reason says why
	 * it must be cut. */
	bool (*on_policy_change)(struct gateway *x);
	/* Is this header of the program not to be sent on? What is sent instead, as lines. */
	bool (*drops)(const struct gateway *x, struct http1_span name);
	const char *(*headers)(const struct gateway *x);
	/* Is a refusal written as {"error": ...}? */
	bool (*wants_json)(const struct gateway *x);
	size_t (*memory)(const struct gateway *x);
};

/* Limits of a package file, beside those of session and rule. 0: none. */
struct gateway_budget {
	bool counts;	    /* against the session's budget of packages */
	uint64_t all, file; /* bytes of all the session's package files, and of this one */
	uint64_t sent;	    /* of the answer's body, of any request */
};

struct gateway {
	struct flow *flow;
	struct egress_session *session;
	struct loop *loop;
	struct gateway_stream cell;
	struct upstream *up; /* owned. NULL: none */
	struct outbound outbound;
	struct loop_timer timer;
	struct loop_task task;
	uint64_t deadline_ns;
	enum gateway_state state;
	bool tls;	  /* towards the cell, and therefore towards the server */
	bool over, reset; /* advance() ends it. reset: the program sees a reset */
	bool first;	  /* no request so far */
	size_t scanned;

	/* The request in progress. */
	bool has_request; /* there is one */
	struct buf head;  /* its head. The next members point into it */
	struct http1_request r;
	uint64_t start_ns;
	struct endpoint endpoint;
	struct buf text; /* method, path, query: NUL-terminated, one after the other */
	const char *method, *path, *query;
	const struct policy_rule *rule;
	bool allowed;
	char reason[POLICY_REASON_MAX + 64];
	struct secrets_use use;
	bool by_registry; /* no rule allows it, but the entry of a registry (packages_policy.h) */
	bool inspected; /* the policy inspects requests: headers that rewrite one are not sent on */
	bool plain_answer; /* a secret may be in the answer: neither compressed nor partial */
	bool server_knows; /* the server can know secret values: those in known_secrets */
	struct mask_pick known_secrets;
	struct buf ask; /* as it is sent to the server */
	struct buf collected;
	struct gateway_body out, in;
	bool retriable, collects;

	/* Its answer. */
	bool answered;	   /* some of it was sent to the cell */
	bool answer_began; /* some of it came from the server */
	bool up_keep, cell_keep;
	size_t up_scanned;
	unsigned interim;
	int status;
	uint64_t bytes_out, bytes_in;
	struct llm_call *model;
	const struct gateway_gate *gate; /* NULL: the request is for no package */
	struct package_gate *package;	 /* owned by the gate */
	struct gateway_budget budget;
	const struct mask *mask; /* NULL: the answer is not masked */
	struct mask_stream masked;
	struct loop_timer tick;	   /* set while the mask holds bytes back */
	bool has_pipe, no_pipe;	   /* no_pipe: none could be opened */
	int pipe[2];		   /* owned, if has_pipe. See gateway_splice.c */
	size_t piped;		   /* bytes in the pipe */
	struct gateway_tap *tap;   /* owned. NULL: the answer is not of a package file */
	struct gateway_file *file; /* owned. Of GATEWAY_FILE */
	size_t memory;		   /* counted for it: resource_share.h */
};

/* Set the deadline of the current state. */
void gateway_wait(struct gateway *x, uint64_t ms);
/* Call advance() at the end of this turn. */
void gateway_defer(struct gateway *x);
/* The program's side has ended: the gateway ends. */
void gateway_client_gone(struct gateway *x);
/* Set the reason in the record. */
void gateway_set_reason(struct gateway *x, const char *reason);
/* How many bytes may go this way now, as session_limits_left(). Moved bytes are counted right
 * after. */
uint64_t gateway_bytes_left(struct gateway *x, enum limit_way way, uint64_t want);
void gateway_count_bytes(struct gateway *x, enum limit_way way, uint64_t n);
/* Bytes of the answer's body that the budget of packages leaves, and why there are no more. */
uint64_t gateway_budget_left(const struct gateway *x, const char **ret_why);
/* Count n bytes that pass the mask in the session's share of this turn. */
void gateway_count_masked(struct gateway *x, size_t n);
/* How many moved bytes a masked byte counts as. There is a mask. */
uint64_t gateway_mask_weight(const struct gateway *x);
