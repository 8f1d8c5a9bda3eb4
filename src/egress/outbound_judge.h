/* outbound_judge.h - may this address be connected to? Asked right before each connect(2). */
#pragma once

#include "policy.h"

struct outbound_judge {
	const struct policy *policy; /* of this moment */
	const char *host;	     /* that led there; "": none did */
	uint16_t port;
	/* Rules for addresses are asked as far as they are of layers above this one. POLICY_NODE:
	 * none, they were asked already; POLICY_LAYERS: all, a name led there. Of a proxy: whose
	 * it is, for his own rules are about what goes through it. */
	enum policy_layer below;
};

/* False, and *ret_why (ERR_DENIED) says which address, and what is wrong with it. */
bool outbound_judge(const struct outbound_judge *j, const struct ip *ip,
		    struct err *ret_why) MUST_USE;
/* All addresses of a name: false if the rules for addresses deny one of them. Who denies an address
 * means the host there, which may have others. */
bool outbound_judge_all(const struct outbound_judge *j, const struct ip *ips, size_t n,
			struct err *ret_why) MUST_USE;
/* The same of a connection that was made: an address can become one of this node meanwhile. */
bool outbound_judge_made(const struct outbound_judge *j, int fd, const struct ip *ip,
			 struct err *ret_why) MUST_USE;
