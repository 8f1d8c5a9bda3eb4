/* gateway_judge.h - the policy's verdict on the present request, and the secrets its server can
 * know. Called by gateway_request.c, and by gateway.c when the policy changes. */
#pragma once

#include "egress/gateway/gateway_base.h"

/* Ask the policy. Set rule, inspected, allowed and (if it is refused) reason. Return allowed. */
bool gateway_judge(struct gateway *x);
/* Set server_knows and known_secrets: the secret values the server of this request can know. */
void gateway_find_known(struct gateway *x);
