/* cache_admin.h - cordon packages cache ls|gc|verify|warm: the contents of the package cache, and
 * operations on it. For the operator. Called by verb_packages.c. */
#pragma once

#include "cmd/base/options.h"
#include "cmd/client/api_call.h"
#include "cmd/client/args.h"

/* cordon packages cache warm: fills the package cache with the packages of a lockfile.
 *
 * It makes a session, puts the lockfile and the files that its package manager wants beside it into
 * it, and runs that package manager there without installing anything. So the cache gets exactly
 * the files that a later session with nothing but the cache (mode offline-cache) asks for, under a
 * policy, on record, and no program of the server reads the lockfile. The template must have the
 * package manager. */
struct package_warm {
	const char *template;		  /* NULL: the server's default */
	const struct option_list *policy; /* none: the public registry of the lockfile */
	const struct option_list *allow;
	const struct option_list *env; /* of the package manager, as NAME=VALUE */
	uint64_t timeout_ms;
};

#define CACHE_ADMIN_NO_SIZE UINT64_MAX

struct cache_admin_options {
	const struct args_common *common;
	uint64_t to_bytes; /* of gc, which needs it: the bytes that may stay */
	struct package_warm warm;
};

/* words: what follows `packages cache`. Return the exit code. */
int cache_admin_run(const struct verb *v, const struct cache_admin_options *o,
		    const char *const *words, size_t n);
