/* gateway_judge.h - what the policy says about the request under way, and which secrets its server
 * can know. Called by gateway_request.c, and by gateway.c when the policy changes. */
#pragma once

#include "gateway_base.h"

/* Asks the policy; sets rule, looks, allowed and (if it is refused) reason. Returns allowed. */
bool gateway_judge(struct gateway *x);
/* Sets knows and known: the secret values the server of this request can know. */
void gateway_know(struct gateway *x);
