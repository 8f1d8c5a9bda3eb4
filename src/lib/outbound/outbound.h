/* outbound.h - makes connections to servers, for cordon-egress and cordon-pull. It is the only
 * place where these two connect (but for the DNS queries of resolver_query.c), and must stay so:
 * every address is judged right before connect(2), each time. */
#pragma once

#include "lib/loop/completion.h"
#include "lib/outbound/resolver.h"
#include "lib/policy/policy.h"

struct outbound_call;

/* For whom a connection is made. All borrowed, and valid until the call has ended. */
struct outbound_from {
	struct loop *loop;
	struct resolver *resolver;
	struct resolver_owner *lookups; /* for which its lookups are counted. NULL: not counted */
	/* Where the current policy is found: it may be replaced during a call. */
	struct policy *const *policy;
};

struct outbound {
	/* Connected: fd, non-blocking, TCP_NODELAY, now belongs to the callee. ip is its address.
	 * Or fd is -1: ERR_NOT_FOUND (no such name), ERR_DENIED (the message says which address,
	 * and why), ERR_SYSTEM (refused, unreachable, sys ETIMEDOUT). */
	void (*on_done)(struct outbound *o, int fd, const struct ip *ip, const struct err *e);
	void *arg;
	struct outbound_call *call; /* NULL: nothing in progress */
	/* Private to outbound.c. */
	struct completion end; /* of the call: once, by the loop, after the call is freed */
	struct ip at;
	int fd;
	bool connected; /* fd is connected, and on_done() was not called yet */
};

/* to->host is resolved, or to->ip used. Addresses that may not be reached are left out. If none is
 * left it is refused. Happy Eyeballs (RFC 8305): families in turn, 250 ms apart. 10 s in all. If
 * the policy has a SOCKS5 proxy, the connection goes through it, and the proxy resolves.
 * on_done() is called once, by the loop, unless it is cancelled. Then nothing is in progress any
 * more, and the structure may be started again or freed. */
void outbound_start(const struct outbound_from *from, const struct policy_target *to,
		    struct outbound *o);
/* May be called at any time. */
void outbound_cancel(struct outbound *o);
/* Would the current policy allow a connection to this address? If not, *ret_why says why. */
bool outbound_complies(const struct policy *policy, const struct policy_target *to,
		       const struct ip *at, struct err *ret_why) MUST_USE;
