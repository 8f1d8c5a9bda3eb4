/* explain_package.h - how a policy decides on one package, layer by layer, as text. */
#pragma once

#include "err.h"
#include "policy.h"

struct explain_package {
	const char *package;  /* ECOSYSTEM:NAME or ECOSYSTEM:NAME@VERSION */
	const char *released; /* a date, or an age such as 3h; NULL: not told */
	bool scripts;	      /* it runs code when it is installed */
	bool source;	      /* it is built from source */
	bool direct;	      /* from a host that is no registry */
};

/* Prints it. 1: allowed, 0: refused, or it depends on what was not told; -1: the question is
 * malformed. */
int explain_package_print(const struct policy *p, const struct explain_package *from,
			  struct err *e) MUST_USE;
