/* flow.h - one connection of a cell: its structure, and what every stage does with it.
 *
 * A flow passes through stages. flow_accept.c makes it. flow_sniff.c looks at its first bytes
 * (flow_sniff.c: CONNECT of the explicit proxy). Then flow_relay.c connects it and relays bytes
 * unread, or gateway.c handles it as HTTP. flow.c knows no stage: each sets f->stage, a table of
 * what to do when the flow ends or the policy changes.
 *
 * flow_end() and flow_refuse() free the flow: their callers must not use it afterwards. */
#pragma once

#include "egress/control/egress_session.h"
#include "egress/flow/endpoint.h"
#include "egress/flow/handshakes.h"
#include "egress/flow/owner_link.h"
#include "lib/outbound/outbound.h"

#define FLOW_OWN_PORT 1	    /* the listener's own. The cell's packet rules lead all others to it */
#define FLOW_HEAD_MAX 65536 /* bytes of an HTTP head, either way */

struct flow;

struct flow_stage {
	/* Release the stage's resources. cut: the program sees a reset. */
	void (*on_end)(struct flow *f, bool cut);
	/* The policy has changed, or the secrets from `was`. May end the flow. */
	void (*on_policy_change)(struct flow *f, const struct secrets *was);
	bool recorded; /* a flow cut in this stage gets a record of the whole connection */
};

struct flow {
	struct flow *prev, *next;
	struct egress_session *session;
	const struct flow_stage *stage; /* never NULL once the flow waits for anything */
	int fd;				/* owned until a stage takes it over. Then -1 */
	struct loop_fd watch;
	struct loop_timer timer;
	uint64_t start_ns;
	struct owner owner; /* which program made it */
	struct endpoint endpoint;
	bool to_proxy;		     /* to the explicit proxy, and not (yet) a CONNECT tunnel */
	bool proxied;		     /* came through the explicit proxy */
	bool internal;		     /* a request of egress itself: package_fetch.h */
	struct policy_answer answer; /* of policy_connect() */
	const char *scheme, *tls;    /* for the record */
	char sni[HOST_MAX];
	size_t seen;		    /* flow_sniff.c: bytes there at the last look */
	struct handshake handshake; /* flow_sniff.c: waits for its turn */
	uint8_t *first;		    /* owned. Judged bytes, sent before all others */
	size_t first_n;

	bool counted;			/* by session_limits_connection() */
	struct limit_usage *counted_by; /* also as a connection of this rule. NULL: of none */

	struct outbound outbound;
	struct splice_relay *relay;
	struct ip at; /* the address egress is connected to */
	bool connected;
	uint64_t out, in;
	const char *cut; /* why egress ends it. NULL: it does not */

	struct gateway *gateway;
};

/* Take fd over, and the RESOURCE_SHARE_FLOW_FDS that the caller counted. NULL: out of memory (fd
 * is reset, the count given back). */
struct flow *flow_new(struct egress_session *session, int fd);
/* Free everything, without a record. cut: the program sees a reset. */
void flow_end(struct flow *f, bool cut);
/* Ask the policy about its endpoint. Sets f->answer. */
void flow_judge(struct flow *f);
/* Record the connection as a whole. */
void flow_record(struct flow *f, bool allowed, const char *reason);
/* Record it, send a TLS alert if alert > 0, and end it. */
void flow_refuse(struct flow *f, const char *reason, int alert);
/* Count it as a connection of its rule. False: too many, and it was refused. */
bool flow_count(struct flow *f, int alert);
/* Count it as a connection of this rule instead of the last one. False, and why: the rule has too
 * many. */
bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why);

/* The policy or the secrets have changed. A flow or request that no longer complies, or was sent
 * with a secret it could not have now, is cut, with a record. Other flows belong to a rule of the
 * new policy afterwards. Then nothing refers to the old policy's rules and the secrets `was` any
 * more. */
void flow_recheck_all(struct egress_session *session, const struct secrets *was);
/* The session is being detached. */
void flow_cut_all(struct egress_session *session);
/* Close a socket so that its peer sees a reset. */
void flow_reset_fd(int fd);
