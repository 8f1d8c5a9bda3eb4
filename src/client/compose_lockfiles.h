/* compose_lockfiles.h - the option --lockfile of `create` and `run --server`: pins of a session. */
#pragma once

#include <jansson.h>

#include "options.h"

/* Adds the pins of lockfiles to the policy in body, which must have one, and its mode, which is
 * pinned unless the policy has another. */
int compose_lockfiles(json_t *body, const char *member, const struct option_list *files,
		      struct err *e) MUST_USE;
