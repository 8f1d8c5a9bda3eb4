/* outbound_judge.h - may this process connect to this address? Called by outbound.c right before
 * each connect(2). */
#pragma once

#include "policy.h"

struct outbound_judge {
	const struct policy *policy; /* the current one */
	const char *host;	     /* the name that resolved to the address; "": none */
	uint16_t port;
	/* Rules for addresses of layers above this one are asked. POLICY_NODE: none, they were
	 * asked already; POLICY_LAYERS: all, as a name led there. Of a proxy: the layer that set
	 * it, whose own rules are about what goes through the proxy. */
	enum policy_layer below;
};

/* False: *ret_why (ERR_DENIED) names the address and the reason. */
bool outbound_judge(const struct outbound_judge *j, const struct ip *ip,
		    struct err *ret_why) MUST_USE;
/* All addresses of a name: false if the rules for addresses deny one of them. A rule that denies an
 * address means the host there, which may have others. */
bool outbound_judge_all(const struct outbound_judge *j, const struct ip *ips, size_t n,
			struct err *ret_why) MUST_USE;
/* For a connection that was made: the address may have become one of this node meanwhile. */
bool outbound_judge_made(const struct outbound_judge *j, int fd, const struct ip *ip,
			 struct err *ret_why) MUST_USE;
