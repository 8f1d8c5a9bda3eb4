/* run_policy.h - what `cordon run` was told about the network, as an order for cordon-egress. */
#pragma once

#include "buf.h"
#include "run_options.h"

/* Whether the command shall have a way out at all. */
bool run_policy_is_wanted(const struct run_options *o);
/* The order (egress_msg.h). Whether its policy makes sense only cordon-egress can tell. */
int run_policy_write(const struct run_options *o, struct buf *ret, struct err *e) MUST_USE;
