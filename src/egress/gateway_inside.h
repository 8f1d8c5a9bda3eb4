/* gateway_inside.h - what a gateway is made of. For gateway*.c only.
 *
 * gateway.c has the states and waits; gateway_end.c ends requests; gateway_request.c reads a
 * request and decides; gateway_head.c writes heads anew; gateway_body.c moves bodies;
 * gateway_server.c gets connections to servers; gateway_answer.c reads answers.
 *
 * The rule that keeps it free of use-after-free: only advance() in gateway.c ends a gateway, and it
 * is called by the loop. All others set a state, or `over`. */
#pragma once

#include "buf.h"
#include "chunk.h"
#include "gateway.h"
#include "session_limits.h"
#include "secrets.h"
#include "idle_conns.h"
#include "ws_walk.h"

#define GATEWAY_HEAD_MS 30000	 /* to receive a whole head, from its first byte */
#define GATEWAY_IDLE_MS 300000	 /* between requests */
#define GATEWAY_SHAKE_MS 15000	 /* TLS, either side */
#define GATEWAY_ANSWER_MS 300000 /* without any progress of request or answer */
#define GATEWAY_TUNNEL_MS 900000
#define GATEWAY_LINGER_MS 2000
#define GATEWAY_YOUNG_MS 2000  /* a connection kept for a request that cannot be sent twice */
#define GATEWAY_INTERIM_MAX 16 /* answers before the answer (1xx) */

enum gateway_state {
	GATEWAY_SHAKE,	  /* TLS with the cell */
	GATEWAY_HEAD,	  /* waiting for a request, or inside its head */
	GATEWAY_COLLECT,  /* its body is collected, to put secrets in */
	GATEWAY_DIAL,	  /* waiting for a server */
	GATEWAY_EXCHANGE, /* request and answer on their way */
	GATEWAY_TUNNEL,	  /* both sides speak something else now */
	GATEWAY_LINGER /* answered, our side is shut: input is dropped, or a reset would overtake it
			*/
};

/* One direction's body. */
struct gateway_body {
	enum http1_framing framing;
	uint64_t left;		    /* HTTP1_LENGTH */
	struct chunk chunk;	    /* HTTP1_CHUNKED */
	bool rechunk;		    /* it goes on in chunks; else as it is */
	enum http1_framing goes_on; /* of a request: how the server gets it, in head and body */
	uint64_t length, sent;	    /* HTTP1_LENGTH: what the head says, what went so far */
	bool done;
	bool spent;  /* there is more, and no more may go */
	bool frames; /* WebSocket: only frames go on, and `ready` bytes of the input are */
	struct ws_walk walk;
	size_t ready;
	const char *bad; /* it cannot be read on */
	int bad_status;	 /* what its sender is told then, if it can be told */
};

struct gateway {
	struct flow *flow;
	struct egress_session *session;
	struct loop *loop;
	struct stream cell;
	struct upstream *up; /* owned; NULL: none */
	struct outbound outbound;
	struct loop_timer timer;
	struct loop_task task;
	uint64_t deadline_ns;
	enum gateway_state state;
	bool tls; /* towards the cell, and so towards the server */
	bool over, reset;
	bool first; /* no request came yet */
	size_t scanned;

	/* the request under way */
	bool asked;	 /* there is one */
	struct buf head; /* its head; what follows points into it */
	struct http1_request r;
	uint64_t start_ns;
	struct endpoint endpoint;
	struct buf text; /* method, path, query: NUL-terminated, one behind the other */
	const char *method, *path, *query;
	const struct policy_rule *rule;
	bool allowed;
	char reason[POLICY_REASON_MAX + 64];
	struct secrets_use use;
	bool looks;  /* the policy looks at requests: this one must mean what was judged */
	bool strict; /* a secret may be in the answer: it must be readable */
	bool knows;  /* the server can know values: those in known */
	struct mask_pick known;
	struct buf ask; /* as it goes to the server */
	struct buf collected;
	struct gateway_body out, in;
	bool retriable, collects;

	/* its answer */
	bool answered; /* something of it went to the cell */
	bool heard;    /* something of it came from the server */
	bool up_keep, cell_keep;
	size_t up_scanned;
	unsigned interim;
	int status;
	uint64_t bytes_out, bytes_in;
	struct llm_call *model;
	const struct mask *mask; /* NULL: there is nothing to find in the answer */
	struct mask_stream masked;
	struct loop_timer tick; /* while something is held back */
	bool has_pipe, no_pipe; /* no_pipe: none is to be had */
	int pipe[2];		/* owned, if there is one; see gateway_splice.c */
	size_t piped;		/* what is in it */
	size_t memory;		/* that is counted for it: share.h */
};

/* ---- gateway.c */
void gateway_wait(struct gateway *x, uint64_t ms); /* until it is too late, from now */
void gateway_gone(struct gateway *x);		   /* the cell's side has ended */
void gateway_later(struct gateway *x);		   /* advance() in the next turn */
void gateway_ready(struct stream *s);		   /* of both streams */

/* ---- gateway_end.c */
/* The request goes nowhere: an answer of ours, if none has begun, else it is cut. */
void gateway_deny(struct gateway *x, int status, const char *reason);
void gateway_fail(struct gateway *x, int status, const char *reason);
/* The request is over: record, and everything of it is forgotten. */
void gateway_done(struct gateway *x);
/* The policy's word on the request under way; sets rule and reason. */
bool gateway_ask(struct gateway *x);
/* How many bytes may go this way now, as limits_left(); what went is told right after. */
uint64_t gateway_left(struct gateway *x, enum used_way way, uint64_t want);
void gateway_count(struct gateway *x, enum used_way way, uint64_t n);
/* There is more to go this way than may: it is cut, or refused. */
void gateway_spent(struct gateway *x, enum used_way way);
/* Parts of these, for gateway.c. */
void gateway_note(struct gateway *x, const char *reason); /* for the record */
void gateway_record(struct gateway *x);
void gateway_forget(struct gateway *x);
void gateway_drop_server(struct gateway *x);

/* ---- gateway_request.c: a head of n bytes is in cell.in */
void gateway_request(struct gateway *x, size_t n);
void gateway_collect(struct gateway *x);
void gateway_know(struct gateway *x); /* finds out what the server can know */

/* ---- gateway_head.c */
int gateway_head_request(struct gateway *x, const char **ret_why) MUST_USE;
/* The headers that rules may look at: not those that Connection names, which a server never sees.
 * ret has room for HTTP1_HEADERS_MAX. */
size_t gateway_head_judged(const struct gateway *x, struct http1_header *ret);
/* interim: a 1xx. Adds it to what the cell gets. */
int gateway_head_answer(struct gateway *x, const struct http1_response *a, bool interim) MUST_USE;

/* ---- gateway_body.c */
void gateway_body_begin(struct gateway_body *b, enum http1_framing framing, uint64_t length,
			uint64_t max);
/* From now on it is WebSocket frames, until the connection ends. masked: a client's. */
void gateway_body_frames(struct gateway_body *b, bool masked);
/* Decides how the request's body goes on, once: the head and the body are both written by it. */
void gateway_body_frame(struct gateway *x);
/* Each moves what it can. True if anything moved or changed. */
bool gateway_body_out(struct gateway *x);
bool gateway_body_in(struct gateway *x);
/* So many bytes are masked: they count in the session's share of this turn. */
void gateway_masked(struct gateway *x, size_t n);
/* gateway_splice.c: does the answer's body go on without being read here? Then gateway_splice()
 * moves what it can, and says how much. */
bool gateway_splices(const struct gateway *x);
uint64_t gateway_splice(struct gateway *x, uint64_t most);
void gateway_splice_end(struct gateway *x);

/* ---- gateway_server.c */
void gateway_dial(struct gateway *x, bool fresh); /* fresh: not one that was kept */
bool gateway_dialed(struct gateway *x);		  /* progress while in GATEWAY_DIAL */
void gateway_lost(struct gateway *x);		  /* the server's side ended too early */

/* ---- gateway_ws.c: has the server agreed to the WebSocket that was asked for? NULL, or why not.
 */
const char *gateway_ws_flaw(const struct gateway *x, const struct http1_response *a);

/* ---- gateway_answer.c */
bool gateway_answer(struct gateway *x); /* progress of the answer */
