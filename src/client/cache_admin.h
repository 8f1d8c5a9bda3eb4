/* cache_admin.h - cordon packages cache ls|gc|verify|warm: what the package cache holds, and what
 * is done with it. For the operator. Called by verb_packages.c. */
#pragma once

#include "api_call.h"
#include "args.h"
#include "package_warm.h"

#define CACHE_ADMIN_NO_SIZE UINT64_MAX

struct cache_admin_options {
	const struct args_common *common;
	uint64_t to_bytes; /* of gc, which needs it: what may stay */
	struct package_warm warm;
};

/* words: what follows `packages cache`. Returns the exit code. */
int cache_admin_run(const struct verb *v, const struct cache_admin_options *o,
		    const char *const *words, size_t n);
