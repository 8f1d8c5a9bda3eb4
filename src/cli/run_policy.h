/* run_policy.h - the network options of `cordon run`, as a request for cordon-egress. */
#pragma once

#include "buf.h"
#include "run_options.h"

/* Whether the command is to have network access at all. */
bool run_policy_is_wanted(const struct run_options *o);
/* Writes the session configuration (egress_msg.h). Only cordon-egress checks its policy. */
int run_policy_write(const struct run_options *o, struct buf *ret, struct err *e) MUST_USE;
