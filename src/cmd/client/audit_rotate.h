/* audit_rotate.h - cordon audit rotate: cordon-notary makes a new key, and every audit log gets it.
 */
#pragma once

#include "cmd/client/args.h"

/* Return the exit status. */
int audit_rotate_run(const struct verb *v, const struct args_common *o);
