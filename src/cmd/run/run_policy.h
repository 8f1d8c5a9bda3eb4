/* run_policy.h - the network options of `cordon run`, as a request for cordon-egress. */
#pragma once

#include "cmd/run/run_options.h"
#include "lib/base/buf.h"

/* Whether the command is to have network access at all. */
bool run_policy_is_wanted(const struct run_options *o);
/* Write the session configuration (egress_msg.h). Only cordon-egress checks its policy. */
int run_policy_write(const struct run_options *o, struct buf *ret, struct err *e) MUST_USE;
