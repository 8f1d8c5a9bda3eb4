/* egress_config.h - composes what cordon-egress is told of a session (egress_msg.h). Called by
 * session_egress.c when it is the session's turn. */
#pragma once

#include "json.h"
#include "session.h"

/* The text of EGRESS_CHANGE, or without a policy that of EGRESS_SECRETS, into an empty j, which is
 * wiped when it is released. *ret_cost: the bytes of it that count, those of secrets more than
 * once. */
int egress_config_write(struct session *s, const char *policy, struct json *j, size_t *ret_cost,
			struct err *e) MUST_USE;
