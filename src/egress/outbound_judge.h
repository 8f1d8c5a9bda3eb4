/* outbound_judge.h - may this address be connected to? Asked right before each connect(2). */
#pragma once

#include "policy.h"

struct outbound_judge {
	const struct policy *policy; /* of this moment */
	const char *host;	     /* that led there; "": none did */
	uint16_t port;
	bool chosen; /* the rules were not asked about the address itself yet: a name led there, or it
			is a proxy's */
};

/* False, and *ret_why (ERR_DENIED) says which address, and what is wrong with it. */
bool outbound_judge(const struct outbound_judge *j, const struct ip *ip,
		    struct err *ret_why) MUST_USE;
/* The same of a connection that was made: an address can become one of this node meanwhile. */
bool outbound_judge_made(const struct outbound_judge *j, int fd, const struct ip *ip,
			 struct err *ret_why) MUST_USE;
