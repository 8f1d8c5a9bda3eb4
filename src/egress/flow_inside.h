/* flow_inside.h - what a flow is made of. For flow*.c and gateway*.c only.
 *
 * flow.c has the list, the end and the record of each; flow_sniff.c looks at first bytes;
 * flow_connect.c is the proxy's CONNECT; flow_pass.c connects and passes bytes on unseen; gateway.c
 * and its kin are what HTTP goes through. Whoever calls flow_end() or flow_refuse() touches the
 * flow no more. */
#pragma once

#include "endpoint.h"
#include "flow.h"
#include "http1.h"
#include "outbound.h"

#define FLOW_OWN_PORT 1	    /* of the listener, which all connections are led to */
#define FLOW_SNIFF_MS 10000 /* from its first moment until it is known what it is */
#define FLOW_PASS_IDLE_MS 900000
#define FLOW_HEAD_MAX 65536 /* bytes of a head, either way */

enum flow_state {
	FLOW_SNIFF,
	FLOW_DIAL, /* to be passed on */
	FLOW_PASS,
	FLOW_GATEWAY
};

struct flow {
	struct flow *prev, *next;
	struct egress_session *session;
	enum flow_state state;
	int fd; /* owned while in FLOW_SNIFF and FLOW_DIAL, else -1 */
	struct loop_fd watch;
	struct loop_timer timer;
	uint64_t start_ns;
	struct endpoint endpoint;
	bool door;		     /* an explicit proxy's, and not (yet) a tunnel */
	bool proxied;		     /* came by it */
	struct policy_answer answer; /* of policy_connect() */
	const char *scheme, *tls;    /* for the record */
	char sni[HOST_MAX];
	size_t seen;		/* bytes that were there at the last look */
	struct fair_item shake; /* handshakes.h */
	uint8_t *first;		/* owned; what was judged, and is sent before all that follows */
	size_t first_n;

	bool counted;		 /* by limits_connection(), */
	struct used *counted_by; /* and as one of this rule's; NULL: of none */

	struct outbound outbound;
	struct splice_relay *pass;
	struct ip at; /* where egress is connected to */
	bool connected;
	uint64_t out, in;
	const char *cut; /* why it is ended, if it is by us */

	struct gateway *gateway;
};

/* Frees everything; no record. cut: the program sees that it was cut off. */
void flow_end(struct flow *f, bool cut);
/* Asks the policy about where it goes. */
void flow_judge(struct flow *f);
/* A record about the connection as a whole, now. */
void flow_record(struct flow *f, bool allowed, const char *reason);
/* Record, a TLS alert if alert > 0, end. */
void flow_refuse(struct flow *f, const char *reason, int alert);
/* Counts it as a connection by its rule. False: too many, and it was refused. */
bool flow_count(struct flow *f, int alert);
/* It carries something that this rule allowed: from now on it is counted as one of that rule's.
 * False, and why: that has too many. */
bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why);

void flow_sniff(struct flow *f);				  /* begins to look */
void flow_connect(struct flow *f, const char *bytes, size_t len); /* CONNECT ..., so far */
/* May it be passed on without a look? */
bool flow_is_raw(const struct flow *f);
void flow_pass(struct flow *f); /* to where it wants to go, unseen */
void flow_pass_recheck(struct flow *f);
/* It is this flow's turn (handshakes.h): TLS is terminated here. May end it. */
void flow_handshake(struct flow *f);
/* The name that its certificate is for: in ret, or the flow's own. */
const char *flow_certified(const struct flow *f, char ret[HOST_MAX]);
/* More bytes than were seen are needed. */
void flow_wait_more(struct flow *f, size_t seen);
