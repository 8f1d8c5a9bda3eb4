/* outbound.h - the only place where cordon-egress connects to anything outside (the resolver's
 * queries aside). Every address is judged right before connect(2), each time. */
#pragma once

#include "completion.h"
#include "egress_session.h"

struct outbound_call;

struct outbound {
	/* Connected: fd is the callee's, non-blocking, no Nagle; ip is where to. Or fd is -1:
	 * ERR_NOT_FOUND (no such name), ERR_DENIED (its addresses may not be reached: the message
	 * says which and why), ERR_SYSTEM (refused, unreachable, sys ETIMEDOUT). */
	void (*done)(struct outbound *o, int fd, const struct ip *ip, const struct err *e);
	void *arg;
	struct outbound_call *call; /* NULL: nothing under way */
	/* The rest is for outbound.c only. */
	struct completion end; /* of the call: once, in the loop, after it is freed */
	struct ip at;
	int fd;
	bool connected; /* fd is there, and was not given yet */
};

/* to->host is resolved, or to->ip used. All records are looked at: one that may not be reached is
 * left out, and if none is left it is refused. Happy Eyeballs (RFC 8305): families in turn, 250 ms
 * apart. 10 s in all. Through the policy's SOCKS5 proxy, if it has one: then the proxy resolves.
 * done comes once, later, never from inside, unless it is cancelled; whatever it is called with,
 * nothing is under way any more then, and the outbound may be started again or freed. */
void outbound_start(struct egress_session *g, const struct policy_target *to, struct outbound *o);
/* At any time, also if nothing is under way. */
void outbound_cancel(struct outbound *o);
/* Might a connection that was made to this address be made by the policy of now? False, and why. */
bool outbound_complies(const struct egress_session *g, const struct policy_target *to,
		       const struct ip *at, struct err *ret_why) MUST_USE;
