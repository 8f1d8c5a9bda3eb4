/* package_warm.h - cordon packages cache warm: fills the package cache with what a lockfile names.
 *
 * It makes a session, puts the lockfile and the files that its package manager wants beside it into
 * it, and runs that package manager there without installing anything. So the cache gets exactly
 * what a later session asks for that may only use the cache (mode offline-cache), under a policy,
 * on record, and no program of the server reads the lockfile. The template must have the package
 * manager. Called by cache_admin.c. */
#pragma once

#include "api_call.h"
#include "options.h"

struct package_warm {
	const char *template;		  /* NULL: the server's default */
	const struct option_list *policy; /* none: the public registry of the lockfile */
	const struct option_list *allow;
	const struct option_list *env; /* of the package manager, as NAME=VALUE */
	uint64_t timeout_ms;
};

/* Prints what was downloaded and what was refused. ERR_INVALID: no lockfile that is known. */
int package_warm(struct api_call *a, const struct package_warm *w, const char *path,
		 struct err *e) MUST_USE;
