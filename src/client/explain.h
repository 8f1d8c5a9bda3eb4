/* explain.h - how a policy decides on one destination, stage by stage, as text. */
#pragma once

#include "err.h"
#include "policy.h"

struct explain_question {
	const char *host; /* as typed: a name or an address */
	uint16_t port;
	const char *method, *path; /* path as typed, perhaps with a query */
	bool plain;		   /* not over TLS */
};

/* Prints it. 1: allowed, 0: refused; -1: the question is malformed. */
int explain_print(const struct policy *p, const struct explain_question *q, struct err *e) MUST_USE;
