/* gateway_judge.h - what the policy says about the request under way, and which secrets its server
 * can know. Called by gateway_request.c, and by gateway.c when the policy changes. */
#pragma once

#include "gateway_base.h"

/* Asks the policy; sets rule, inspected, allowed and (if it is refused) reason. Returns allowed. */
bool gateway_judge(struct gateway *x);
/* Sets server_knows and known_secrets: the secret values the server of this request can know. */
void gateway_find_known(struct gateway *x);
